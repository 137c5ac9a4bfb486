/*
 * Probes without BPF, for where the kernel refuses it: perf events at the same instructions, whose samples carry the
 * thread's registers and stack. They see no Python frames, nothing that a call returns, and every block: there is no
 * sampling. The kernel sets them in each process that maps the file; events of other processes are left out here. One
 * thread at a time.
 */
#ifndef MP_ATTACH_PERF_H
#define MP_ATTACH_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/attach_event.h"

struct mp_attach_perf;

/* Gets each event, followed by its stack: like the callback of BPF's ring buffer. */
typedef int mp_attach_take(void *context, void *event, size_t bytes);

/* For the process `pid` (as this process numbers it). NULL with errno: the kernel refuses that, too. */
struct mp_attach_perf *mp_attach_perf_open(uint32_t pid);
void mp_attach_perf_close(struct mp_attach_perf *perf); /* NULL: nothing happens */

/* Sets a probe at the byte `offset` of `file`; `cookie` has no MP_ATTACH_RETURNS. 0 or an errno. */
int mp_attach_perf_probe(struct mp_attach_perf *perf, const char *file, uint64_t offset, uint64_t cookie);
/* Takes the probes with that cookie away. */
void mp_attach_perf_stop(struct mp_attach_perf *perf, uint64_t cookie);

/* Delivers what has happened, in order of time: up to `before_ns` (CLOCK_MONOTONIC). */
void mp_attach_perf_consume(struct mp_attach_perf *perf, uint64_t before_ns, mp_attach_take *take, void *context);
uint64_t mp_attach_perf_dropped(const struct mp_attach_perf *perf);

#endif
