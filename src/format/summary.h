/*
 * Notes that a writer takes on passing events, so that a reader can find the peak and the steps without reading them
 * all (docs/FORMAT.md, "Finding without reading"): the most live bytes of each chunk and track, the events that may
 * begin steps, the regions open at a base. One thread at a time.
 *
 * The notes say what a full reading would say, or nothing. Where only a full reading can settle something (frees of
 * blocks never seen, sizes unknown or changed, a base that does not agree with the events before it), or where memory
 * is short, the peaks are left out.
 */
#ifndef MP_FORMAT_SUMMARY_H
#define MP_FORMAT_SUMMARY_H

#include "base/step_rule.h"
#include "base/vec.h"
#include "format/open_spans.h"

struct mp_summary {
    bool exact; /* everything below is right */
    MP_VEC(struct mp_chunk_peak) peaks;
    MP_VEC(struct mp_boundary) boundaries; /* the caller that writes them empties this */
    struct mp_open_spans open;
    struct mp_step_rule rule;
    MP_VEC(unsigned char) may_begin; /* by string id: a region of that name may be a step */
    MP_VEC(struct mp_summary_track {
        uint64_t bytes;
        uint32_t row; /* in `peaks`, of the current chunk, + 1; 0: none */
    })
    tracks;
    uint64_t next_block, end_ns, events;
    uint64_t live_blocks, live_sum; /* the number of live blocks, and a sum of hashes of their numbers */
};

void mp_summary_start(struct mp_summary *summary, const char *configuration);
void mp_summary_free(struct mp_summary *summary);

/* Takes the next string of the table. */
void mp_summary_string(struct mp_summary *summary, const char *text, size_t length);
/* Takes a chunk of events that was written under that sequence number. */
void mp_summary_events(struct mp_summary *summary, uint64_t sequence, const struct mp_event *events, size_t count);
/* Takes a whole base. */
void mp_summary_base(struct mp_summary *summary, const struct mp_base_block *blocks, size_t count);

#endif
