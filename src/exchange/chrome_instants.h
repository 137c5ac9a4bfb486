/* The "[memory]" and "[OutOfMemory]" events of a recording, as PyTorch's profiler tells of its allocators. */
#ifndef MP_EXCHANGE_CHROME_INSTANTS_H
#define MP_EXCHANGE_CHROME_INSTANTS_H

#include "exchange/chrome_events.h"
#include "exchange/chrome_trace.h"

/* Of the uppermost layer of each device, as the format has one allocator a device; blocks whose size is not known have
 * none. Failures come with the total. Those that a trace to merge into has already are not written again. */
enum mp_status mp_chrome_instants(const struct mp_chrome_query *query, uint32_t pid, uint64_t shift_ns,
                                  struct mp_chrome *chrome, uint64_t *left_out, struct mp_error *error);

#endif
