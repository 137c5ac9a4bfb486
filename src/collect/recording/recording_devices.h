/*
 * The devices of one process's recording: their identity, and the watch's readings as samples.
 *
 *     cuda:N/device    in use on the device, by everybody
 *     cuda:N/process   by this process; absent where NVML does not report it
 *     cuda:N/others    by other processes; absent likewise
 *     cuda:N/before    once, at 0: in use before the command ran
 *     cuda:N/system    once, at 0: the part of that held by no process
 *
 * N is the device's number in the process. One thread at a time.
 */
#ifndef MP_COLLECT_RECORDING_DEVICES_H
#define MP_COLLECT_RECORDING_DEVICES_H

#include "collect/device/device_watch.h"

#define MP_DEVICES_SEEN 16 /* ordinals followed */

struct mp_device_samples {
    struct mp_device_watch *watch; /* not owned; NULL: nothing is read */
    uint64_t cursor;
    uint64_t tracks_seen;
    uint32_t changed; /* the spool's devices_changed, as last seen */
    bool any;
    char *visible, *order; /* the process's CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, owned; NULL: not set */
    struct mp_device_seen {
        bool used, begun, named, has_total, has_process;
        bool described;                     /* the tables say which device it is */
        int gpu;                            /* -1: unknown */
        uint64_t used_bytes, process_bytes; /* as last read; MP_BYTES_UNKNOWN */
    } devices[MP_DEVICES_SEEN];
};

struct mp_recording;

/* Called when the process has just connected, while its original environment can be read. `watch`: not owned; NULL:
 * nothing is read. */
void mp_device_samples_begin(struct mp_recording *recording, struct mp_device_watch *watch);
/* Called once per round: takes new devices and new readings; reads at once where the recorder reports that something
 * took memory. */
void mp_device_samples_round(struct mp_recording *recording);
/* Adds notes on missing data, before coverage is written. */
void mp_device_samples_notes(struct mp_recording *recording);
void mp_device_samples_free(struct mp_device_samples *samples);

#endif
