/* The lines that stand on stderr when an allocator has run out of memory. */
#ifndef MP_CLI_AUTOPSY_H
#define MP_CLI_AUTOPSY_H

#include <stdint.h>

/* Of the first out-of-memory event at or after `oom_ns` in the recording at `path`, which is called `shown`. Says
 * nothing where the file cannot be read or has no such event. */
void mp_autopsy(const char *path, const char *shown, uint64_t oom_ns);

#endif
