/*
 * Probes without BPF, if the kernel refuses it: perf events at the same instructions, whose samples have the thread's
 * registers and stack. They see no Python frames and no results of calls. They see every block, without sampling. Each
 * thread of the process has its own; no other process has any. One thread at a time.
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

/* Sets a probe at byte `offset` of the open file, in all threads; the file stays open. `cookie` must not have
 * MP_ATTACH_RETURNS. Returns 0 or an errno (EMFILE: too many threads on too many CPUs). */
int mp_attach_perf_probe(struct mp_attach_perf *perf, int file, uint64_t offset, uint64_t cookie);
/* The number of threads that began since then: the kernel tells of each afterwards, and its first calls are missed. */
uint64_t mp_attach_perf_late(const struct mp_attach_perf *perf);
/* Removes the probes with that cookie. */
void mp_attach_perf_stop(struct mp_attach_perf *perf, uint64_t cookie);

/* Delivers events in order of time, up to `before_ns` (CLOCK_MONOTONIC). */
void mp_attach_perf_consume(struct mp_attach_perf *perf, uint64_t before_ns, mp_attach_take *take, void *context);
/* True if the process put another program in its place (exec). */
bool mp_attach_perf_replaced(const struct mp_attach_perf *perf);
uint64_t mp_attach_perf_dropped(const struct mp_attach_perf *perf);
