/*
 * Probes without BPF, if the kernel refuses it: perf events at the same instructions, whose samples have the thread's
 * registers and stack. They see no Python frames and no results of calls. They see every block, without sampling. The
 * kernel sets these probes in each process that maps the file; events of other processes are dropped here. One thread
 * at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/attach_event.h"

struct mp_attach_perf;

/* Gets each event with its stack, like the callback of BPF's ring buffer. */
typedef int mp_attach_take(void *context, void *event, size_t bytes);

/* Opens probes for process `pid`, in this process's namespace. NULL with errno: the kernel refuses these, too. */
struct mp_attach_perf *mp_attach_perf_open(uint32_t pid);
void mp_attach_perf_close(struct mp_attach_perf *perf); /* NULL: nothing happens */

/* Sets a probe at byte `offset` of `file`. `cookie` must not have MP_ATTACH_RETURNS. Returns 0 or an errno. */
int mp_attach_perf_probe(struct mp_attach_perf *perf, const char *file, uint64_t offset, uint64_t cookie);
/* Removes the probes with that cookie. */
void mp_attach_perf_stop(struct mp_attach_perf *perf, uint64_t cookie);

/* Delivers events in order of time, up to `before_ns` (CLOCK_MONOTONIC). */
void mp_attach_perf_consume(struct mp_attach_perf *perf, uint64_t before_ns, mp_attach_take *take, void *context);
uint64_t mp_attach_perf_dropped(const struct mp_attach_perf *perf);
