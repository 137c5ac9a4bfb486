/*
 * The contents of a snapshot file, as C structures: the contract between code that writes recordings (collector,
 * importers, tests) and code that reads them (model). docs/FORMAT.md describes the bytes of a file, which writer.c
 * writes and reader.c reads.
 *
 * Ids are indices into the tables of the same name, given in order of appearance, starting at 0: string 0 is "", stack
 * 0 is the empty stack, module 0 is "unknown". Times are nanoseconds of CLOCK_MONOTONIC since
 * mp_recording_start.monotonic_ns.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file_id.h"
#include "base/member.h"
#include "base/words.h"

/* Facts known when the file is created; the first object of the file. The code that fills the struct owns the texts. */
struct mp_recording_start {
    uint64_t realtime_ns, monotonic_ns; /* one moment on both clocks: the start of the recording */
    uint32_t pid;
    const char *host;
    struct mp_member member;
    const char *const *command; /* NULL-terminated */
    const char *configuration;  /* key=value,... as the recorder got it */
    const char *spool;          /* path of the spool that may hold events missing here; "": none */
    uint64_t spool_id;          /* random; the spool's header carries the same */
    bool starts_late;           /* block numbers begin above 0; readers of version 1 do not understand that */
};

struct mp_device {
    uint32_t name;        /* "cuda:0", "cpu": string ids from here on */
    uint32_t uuid;        /* "": none */
    uint32_t model;       /* "NVIDIA H200" */
    uint64_t total_bytes; /* MP_BYTES_UNKNOWN: not known */
};

struct mp_track {
    uint32_t device;
    uint8_t layer;      /* enum mp_layer */
    uint8_t size_basis; /* enum mp_size_basis */
    uint32_t name;      /* a pool's name on the app layer; string 0 otherwise */
};

#define MP_TID_LANE  UINT32_MAX
#define MP_LANE_NAME "ranges " /* followed by the lane's number, from 1 */
struct mp_thread_info {
    uint32_t tid; /* MP_TID_LANE: a lane for regions that belong to no thread; it has at most one open region at a
                   * time */
    uint32_t name;
};

struct mp_module {
    uint32_t path;
    uint64_t start, end, bias; /* mapped range and load bias in the recorded process */
    struct mp_file_id file;
};

/* One frame of a stack as recorded. Native: `address` is the return address less the module's bias (module 0: the
 * absolute address); function, file and line come from symbols. Python: function, file and line come from the
 * interpreter. */
struct mp_frame {
    uint8_t language; /* enum mp_language */
    uint32_t module;
    uint64_t address;
    uint32_t function, file; /* string 0: unknown */
    uint32_t line;           /* 0: unknown */
    uint32_t more; /* string id of a JSON object: fx_node_op, fx_node_name, fx_node_target of PyTorch; 0: none */
};

/* A stack is a path from a node to the root. Node 0 is the empty stack; each other node adds one frame *inside* (called
 * by) its parent. The id of a stack is the id of its innermost node. A cut stack has MP_FRAME_CUT as a frame. */
struct mp_stack_node {
    uint32_t parent;
    uint32_t frame;
};
#define MP_FRAME_CUT UINT32_MAX

/* One source-level frame of a native frame, innermost (most inlined) first. Rows with the same `frame` are consecutive.
 * A frame without rows was not resolved, or no symbol covers its address. */
struct mp_symbol {
    uint32_t frame;
    uint32_t function, file; /* string 0: unknown */
    uint32_t line;           /* 0: unknown */
};

/* The fields of an event: V is a value, T a string id. Three structures are generated from this list: one event,
 * columns (format/reader.h), and room for columns (format/event_room.h). format/events.c says how a file stores
 * them.
 *
 *     address  alloc, free, resize
 *     bytes    alloc, resize, oom, reserved; a free repeats its block's bytes, MP_BYTES_UNKNOWN if unknown
 *     block    alloc: its number; free, resize: the number of the block. Blocks are numbered from 0 in order of
 *              appearance, base blocks and blocks known only by their free included
 *     stack    alloc, oom, mark; free if free stacks are recorded
 *     name     region_begin, region_end, mark, step: 0 if unnamed; alloc, oom: the path of the module that was
 *              running, 0 if none is known
 *     track    alloc, free, resize, oom, reserved
 *     type     enum mp_event_type
 *     kind     enum mp_kind: alloc */
#define MP_EVENT_FIELDS(V, T)                                                                                          \
    V(time_ns, uint64_t)                                                                                               \
    V(address, uint64_t)                                                                                               \
    V(bytes, uint64_t)                                                                                                 \
    V(block, uint64_t)                                                                                                 \
    V(stack, uint32_t)                                                                                                 \
    T(name, uint32_t)                                                                                                  \
    V(thread, uint32_t)                                                                                                \
    V(track, uint16_t)                                                                                                 \
    V(type, uint8_t)                                                                                                   \
    V(kind, uint8_t)

