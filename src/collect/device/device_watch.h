/*
 * Reads the machine's devices repeatedly while a recording asks for readings. A separate thread does so, since NVML may
 * take milliseconds, in which rings would fill up. One watch serves all recordings of a session.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/device/nvml.h"

struct mp_device_watch;

struct mp_device_reading {
    uint64_t begun_ns, ended_ns; /* CLOCK_MONOTONIC, around the call of NVML */
    unsigned gpu;                /* index into mp_device_watch_gpus() */
    struct mp_gpu_use use;
};

/* Starts reading. Returns once each device was read, so that readings exist before the command runs. Waits at most two
 * seconds, and not at all without a driver. NULL if memory is short: all functions below accept NULL and report that
 * nothing is known. */
struct mp_device_watch *mp_device_watch_open(void);
void mp_device_watch_close(struct mp_device_watch *watch);
/* Like fork(). In the child, the watch keeps its present readings and gets no new ones. `watch` may be NULL. */
pid_t mp_device_watch_fork(struct mp_device_watch *watch);

/* The devices; NULL: not known (yet). Once known they do not change. */
const struct mp_gpus *mp_device_watch_gpus(struct mp_device_watch *watch);
/* Writes a sentence about a problem with NVML; "" if there is none. */
void mp_device_watch_trouble(struct mp_device_watch *watch, char *text, size_t room);

/* Asks for readings from now on. `at_once`: also reads now, because a context or module has just taken device
 * memory. */
void mp_device_watch_ask(struct mp_device_watch *watch, bool at_once);
/* The first reading of a device in this session; false: there is none. */
bool mp_device_watch_first(struct mp_device_watch *watch, unsigned gpu, struct mp_device_reading *reading);
/* The next reading after *cursor (0 at first), which moves on; false: there is none yet. */
bool mp_device_watch_next(struct mp_device_watch *watch, uint64_t *cursor, struct mp_device_reading *reading);
