/*
 * NVIDIA's management library, opened if present: the machine's devices, how much of their memory is in use, and by
 * whom. Its use makes no context. nvml.c has the needed numbers and layouts of nvml.h. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct mp_nvml;

/* A GPU as a program sees it: a whole GPU, or an instance of a partitioned GPU (MIG). */
struct mp_gpu {
    char uuid[96], name[96];
    uint64_t total_bytes;
    unsigned physical; /* the number of the whole GPU, in bus order */
    bool is_instance;
    void *handle; /* of NVML */
};

struct mp_gpus {
    struct mp_gpu *at;
    size_t count, room;
};

struct mp_gpu_process {
    uint32_t pid;
    uint64_t bytes; /* MP_BYTES_UNKNOWN if the driver does not report it */
};

/* The processes that use a device. Processes beyond MP_GPU_PROCESSES are left out. `sum_known` is false then, and if
 * any size is unknown. */
#define MP_GPU_PROCESSES 128
struct mp_gpu_use {
    uint64_t used_bytes; /* used on the whole device, by all processes and by the driver itself; MP_BYTES_UNKNOWN: not
                          * known */
    bool sum_known;
    unsigned process_count;
    struct mp_gpu_process processes[MP_GPU_PROCESSES];
};

/* MP_NOT_FOUND: there is no library, so no driver; MP_UNSUPPORTED: the library does not work; the error has the reason.
 * May take seconds. */
enum mp_status mp_nvml_open(struct mp_nvml **nvml, struct mp_error *error);
void mp_nvml_close(struct mp_nvml *nvml);

/* The driver's version ("580.65.06") and the CUDA version that it supports (13000); "" and 0 if unknown. */
void mp_nvml_versions(struct mp_nvml *nvml, char driver[80], int *cuda);
/* Lists the GPUs. The instances of a partitioned GPU take its place. */
enum mp_status mp_nvml_gpus(struct mp_nvml *nvml, struct mp_gpus *gpus, struct mp_error *error);
void mp_nvml_use(struct mp_nvml *nvml, const struct mp_gpu *gpu, struct mp_gpu_use *use);

/* The GPU of `gpus` that a process knows as device `ordinal`, by its CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER (NULL:
 * not set); -1 if that cannot be determined. */
int mp_gpu_of_ordinal(const struct mp_gpus *gpus, const char *visible, const char *order, int ordinal);