#define MP_EVENT_MEMBER(field, type) type field;
struct mp_event {
    MP_EVENT_FIELDS(MP_EVENT_MEMBER, MP_EVENT_MEMBER)
};
#undef MP_EVENT_MEMBER

/* A request to PyTorch's caching allocator: the bytes before rounding, the number of the stream, and the pool's number
 * as in struct mp_segment. If the bytes are 0, all three are unknown. */
struct mp_request {
    uint64_t bytes, stream, pool;
};

/* Facts about a block that hold for its whole life, as members of the event that allocated it. The blocks of a base and
 * of the model have them under the same names. `bytes`: MP_BYTES_UNKNOWN if only the block's free was seen. */
#define MP_BLOCK_FIELDS(F)                                                                                             \
    F(address, uint64_t)                                                                                               \
    F(bytes, uint64_t)                                                                                                 \
    F(stack, uint32_t)                                                                                                 \
    F(track, uint16_t)                                                                                                 \
    F(kind, uint8_t)

/* A block that was live when a chunk of type base was written. */
struct mp_base_block {
    uint64_t block, birth_ns;
#define MP_BASE_MEMBER(field, type) type field;
    MP_BLOCK_FIELDS(MP_BASE_MEMBER)
#undef MP_BASE_MEMBER
    uint8_t role;    /* enum mp_role of its last label */
    uint32_t module; /* string ids: path of the module that allocated it; name in its last label */
    uint32_t label;
    struct mp_request request;
};

/* The alloc event of a base's block, as far as it is known (without the thread). */
static inline struct mp_event mp_birth_of(const struct mp_base_block *block)
{
#define MP_BIRTH_TAKE(field, type) .field = block->field,
    return (struct mp_event){.time_ns = block->birth_ns,
                             .block = block->block,
                             .name = block->module,
                             .type = MP_EVENT_ALLOC,
                             MP_BLOCK_FIELDS(MP_BIRTH_TAKE)};
#undef MP_BIRTH_TAKE
}

/* A base's block for the block that `event` allocated, without role and label. */
static inline struct mp_base_block mp_block_born(const struct mp_event *event)
{
#define MP_BORN_TAKE(field, type) .field = event->field,
    return (struct mp_base_block){
        .block = event->block, .birth_ns = event->time_ns, .module = event->name, MP_BLOCK_FIELDS(MP_BORN_TAKE)};
#undef MP_BORN_TAKE
}

/* The request for a block. If a block has several, the last one counts. */
struct mp_block_request {
    uint64_t block;
    struct mp_request request;
};

/* For qsort(): orders blocks by number. */
static inline int mp_base_by_number(const void *left, const void *right)
{
    const struct mp_base_block *a = left, *b = right;
    return a->block < b->block ? -1 : a->block > b->block;
}

/* A label that the program gave a live block. It counts from its time until the block's next label. */
struct mp_label {
    uint64_t time_ns;
    uint64_t block;
    uint8_t role;  /* enum mp_role */
    uint32_t name; /* string id of the tensor's name ("blocks.3.attn.weight"); 0: none */
};

/* The holder of a live block, as a look found it. If a block has several rows, the last one counts. A row of block
 * MP_HOLDER_LOOK ends a look: `certain` says whether the look saw everything; if not, `path` says what it left out. */
#define MP_HOLDER_LOOK UINT64_MAX
struct mp_block_holder {
    uint64_t time_ns;
    uint64_t block;
    uint8_t kind; /* enum mp_holder_kind */
    bool certain;
    uint32_t path, file, line; /* string ids of the path and the file (0: unknown); the line in it */
};

/* A use of a block by an operator of PyTorch: what it did with it when it ended; a use with MP_USE_MADE alone has the
 * time of the allocation. */
struct mp_block_use {
    uint64_t time_ns;
    uint64_t block;
    uint32_t operator, node; /* string ids: its name; the node of backward that ran it, 0: none */
    uint32_t shape;  /* string id of the tensor's type and sizes, "float32 [8, 128]"; also " strides [1, 8]" if its
                      * elements are not in order; 0: not known */
    uint32_t module; /* string id of the path of the network's module that ran; 0: none */
    uint8_t how;     /* bits of enum mp_use_how */
};

/* A text about a block. If a block has several, all of them count. */
struct mp_block_metadata {
    uint64_t time_ns;
    uint64_t block;
    uint8_t kind;  /* enum mp_metadata_kind */
    uint32_t text; /* string id */
};

