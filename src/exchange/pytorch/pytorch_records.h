/*
 * The parts of a PyTorch memory snapshot as records, made while its pickle or JSON is read: entries of the trace,
 * frames, segments and their blocks, annotations. torch/cuda/memory.py and torch/csrc/cuda/memory_snapshot.cpp of
 * PyTorch define the keys. One thread at a time.
 */
#pragma once

#include "exchange/common/stack_table.h"
#include "exchange/common/values.h"

enum mp_pytorch_record { /* tags of values */
                         MP_PYTORCH_FRAME = MP_VALUE_RECORD,
                         MP_PYTORCH_STACK,
                         MP_PYTORCH_ENTRY,
                         MP_PYTORCH_SEGMENT,
                         MP_PYTORCH_BLOCK,
                         MP_PYTORCH_HISTORY, /* an item of a block's history, before PyTorch 2.1 */
                         MP_PYTORCH_ANNOTATION,
};

/* Keys of dictionaries, in the order of their text ids. */
enum mp_pytorch_key {
    MP_KEY_NONE,
    MP_KEY_ACTION,
    MP_KEY_ADDR,
    MP_KEY_DEVICE_FREE,
    MP_KEY_SIZE,
    MP_KEY_TIME,
    MP_KEY_FRAMES,
    MP_KEY_NAME,
    MP_KEY_FILENAME,
    MP_KEY_LINE,
    MP_KEY_DEVICE,
    MP_KEY_ADDRESS,
    MP_KEY_TOTAL_SIZE,
    MP_KEY_EXPANDABLE,
    MP_KEY_BLOCKS,
    MP_KEY_STATE,
    MP_KEY_REQUESTED_SIZE,
    MP_KEY_HISTORY,
    MP_KEY_REAL_SIZE,
    MP_KEY_STAGE,
    MP_KEY_SEGMENTS,
    MP_KEY_DEVICE_TRACES,
    MP_KEY_SETTINGS,
    MP_KEY_ANNOTATIONS,
    MP_KEY_HOST_SEGMENTS,
    MP_KEY_HOST_TRACES,
    MP_KEY_OVERFLOWED,
    MP_KEY_METADATA,
    MP_KEY_STREAM,
    MP_KEY_SEGMENT_TYPE,
    MP_KEY_SEGMENT_POOL,
    MP_KEY_POOL,
    MP_KEY_FX_TRACE,
    MP_KEY_FORWARD_FRAMES,
    MP_KEY_INTERNAL_METADATA,
    MP_KEY_FX_NAME,
    MP_KEY_FX_OPERATION,
    MP_KEY_FX_TARGET,
    MP_KEYS
};

enum mp_pytorch_action {
    MP_ACTION_ALLOC,
    MP_ACTION_FREE, /* stands for free_requested and free_completed; some writers use it */
    MP_ACTION_FREE_REQUESTED,
    MP_ACTION_FREE_COMPLETED,
    MP_ACTION_SEGMENT_ALLOC,
    MP_ACTION_SEGMENT_FREE,
    MP_ACTION_SEGMENT_MAP,
    MP_ACTION_SEGMENT_UNMAP,
    MP_ACTION_SNAPSHOT,
    MP_ACTION_OOM,
    MP_ACTION_USER_DEFINED,
    MP_ACTION_ANNOTATE,
    MP_ACTION_UNKNOWN, /* unknown or invalid */
    MP_ACTIONS
};

#define MP_PYTORCH_NO_TIME INT64_MIN

struct mp_pytorch_entry {
    uint64_t address, bytes; /* oom: address is the device's free memory */
    uint64_t stream, pool;   /* pool: the first of its two numbers in the upper 32 bits */
    int64_t time_us;         /* MP_PYTORCH_NO_TIME: none */
    uint32_t stack;
    uint32_t shown;              /* the stack joined with that of its forward pass */
    uint32_t block;              /* set by mp_pytorch_replay() */
    uint32_t metadata, internal; /* text ids of texts about the block */
    uint32_t name;               /* text id of the action */
    uint8_t action;              /* enum mp_pytorch_action */
    bool has_address, has_bytes, has_pool;
    bool older; /* a free, or an annotation, of a block from before the trace */
};

struct mp_pytorch_block {
    uint64_t address, bytes, requested; /* MP_BYTES_UNKNOWN: not given */
    uint32_t stack;
    uint32_t metadata, internal;
    bool live, pending; /* pending: freed, but streams still use it; it is live, too */
};

struct mp_pytorch_segment {
    uint64_t address, bytes;
    uint64_t blocks; /* value: a list of blocks */
    uint64_t stream, pool;
    uint32_t stack;
    uint32_t device;
    bool small, expandable;
    bool overlaps; /* overlaps an earlier segment, and is ignored */
};

struct mp_pytorch_annotation {
    int64_t time_us;
    uint32_t name; /* text id */
    bool begins;
};

/* Frames of a traceback, in path_frames. */
struct mp_pytorch_path {
    size_t first, count;
};

struct mp_pytorch_records {
    struct mp_values values;
    struct mp_stack_table stacks; /* function and file are text ids of values */
    MP_VEC(struct mp_pytorch_entry) entries;
    MP_VEC(struct mp_pytorch_block) blocks;
    MP_VEC(struct mp_pytorch_segment) segments;
    MP_VEC(struct mp_pytorch_annotation) annotations;
    MP_VEC(uint32_t) scratch;
    MP_VEC(struct mp_pytorch_path) paths;
    MP_VEC(uint32_t) path_frames;
    MP_VEC(struct mp_symbol) last_lines;
    /* Shared values of a file are read once. The maps below lead from texts (ids + 1) or lists (values) to their path,
     * last line or stack. `joined` maps a pair of path + 1 and stack to the joined stack. */
    struct mp_map traceback_of, forward_of, last_line_of, odd_stacks, joined;
    uint64_t joined_frames;
    struct mp_map plain_lists; /* list to 1 if it has only blocks, else 0 */
    uint64_t again;            /* references to lists that were already read */
    uint64_t too_long;         /* stacks that lack their forward pass */
    uint32_t border;           /* the frame "backward of"; MP_NONE: none yet */
    bool any_frames;
};

/* Makes records->values ready for mp_pickle_read() and the JSON reader. *records must not move afterwards. */
void mp_pytorch_records_init(struct mp_pytorch_records *records);
void mp_pytorch_records_free(struct mp_pytorch_records *records);
