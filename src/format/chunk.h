/* The contents of one chunk of a snapshot file, as the writer takes it and the reader gives it. docs/FORMAT.md lists
 * the kinds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/job.h"
#include "format/recording.h"

enum mp_chunk_kind {
    MP_CHUNK_STRINGS = 1,
    MP_CHUNK_DEVICES = 2,
    MP_CHUNK_TRACKS = 3,
    MP_CHUNK_THREADS = 4,
    MP_CHUNK_MODULES = 5,
    MP_CHUNK_FRAMES = 6,
    MP_CHUNK_STACKS = 7,
    MP_CHUNK_SYMBOLS = 8,
    MP_CHUNK_EVENTS_KIND = 9,
    MP_CHUNK_BASE = 10,
    MP_CHUNK_SAMPLES = 11,
    MP_CHUNK_COVERAGE = 12,
    MP_CHUNK_EXIT = 13,
    MP_CHUNK_INDEX = 14,
    MP_CHUNK_SEGMENTS = 15,
    MP_CHUNK_SEGMENT_PARTS = 16,
    MP_CHUNK_CALLS = 17,
    MP_CHUNK_LABELS = 18,
    MP_CHUNK_PEAKS = 19, /* older files have 19 to 21; readers pass over them */
    MP_CHUNK_BOUNDARIES = 20,
    MP_CHUNK_OPEN_REGIONS = 21,
    MP_CHUNK_PAST = 22,
    MP_CHUNK_PAST_PEAKS = 23,
    MP_CHUNK_PAST_SITES = 24,
    MP_CHUNK_REQUESTS = 25,
    MP_CHUNK_TRACE = 26,
    MP_CHUNK_ASIDES = 27,
    MP_CHUNK_HOLDERS = 28,
    MP_CHUNK_METADATA = 29,
    MP_CHUNK_JOB_PROCESSES = 30,
    MP_CHUNK_JOB_TRACKS = 31,
    MP_CHUNK_JOB_SITES = 32,
    MP_CHUNK_JOB_HOLDINGS = 33,
    MP_CHUNK_JOB_FINDINGS = 34,
    MP_CHUNK_JOB_POINTS = 35,
    MP_CHUNK_JOB_TROUBLES = 36,
    MP_CHUNK_USES = 37,
    MP_CHUNK_KINDS
};

#define MP_CHUNK_EVENTS 65536 /* at most */

/* Events as columns. All arrays have `count` entries and are valid until the next call of the reader. */
#define MP_EVENT_COLUMN(field, type) const type *field;
struct mp_event_columns {
    size_t count;
    MP_EVENT_FIELDS(MP_EVENT_COLUMN, MP_EVENT_COLUMN)
};
#undef MP_EVENT_COLUMN

/* Returns event number `at` of the columns. */
static inline struct mp_event mp_event_at(const struct mp_event_columns *columns, size_t at)
{
#define MP_EVENT_TAKE(field, type) .field = columns->field[at],
    return (struct mp_event){MP_EVENT_FIELDS(MP_EVENT_TAKE, MP_EVENT_TAKE)};
#undef MP_EVENT_TAKE
}

/* True for an alloc before which the collector inserted a free, because it missed the program's free. The new reserved
 * total may come between the two. */
static inline bool mp_event_had_free_put_in(const struct mp_event_columns *columns, size_t at)
{
    size_t by = at && columns->type[at - 1] == MP_EVENT_RESERVED ? 2 : 1;
    if (at < by || columns->type[at] != MP_EVENT_ALLOC || columns->type[at - by] != MP_EVENT_FREE) return false;
    return columns->address[at] == columns->address[at - by] && columns->time_ns[at] == columns->time_ns[at - by] &&
           columns->track[at] == columns->track[at - by] && columns->thread[at] == columns->thread[at - by];
}

/* The entries of a chunk. */
union mp_chunk_entries {
    const void *rows; /* for the kinds that mp_writer_rows() takes */
    const struct mp_string_entry {
        const char *text;
        size_t length;
    } * strings;
    const struct mp_device *devices;
    const struct mp_track *tracks;
    const struct mp_thread_info *threads;
    const struct mp_module *modules;
    const struct mp_frame *frames;
    const struct mp_stack_node *stacks;
    const struct mp_symbol *symbols;
    const struct mp_sample *samples;
    const struct mp_base_block *base;
    const struct mp_segment *segments;
    const struct mp_segment_part *parts;
    const struct mp_allocator_call *calls; /* for calls and for the trace */
    const struct mp_aside *asides;
    const struct mp_label *labels;
    const struct mp_block_holder *holders;
    const struct mp_block_use *uses;
    const struct mp_block_metadata *metadata;
    const struct mp_block_request *requests;
    const struct mp_past *past;
    const struct mp_past_peak *past_peaks;
    const struct mp_past_site *past_sites;
    const struct mp_job_process *job_processes;
    const struct mp_job_track *job_tracks;
    const struct mp_job_site *job_sites;
    const struct mp_job_holding *job_holdings;
    const struct mp_job_finding *job_findings;
    const struct mp_job_point *job_points;
    const struct mp_job_trouble *job_troubles;
    const struct mp_coverage *coverage;
    const struct mp_exit *how;
    struct mp_event_columns events;
};

struct mp_chunk {
    enum mp_chunk_kind kind;
    uint64_t sequence, offset; /* the chunk's number; its byte offset in the file */
    size_t bytes;              /* length of the chunk in the file; 0 for lost entries */
    size_t count;              /* entries; in tables, new entries */
    bool lost;                 /* made-up entries replace lost ones, so that later ids stay right: zeroes, stack nodes
                                * {0, MP_FRAME_CUT}, texts "" */
    union mp_chunk_entries as; /* by kind */
    /* events and base */
    uint64_t time_ns;    /* of the first event, or of the base */
    uint64_t next_block; /* the number that the next new block had before this chunk */
    const struct mp_ring_mark *marks;
    size_t mark_count;
    const uint64_t *live_bytes; /* per track, at the first event */
    size_t live_bytes_count;
    /* A base of more than MP_CHUNK_ENTRIES blocks comes in several chunks. base_before: number of blocks in earlier
     * chunks. */
    uint64_t base_total, base_before;
};

/* One entry of the index: where a chunk lies, and its meta. */
struct mp_index_entry {
    uint64_t offset, kind, sequence, count, time_ns, end_ns;
};
