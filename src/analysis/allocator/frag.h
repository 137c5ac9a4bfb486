/*
 * The free memory inside a caching allocator: holes, and the blocks that pin the segments around them; for an
 * out-of-memory also its cause, and the settings that would have fitted the request. Pure; the result is the caller's.
 */
#pragma once

#include "analysis/allocator/torch_layout.h"
#include "analysis/sites/sites.h"
#include "model/window.h"

struct mp_frag_query {
    uint16_t track;
    struct mp_window window; /* the moment is its last out-of-memory, else its end */
    const char *replay;      /* settings as in PYTORCH_CUDA_ALLOC_CONF, or "recorded"; NULL: no replay */
    bool advise;             /* replay with expandable segments, unless the user asked for something else */
};

enum mp_frag_moment { MP_FRAG_END, MP_FRAG_OOM, MP_FRAG_PEAK };

enum mp_oom_cause {
    MP_OOM_CAPACITY,
    MP_OOM_FRAGMENTATION,
    MP_OOM_LEAK,
    MP_OOM_OTHER_PROCESS,
    MP_OOM_LIMIT,
    MP_OOM_UNKNOWN /* the allocator's total, or the free memory outside of it, is unknown, and the cause depends on
                    * it */
};

struct mp_frag_segment {
    uint64_t address, bytes, allocated, largest_free;
    uint64_t stream, pool; /* PyTorch's numbers; MP_BYTES_UNKNOWN: not known */
    uint64_t held;         /* bytes of used blocks and of pending frees */
    bool small, expandable;
    size_t first_block, block_count; /* indices into the layout's blocks */
};

/* A segment less than half in use, and the blocks that keep it. */
struct mp_frag_pin {
    uint64_t address, segment_bytes, held_bytes;
    struct mp_sites sites;
};

/* The segments of one stream in one pool, which no other stream or pool may use. */
struct mp_frag_stream {
    uint64_t stream, pool; /* as in struct mp_frag_segment */
    uint64_t segments, reserved, free_bytes;
    uint64_t made_bytes; /* of the segments whose largest block is of `stack`; no stack of this stream has more */
    uint32_t stack;      /* 0: unknown */
};

struct mp_frag_oom {
    uint32_t event; /* the last out-of-memory in the window; MP_NONE: none */
    uint64_t ns;
    uint64_t times, first_ns, most_requested; /* over the whole track, including this one */
    uint64_t requested;                       /* rounded by the allocator */
    uint64_t device_free;                     /* MP_BYTES_UNKNOWN */
    uint32_t stack;
    enum mp_oom_cause cause;
    bool exceeds_device;            /* the request is larger than the device's memory */
    bool full;                      /* live blocks alone fill the memory, or soon would; no setting is tried */
    bool scarce;                    /* more than ever would be live, and another such request would find no room: if the
                                     * program goes on, no arrangement may do */
    uint64_t further;               /* at most so many bytes are left after the request, however blocks are arranged;
                                     * MP_BYTES_UNKNOWN */
    MP_VEC(const char *) would_fit; /* settings, smallest change first; proved by replay */
    bool tried;                     /* true if enough was known to try settings */
};

/* The replay; settings NULL: none. */
struct mp_frag_replay {
    char *settings;
    bool recorded;
    uint64_t capacity;           /* capacity of the replay; MP_BYTES_UNKNOWN: unlimited */
    uint64_t base_bytes;         /* bytes of blocks from before the trace; a replay with other settings chooses their
                                  * addresses */
    uint64_t recorded_reserved;  /* the recorded peak; 0: unknown */
    uint64_t compare_reserved;   /* the recorded peak, or a lower peak of a replay with the recorded settings, since
                                  * replays know no pending frees */
    struct mp_torch_asked asked; /* all 0 if the allocator's own trace is replayed */
    struct mp_torch_replay result;
};

struct mp_frag {
    uint16_t track;
    enum mp_frag_moment moment;
    uint32_t events; /* before the moment */
    uint64_t ns;
    bool known; /* the allocator's total is known; otherwise only `allocated`, `oom` and `replay` are valid */
    struct mp_torch_layout layout;
    uint64_t allocated, requested, reserved; /* bytes */
    uint64_t pending;                        /* bytes of blocks that were freed while a stream still used them */
    uint64_t free_bytes, holes, largest_free;
    uint64_t whole_free;                     /* part of free in completely free segments */
    uint64_t wanted;                         /* the request that failed, else the largest block of the recording */
    uint64_t unusable;                       /* free bytes in holes smaller than `wanted` */
    MP_VEC(struct mp_frag_segment) segments; /* by address */
    MP_VEC(struct mp_frag_pin) pins;         /* most free bytes first */
    MP_VEC(struct mp_frag_stream) streams;   /* most free bytes first */
    uint64_t streams_peak, one_stream_peak;  /* the most reserved bytes in two replays: as recorded, and with all
                                              * requests on one stream; both 0: the recording has only one stream */
    struct mp_frag_oom oom;
    struct mp_frag_replay replay;
};

/* MP_INVALID: query->replay is malformed; MP_UNSUPPORTED: the recording cannot be replayed. */
enum mp_status mp_frag_find(const struct mp_model *model, const struct mp_frag_query *query, struct mp_frag *frag,
                            struct mp_error *error);
void mp_frag_free(struct mp_frag *frag);
/* NULL: unknown. */
const char *mp_oom_cause_name(enum mp_oom_cause cause);
