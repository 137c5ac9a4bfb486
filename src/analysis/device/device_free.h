/*
 * A device's free memory at events, which are asked for in order. It is the device's total, less the driver's blocks,
 * less all other use. Other use (contexts, modules, other processes) comes from the nearest reading in time. Pure.
 */
#pragma once

#include "analysis/sites/level.h"

struct mp_device_free {
    const struct mp_model *model;
    uint64_t total;   /* MP_BYTES_UNKNOWN: total and free memory are unknown */
    uint32_t counter; /* the device's counter, a string id */
    uint16_t driver;
    struct mp_level handed_out;
    uint64_t beyond, beyond_ns; /* other use according to the last reading, and that reading's time; MP_BYTES_UNKNOWN:
                                 * no reading yet */
    size_t next;                /* reading */
    uint32_t events;            /* applied */
};

/* `driver`: the track of the driver's memory; MP_TRACK_NONE: nothing is known. */
void mp_device_free_start(struct mp_device_free *room, const struct mp_model *model, uint16_t driver);
/* Applies the next event. Call it once for each event, in order. */
void mp_device_free_follow(struct mp_device_free *room, uint32_t event);
/* The free memory after the events so far; MP_BYTES_UNKNOWN: not known. The time is proportional to the events up to
 * the next reading. */
uint64_t mp_device_free_now(const struct mp_device_free *room);
