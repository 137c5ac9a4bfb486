/*
 * Uses of a device's memory when this process used most of it: the device's total as NVML told it, taken
 * apart into what the recording knows and a rest. Pure; the result is the caller's.
 *
 * The moment. Of all readings of the total (samples "cuda:N/device") at which nothing was being handed out (none of the
 * tracks below changed within QUIET_NS before or after), the one at which this process had most; where no reading was
 * quiet, of all; none that was read after the process had ended. Both sides of the difference are of that moment: the
 * recording is exact at any time, the total is not. Without readings: the moment at which most was handed out; what
 * needs the total is then MP_BYTES_UNKNOWN.
 *
 * Handed out by the driver: blocks of cuda:N/driver, what its pools and its graphs hold of the device (reserved totals
 * of cuda:N/driver/pool and /graph); at least what PyTorch's allocator holds, which is all that is known without a
 * driver track. Managed, imported and mapped memory is none of it.
 *
 * The parts add up to in_use_bytes where that is known, unless more was handed out than the total says
 * (`beyond_bytes`).
 */
#ifndef MP_ANALYSIS_DEVICE_USE_H
#define MP_ANALYSIS_DEVICE_USE_H

#include "base/vec.h"
#include "model/model.h"

enum mp_part_kind {
    MP_PART_TENSORS,      /* blocks of the framework's allocator */
    MP_PART_CACHED,       /* what it holds beside them */
    MP_PART_LIBRARY,      /* handed out by the driver to somebody else: `name` is that library's */
    MP_PART_POOL_FREE,    /* what the driver's pools and graphs hold beside their blocks */
    MP_PART_CONTEXT,      /* grew when a context was made */
    MP_PART_MODULES,      /* grew when modules or libraries were loaded */
    MP_PART_HANDLES,      /* grew when streams, events or graphs were made */
    MP_PART_OTHERS,       /* other processes */
    MP_PART_SYSTEM,       /* the driver itself, before any process */
    MP_PART_BEFORE,       /* in use before the command ran, where it is not known by whom */
    MP_PART_UNATTRIBUTED, /* the rest */
    MP_PARTS
};

struct mp_device_part {
    enum mp_part_kind kind;
    const char *name; /* for a library: its own; else what the kind is called */
    uint64_t bytes;
};

/* An allocator that cuts up out of sight what the driver gave it, and how that is opened. */
struct mp_hidden_allocator {
    const char *name, *advice;
    uint64_t bytes;
};

struct mp_device_use {
    uint32_t device; /* index of model->devices */
    bool sampled, quiet;
    uint32_t moment; /* events that had happened */
    uint64_t at_ns;
    uint64_t in_use_bytes, process_bytes, others_bytes; /* MP_BYTES_UNKNOWN where nobody told */
    uint64_t handed_out_bytes;
    uint64_t unattributed_bytes; /* MP_BYTES_UNKNOWN where the total is not known */
    uint64_t beyond_bytes;
    MP_VEC(struct mp_device_part) parts;       /* none is 0 */
    MP_VEC(struct mp_hidden_allocator) hidden; /* those that hold a twentieth of what was handed out */
};

struct mp_device_uses {
    struct mp_device_use *at; /* one a CUDA device that has tracks */
    size_t count, room;
};

bool mp_device_uses_find(const struct mp_model *model, struct mp_device_uses *uses);
/* Of all devices; MP_BYTES_UNKNOWN where none is known. */
uint64_t mp_device_unattributed(const struct mp_device_uses *uses);
void mp_device_uses_free(struct mp_device_uses *uses);

#endif
