/*
 * NVIDIA's management library, opened when it is there: which devices a machine has, how much of their memory is in
 * use, and by whom. It makes no context of its own. Numbers and layouts that are needed of nvml.h stand in nvml.c.
 * One thread at a time.
 */
#ifndef MP_COLLECT_NVML_H
#define MP_COLLECT_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"

struct mp_nvml;

/* A GPU as a program sees it: a whole one, or an instance of one that is cut up (MIG). */
struct mp_gpu {
    char uuid[96], name[96];
    uint64_t total_bytes;
    unsigned physical; /* which whole GPU, in the order of the bus */
    bool is_instance;
    void *handle; /* of NVML */
};

struct mp_gpus {
    struct mp_gpu *at;
    size_t count, room;
};

struct mp_gpu_process {
    uint32_t pid;
    uint64_t bytes; /* MP_BYTES_UNKNOWN where the driver does not tell */
};

/* Who uses a device. More than fit are left out; `sum_known` is false then, or where a size is not known. */
#define MP_GPU_PROCESSES 128
struct mp_gpu_use {
    uint64_t used_bytes; /* of the whole device, by everybody and by the driver itself; MP_BYTES_UNKNOWN */
    bool sum_known;
    unsigned process_count;
    struct mp_gpu_process processes[MP_GPU_PROCESSES];
};

/* MP_NOT_FOUND: there is no library, so no driver; MP_UNSUPPORTED: it does not work, and says why. May take seconds. */
enum mp_status mp_nvml_open(struct mp_nvml **nvml, struct mp_error *error);
void mp_nvml_close(struct mp_nvml *nvml);

/* The driver's version ("580.65.06") and the CUDA version that it can do (13000); "" and 0 where not known. */
void mp_nvml_versions(struct mp_nvml *nvml, char driver[80], int *cuda);
/* Instances in place of a GPU that is cut up. */
enum mp_status mp_nvml_gpus(struct mp_nvml *nvml, struct mp_gpus *gpus, struct mp_error *error);
void mp_nvml_use(struct mp_nvml *nvml, const struct mp_gpu *gpu, struct mp_gpu_use *use);

/* Which of `gpus` a process knows as device `ordinal`, by its CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER (NULL: not
 * set); -1 where that cannot be told. */
int mp_gpu_of_ordinal(const struct mp_gpus *gpus, const char *visible, const char *order, int ordinal);

#endif
