/*
 * Makes a model from an allocator's calls that another program logged: allocs and frees by address, out-of-memories,
 * reserved totals, regions and marks. Times may come in any order; calls of equal time keep the order in which they
 * were given.
 *
 * A free of an address that is not live frees a block of the base, of the size that the free gives. An
 * alloc at the address of a live block first ends that block. Both cases are counted. Zero-initialised is ready for
 * use; one thread at a time.
 */
#pragma once

#include "exchange/common/import_tables.h"

struct mp_import_call {
    int64_t ns;
    uint64_t address, bytes; /* bytes: MP_BYTES_UNKNOWN for a free of an unknown size */
    uint32_t thread, stack, name;
    uint16_t track;
    uint8_t type; /* enum mp_event_type: alloc, free, oom, reserved, region_begin, region_end, mark */
    uint8_t kind;
    bool base; /* the free of a block of the base. This field and those below are set by the functions below */
    uint64_t block;
    uint32_t order;
};

struct mp_import_log {
    struct mp_import_tables tables;
    struct mp_map thread_ids; /* by tid + 1 */
    struct mp_map track_ids;
    MP_VEC(struct mp_import_call) calls;
    MP_VEC(uint32_t) notes; /* string ids */
    const char *format;     /* of the model, such as "rmm" */
    uint32_t command;       /* string id; 0: unknown */
    uint32_t pid;
    bool dated; /* unix_ns, the UNIX time of the calls' time 0, is known */
    int64_t unix_ns;
    bool overlong; /* more devices or tracks than a log may have */
};

void mp_import_call(struct mp_import_log *log, const struct mp_import_call *call);
void mp_import_note(struct mp_import_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The number of a device's track, which is made at its first use. `name`: "" for the device's main track. */
uint16_t mp_import_track(struct mp_import_log *log, unsigned device_type, int device, enum mp_layer layer,
                         const char *name);
/* The number of a thread, which is made at its first use. */
uint32_t mp_import_thread(struct mp_import_log *log, uint32_t tid);

/* Makes the model; the caller frees it. The log must have at least one call. MP_LIMIT: it has too many devices, tracks
 * or calls. */
enum mp_status mp_import_log_model(struct mp_import_log *log, const char *path, struct mp_model **model,
                                   struct mp_error *error);
void mp_import_log_free(struct mp_import_log *log);
