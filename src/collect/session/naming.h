/* Names of snapshot files. Pure; any thread. */
#ifndef MP_COLLECT_NAMING_H
#define MP_COLLECT_NAMING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/member.h"

struct mp_naming {
    const char *pattern; /* absolute; in its last part %p pid, %r rank, %h host, %t time, %c cycle, %% */
    const char *host;
    uint64_t start_unix_s;
    unsigned cycle;
};

/* True where two processes can never get one name from the pattern. */
bool mp_naming_separates_processes(const char *pattern);
/* True where each cycle of a schedule gets a name of its own. */
bool mp_naming_separates_cycles(const char *pattern);

/* The file name for process `pid`; freed by the caller, NULL where memory is short. `number` 0 is the plain name; n > 0
 * is the n-th of those that must differ: run.mp, run.PID.mp, run.PID.2.mp, ... */
char *mp_naming_path(const struct mp_naming *naming, uint32_t pid, const struct mp_member *member, unsigned number);

#endif