/* A sample of a counter: resident and shared memory of the process, device totals. No event sets these. */
struct mp_sample {
    uint64_t time_ns;
    uint32_t counter; /* string id: "cpu/resident", "cpu/shared", later "cuda:0/device" */
    uint64_t value;   /* bytes */
};

/* Memory that a caching allocator held at the end of the recording. In an expandable segment: a run of mapped pages. */
struct mp_segment {
    uint64_t address, bytes;
    uint64_t stream; /* PyTorch's number of the stream; 0: the default one */
    uint64_t pool;   /* PyTorch's pair of numbers, the first in the upper 32 bits; 0: the default pool */
    uint16_t track;  /* track of its allocator */
    uint8_t small;   /* 1: for small blocks */
    uint8_t expandable;
    uint16_t keys;  /* bits of enum mp_row_flag */
    uint32_t stack; /* the stack that allocated the segment */
};

/* A part of a segment. Rows are ordered by segment and address, without gaps. */
struct mp_segment_part {
    uint64_t bytes, requested; /* the block's size; the size requested */
    uint32_t segment;
    uint8_t state; /* enum mp_torch_state */
};

/* One entry of a caching allocator's own trace, from a file of another program. Entries that allocate, complete a free
 * or run out of memory belong to the alloc, free and oom events of the track, one to one in order, unless the trace
 * contradicts itself. In older recordings such entries have no address and bytes. */
struct mp_allocator_call {
    uint64_t address; /* out of memory: the device's free bytes, or MP_BYTES_UNKNOWN */
    uint64_t bytes;
    uint64_t stream, pool;
    uint16_t track;
    uint16_t keys;  /* bits of enum mp_row_flag */
    uint8_t action; /* enum mp_torch_action */
};

/* A text about the recording for which no field exists. */
struct mp_aside {
    uint32_t text; /* string id */
    uint8_t kind;  /* enum mp_aside_kind */
};

/* The time before the file's first event. A bounded recording keeps only the newest events; with a schedule this is the
 * time before its first window. */
struct mp_past {
    uint64_t events;  /* events that were left out; 0: only steps were counted */
    uint64_t steps;   /* steps that began in that time; the file's first step is the next one */
    uint64_t time_ns; /* when this time ended */
};

/* The peak of a track before the file's first event, when it was first reached. Base blocks count. */
struct mp_past_peak {
    uint64_t bytes, blocks, time_ns;
    uint64_t step;           /* step of the peak, from 1; 0: before the first step */
    uint64_t reserved_bytes; /* the highest reserved bytes in that time; MP_BYTES_UNKNOWN if never reported */
    uint16_t track;
};

/* The blocks that were live at a peak before the file's first event, by site, kind and module. */
struct mp_past_site {
    uint64_t bytes, blocks;
    uint32_t stack;
    uint32_t module; /* string id: path of the module, as in an alloc event */
    uint16_t track;
    uint8_t kind;
};

/* How far an event ring had been read when a chunk was written. `memprof recover` skips the records that the file
 * has. */
struct mp_ring_mark {
    uint32_t ring;
    uint64_t sequence; /* the first record that the file does NOT have */
};

/* Coverage: what a recording saw and missed. A recording writes it at its end; if there are several, the last
 * counts. */
struct mp_coverage {
    uint64_t events, dropped;                    /* events in this file; events not recorded, for any reason */
    uint64_t truncated_stacks, unmatched_stacks; /* number of stacks cut at the depth limit, and of stacks whose Python
                                                  * and native frames did not pair */
    uint64_t totals_checked, totals_wrong;       /* number of comparisons of the allocator's own totals with memprof's,
                                                  * and number of differences */
    uint64_t unknown_frees, missed_frees;        /* number of frees of unseen blocks, and of allocs at the address of a
                                                  * block that was still live */
    uint32_t *sources, source_count;             /* string ids: "torch", "api", ... */
    uint32_t *notes, note_count;                 /* string ids: sentences */
    uint32_t *limits, limit_count; /* string ids: sentences on data that is missing because of a limit (a ring, a
                                    * schedule, a full table). The recording is then incomplete, but not damaged */
};

/* How the process ended. */
struct mp_exit {
    bool known;
    bool by_signal;
    uint32_t status; /* exit status or signal number */
    uint64_t time_ns;
    uint32_t text; /* string id: "exit 0", "killed by SIGKILL", "replaced by exec", "collector was killed" */
};
/* The beginning of mp_exit.text if the process had not ended, as in a snapshot or for a child that outlived the
 * command. */
#define MP_STILL_RUNNING "still running"
/* The whole mp_exit.text of a snapshot. A later recording of the same process begins with the same events. */
#define MP_SNAPSHOT_RUNNING MP_STILL_RUNNING " when the snapshot was taken"
