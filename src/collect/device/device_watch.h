/*
 * The devices of the machine, read repeatedly while somebody wants it, on a thread of its own: NVML may take
 * milliseconds, in which rings would run full. One for all recordings of a session.
 */
#ifndef MP_COLLECT_DEVICE_WATCH_H
#define MP_COLLECT_DEVICE_WATCH_H

#include <sys/types.h>

#include "collect/device/nvml.h"

struct mp_device_watch;

struct mp_device_reading {
    uint64_t begun_ns, ended_ns; /* CLOCK_MONOTONIC, around the call of NVML */
    unsigned gpu;                /* index into mp_device_watch_gpus() */
    struct mp_gpu_use use;
};

/* Starts reading. Returns when each device was read once, so before the command runs; after two seconds at the
 * latest; at once where there is no driver. NULL where memory is short: all functions below then report that nothing
 * is known. */
struct mp_device_watch *mp_device_watch_open(void);
void mp_device_watch_close(struct mp_device_watch *watch);
/* As fork(); the child has the watch as it is now, which nobody reads any further. `watch` may be NULL. */
pid_t mp_device_watch_fork(struct mp_device_watch *watch);

/* NULL: not known (yet). Does not change once it is there. */
const struct mp_gpus *mp_device_watch_gpus(struct mp_device_watch *watch);
/* A sentence; "" while nothing is wrong. */
void mp_device_watch_trouble(struct mp_device_watch *watch, char *text, size_t room);

/* From now on the devices are read in turns; `at_once`: something has just taken device memory. */
void mp_device_watch_ask(struct mp_device_watch *watch, bool at_once);
/* The first reading of a device in this session; false: there is none. */
bool mp_device_watch_first(struct mp_device_watch *watch, unsigned gpu, struct mp_device_reading *reading);
/* The next reading after *cursor (0 at first), which moves on; false: there is none yet. */
bool mp_device_watch_next(struct mp_device_watch *watch, uint64_t *cursor, struct mp_device_reading *reading);

#endif
