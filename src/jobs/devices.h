/* The devices of a job, and who holds them. Pure. */
#pragma once

#include "model/model.h"

/* A device that several processes use, with the sum of their curves. */
struct mp_job_device {
    uint32_t host, device, uuid;
    uint8_t layer; /* layer of the summed tracks */
    uint32_t processes;
    uint64_t most;       /* the highest sum of the curves; each counts with its highest level within `unit_ns` */
    uint64_t at_unix_ns; /* begin of the `unit_ns` with the highest sum */
    uint64_t unit_ns;
    uint64_t separate;    /* the sum of the highest levels of the curves, even if they lie at different times */
    uint64_t total_bytes; /* the device's; MP_BYTES_UNKNOWN */
};

struct mp_job_devices {
    struct mp_job_device *at; /* the fullest first; freed by the caller */
    size_t count, room;
};

/* Fills *devices, which starts empty. */
void mp_job_devices_find(const struct mp_model *model, struct mp_job_devices *devices);
