/* Converts a snapshot that was read and replayed to a model. Private to the snapshot's loader. */
#pragma once

#include "exchange/pytorch/pytorch_records.h"
#include "exchange/pytorch/pytorch_replay.h"
#include "model/model.h"

/*
 * A snapshot's annotations as steps and regions. PyTorch keeps one list of starts and ends for all threads, without
 * thread ids. Spans that do not nest are put on different lanes, so that each lane nests. One thread at a time.
 */

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

/* A file's allocators as rows of a recording: their segments at the end, in the file's order, and their traces. The
 * functions below append to existing rows. The caller frees the rows. */
struct mp_pytorch_rows {
    MP_VEC(struct mp_segment) segments;
    MP_VEC(struct mp_segment_part) parts;
    MP_VEC(struct mp_allocator_call) calls;
    MP_VEC(struct mp_block_metadata) metadata;
};
void mp_pytorch_segment_rows(const struct mp_pytorch_records *records, const struct mp_pytorch_device *devices,
                             const uint16_t *tracks, size_t count, struct mp_pytorch_rows *rows);
void mp_pytorch_trace_rows(const struct mp_pytorch_records *records, const struct mp_pytorch_device *device,
                           uint16_t track, struct mp_pytorch_rows *rows);

/* Sentences, as text ids of the records' values: the file's gaps (`limits`) and other remarks (`notes`). `has_times`:
 * the trace has times. */
struct mp_pytorch_sentences {
    MP_VEC(uint32_t) limits, notes;
};
void mp_pytorch_sentences_make(struct mp_pytorch_snapshot *snapshot, bool has_times,
                               struct mp_pytorch_sentences *sentences);

/* The allocator's settings (a dictionary; another value has none) as key=value,key=value; the caller frees it. */
char *mp_pytorch_settings(struct mp_values *values, uint64_t settings);
