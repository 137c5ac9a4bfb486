/*
 * Joins a device's trace and its segments: finds the blocks and segments that were live before the trace began, the
 * alloc of each free, and contradictions between the two. One thread at a time.
 */
#pragma once

#include "exchange/pytorch/pytorch_records.h"
#include "format/recording.h"

/* Memory from the layer below: a segment, or a range mapped into an expandable one. */
struct mp_pytorch_range {
    uint64_t address, bytes;
    uint32_t stack;
    uint8_t kind; /* enum mp_kind */
};

/* A range allocated or released; one entry of the trace can cause several events. */
struct mp_pytorch_range_event {
    uint32_t entry; /* index in trace */
    uint32_t range;
    bool frees;
};

struct mp_pytorch_device {
    uint32_t index;
    bool host;                 /* pinned memory of the host's caching allocator */
    bool lists_segments;       /* the file has segments: the state at the end is known */
    MP_VEC(uint32_t) trace;    /* entries, in order */
    MP_VEC(uint32_t) segments; /* at the end */

    /* The fields below are set by mp_pytorch_replay(), and so is `block` of entries. For a free, `block` is the entry
     * of its alloc, or, if the entry is `older`, the index of a block of the base. */
    uint8_t free_action; /* the action that frees: free_completed, unless the trace has only free_requested */
    MP_VEC(struct mp_pytorch_block) base;   /* `requested` bytes */
    MP_VEC(struct mp_pytorch_range) ranges; /* ranges, those of the base first */
    MP_VEC(struct mp_pytorch_range_event) range_events;
    MP_VEC(struct mp_segment_part) parts; /* at the end; `segment` is an index in segments */
    MP_VEC(uint32_t)
    missed; /* pairs: index in trace of an alloc; the entry of an earlier alloc at the same address whose free is
             * missing */
    MP_VEC(uint32_t)
    requested;        /* pairs: index in trace of a completed free; the stack of the entry that requested this free */
    bool free_stacks; /* frees have stacks of their own; else each has its alloc's */
    uint64_t overlapping, overlapping_bytes; /* ignored segments; bytes of their live blocks */
    size_t base_ranges;
    uint64_t base_bytes, base_range_bytes;
    uint64_t allocs, frees;
    uint64_t live_rounded, live_requested;           /* bytes of the blocks that the segments list as live */
    uint64_t not_in_segments, not_in_segments_bytes; /* blocks live at the trace's end that the segments do not list */
    uint64_t other_size;                             /* blocks live in both, with different sizes */
    uint64_t ranges_missing;                         /* ranges live at the trace's end that are not among the
                                                      * segments */
    uint64_t annotations_lost;                       /* annotations of memory without a known live block */
    uint64_t bad_entries;                            /* entries without an address or a size, or beyond the address
                                                      * space */
};

void mp_pytorch_replay(struct mp_pytorch_records *records, struct mp_pytorch_device *device);
void mp_pytorch_device_free(struct mp_pytorch_device *device);

static inline bool mp_pytorch_is_segment_action(unsigned action)
{
    return action >= MP_ACTION_SEGMENT_ALLOC && action <= MP_ACTION_SEGMENT_UNMAP;
}
