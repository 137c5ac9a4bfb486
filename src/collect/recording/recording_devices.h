/*
 * The devices of one process's recording: their identity, and readings of mp_device_watch as samples. These are the
 * counters of the samples:
 *
 *     cuda:N/device    in use on the device, by everybody
 *     cuda:N/process   by this process; absent where NVML does not report it
 *     cuda:N/others    by other processes; absent likewise
 *     cuda:N/before    once, at 0: in use before the command ran
 *     cuda:N/system once, at 0: the part of before that no process holds
 *
 * N is the device's number in the process. One thread at a time.
 */
#pragma once

#include "collect/recording/recorded.h"

/* Call it when the process has just connected, while its original environment can be read. The caller keeps `watch`;
 * NULL: no readings. */
void mp_device_samples_begin(struct mp_recording *recording, struct mp_device_watch *watch);

/* Call it once per round: takes new devices and new readings. Asks for an immediate reading if the recorder reports a
 * new context or module on a device. */
void mp_device_samples_round(struct mp_recording *recording);

/* Adds notes on missing data. Call it before coverage is written. */
void mp_device_samples_notes(struct mp_recording *recording);
void mp_device_samples_free(struct mp_device_samples *samples);
