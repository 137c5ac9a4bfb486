/* Converts a snapshot that was read and replayed to a model. Its annotations become steps and regions. Private to the
 * snapshot's loader. One thread at a time. */
#pragma once

#include "exchange/pytorch/pytorch_records.h"
#include "exchange/pytorch/pytorch_replay.h"
#include "model/model.h"

/* An annotation's start or end. PyTorch keeps one list of these for all threads, without thread ids. Spans that do not
 * nest are put on different lanes, so that each lane nests. */
struct mp_pytorch_mark {
    int64_t time_us;
    uint32_t name; /* text id */
    uint32_t lane;
    uint32_t order; /* on its lane */
    uint8_t type;   /* enum mp_event_type: step, region begin, region end */
};

struct mp_pytorch_marks {
    struct mp_pytorch_mark *at; /* in order of time */
    size_t count, room;
    uint32_t lanes; /* at least 1 */
};

struct mp_pytorch_snapshot {
    struct mp_pytorch_records records;
    MP_VEC(struct mp_pytorch_device) devices;
    struct mp_pytorch_marks marks;
    char *settings;   /* the allocator's, as key=value,key=value */
    uint64_t strange; /* invalid items of lists */
    bool any_segments;
    bool says_overflow, overflowed; /* the settings say whether the ring overflowed; the ring did overflow */
};

/* Makes the model of a snapshot. Afterwards the records can only be freed. MP_LIMIT: it has too many rows. */
enum mp_status mp_pytorch_model(struct mp_pytorch_snapshot *snapshot, uint64_t file_bytes, struct mp_model **model,
                                struct mp_error *error);

/* The allocator's settings (a dictionary; another value has none) as key=value,key=value; the caller frees it. */
char *mp_pytorch_settings(struct mp_values *values, uint64_t settings);
