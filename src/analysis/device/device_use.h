/*
 * The uses of a device's memory at the moment when this process used most of it: They are NVML's total for the device,
 * divided into known parts and a rest. Pure; the result is the caller's.
 *
 * The moment. A reading of the total (a sample "cuda:N/device") is quiet if none of the tracks below changed within
 * QUIET_NS before or after. The moment is the quiet reading at which this process had most memory. Without quiet
 * readings, any reading counts. Readings from before the process had memory, or from after its end, never count. Both
 * the total and the recorded bytes are those of that moment. The recorded bytes are exact at any time, the total is
 * not. Without readings, the moment is when the driver's memory was highest. Numbers that need the total are then
 * MP_BYTES_UNKNOWN.
 *
 * Memory from the driver: blocks of cuda:N/driver, and the device memory of its pools and graphs (reserved totals of
 * cuda:N/driver/pool and /graph). It is at least the total of PyTorch's allocator. Without a driver track, only that
 * total is known. Managed, imported and mapped memory does not count.
 *
 * The parts add up to in_use_bytes if that is known. The exception is a total below the driver's memory
 * (`beyond_bytes`).
 */
#pragma once

#include "base/vec.h"
#include "model/model.h"

enum mp_part_kind {
    MP_PART_TENSORS,      /* blocks of the framework's allocator */
    MP_PART_CACHED,       /* the rest of the allocator's memory */
    MP_PART_LIBRARY,      /* memory that the library `name` got from the driver */
    MP_PART_POOL_FREE,    /* memory of the driver's pools and graphs outside of blocks */
    MP_PART_CONTEXT,      /* growth of the total when a context was made */
    MP_PART_MODULES,      /* growth of the total when modules or libraries were loaded */
    MP_PART_HANDLES,      /* growth of the total when streams, events or graphs were made */
    MP_PART_OTHERS,       /* other processes */
    MP_PART_SYSTEM,       /* the driver itself, before any process */
    MP_PART_BEFORE,       /* used before the command ran, by unknown users */
    MP_PART_UNATTRIBUTED, /* the rest */
    MP_PARTS
};

struct mp_device_part {
    enum mp_part_kind kind;
    const char *name; /* a library's own name; else the kind's name */
    uint64_t bytes;
};

/* An allocator that divides the driver's memory invisibly, and the switch that makes its blocks visible. */
struct mp_hidden_allocator {
    const char *name, *advice;
    uint64_t bytes;
};

struct mp_device_use {
    uint32_t device; /* index into model->devices */
    bool sampled, quiet;
    uint32_t moment; /* number of past events */
    uint64_t at_ns;
    uint64_t in_use_bytes, process_bytes, others_bytes; /* MP_BYTES_UNKNOWN: not reported */
    uint64_t handed_out_bytes;
    uint64_t most_bytes, most_ns; /* the most memory from the driver, and when */
    uint64_t unattributed_bytes;  /* MP_BYTES_UNKNOWN: the total is unknown */
    uint64_t beyond_bytes;
    MP_VEC(struct mp_device_part) parts;       /* none is 0 */
    MP_VEC(struct mp_hidden_allocator) hidden; /* only allocators with at least a twentieth of the driver's memory */
};

struct mp_device_uses {
    struct mp_device_use *at; /* one for each CUDA device with tracks */
    size_t count, room;
};

void mp_device_uses_find(const struct mp_model *model, struct mp_device_uses *uses);
/* The sum over all devices; MP_BYTES_UNKNOWN if none is known. */
uint64_t mp_device_unattributed(const struct mp_device_uses *uses);
void mp_device_uses_free(struct mp_device_uses *uses);
