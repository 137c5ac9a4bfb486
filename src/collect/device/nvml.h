/*
 * NVIDIA's management library, opened if present: the machine's devices, how much of their memory is in use, and by
 * whom. It makes no context. The needed numbers and layouts of nvml.h are in nvml.c. One thread at a time.
 */
#ifndef MP_COLLECT_NVML_H
#define MP_COLLECT_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"

struct mp_nvml;

/* A GPU as a program sees it: a whole one, or an instance of a partitioned one (MIG). */
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
    uint64_t bytes; /* MP_BYTES_UNKNOWN where the driver does not report it */
};

/* The users of a device. Those that do not fit are left out; `sum_known` is then false, as where a size is unknown. */
#define MP_GPU_PROCESSES 128
struct mp_gpu_use {
    uint64_t used_bytes; /* of the whole device, by all processes and by the driver itself; MP_BYTES_UNKNOWN */
    bool sum_known;
    unsigned process_count;
    struct mp_gpu_process processes[MP_GPU_PROCESSES];
};

/* MP_NOT_FOUND: there is no library, so no driver; MP_UNSUPPORTED: it does not work, with the reason. May take
 * seconds. */
enum mp_status mp_nvml_open(struct mp_nvml **nvml, struct mp_error *error);
void mp_nvml_close(struct mp_nvml *nvml);

/* The driver's version ("580.65.06") and the CUDA version that it supports (13000); "" and 0 where unknown. */
void mp_nvml_versions(struct mp_nvml *nvml, char driver[80], int *cuda);
/* Lists a partitioned GPU's instances in its place. */
enum mp_status mp_nvml_gpus(struct mp_nvml *nvml, struct mp_gpus *gpus, struct mp_error *error);
void mp_nvml_use(struct mp_nvml *nvml, const struct mp_gpu *gpu, struct mp_gpu_use *use);

/* The GPU of `gpus` that a process knows as device `ordinal`, by its CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER (NULL:
 * not set); -1 where that cannot be determined. */
int mp_gpu_of_ordinal(const struct mp_gpus *gpus, const char *visible, const char *order, int ordinal);

#endif
