/*
 * A recording's state while its events go by, one after the other: what is live, the level and the peak of each track,
 * the step, the regions that are open, what allocators hold. It is the same wherever a recording is followed: events
 * that a recorder sees get numbers here, those of a file have them. What it knows it can write into another file, which
 * goes on from there. Memory is bounded by what is live and open. Pure but for the writing; one thread at a time.
 */
#ifndef MP_MODEL_STATE_STATE_H
#define MP_MODEL_STATE_STATE_H

#include "base/step_rule.h"
#include "format/open_spans.h"
#include "format/writer.h"
#include "model/state/ledger.h"
#include "model/state/peak_sites.h"

/* The text of a name; "" where there is none. */
typedef const char *mp_state_text(const void *texts, uint32_t name);

struct mp_state {
    struct mp_ledger ledger;
    struct mp_step_rule steps;
    struct mp_open_spans open;
    uint64_t events;     /* taken so far, those of chunks included */
    uint64_t time_ns;    /* of the last of them, or of the last base */
    struct mp_past past; /* of the time before the file; its steps are counted in `steps`, too */

    /* What holds until the next event of the kind; of type MP_EVENT_NONE where there was none. */
    MP_VEC(struct mp_event) reserved; /* by track */
    size_t reserved_count;            /* tracks that have one */
    struct mp_event window;
    struct mp_event step; /* the last step event of the strongest kind among those */
    enum mp_step_kind step_kind;

    bool with_sites; /* the sites of peaks are followed: set before the first event */
    struct mp_peak_sites sites;

    MP_VEC(struct mp_base_block) base;        /* of one that comes in parts */
    MP_VEC(struct mp_label) labels;           /* not said of a block yet; those of blocks that have not come wait */
    MP_VEC(struct mp_block_request) requests; /* likewise */
    mp_state_text *text;
    const void *texts;
};

/* `configuration`: the recording's, as far as it is about steps. */
void mp_state_open(struct mp_state *state, const char *configuration, mp_state_text *text, const void *texts);

/* An event of a recorder. A block's gets its number, a free's its bytes. *missed (may be NULL): a free that must come
 * before it (mp_ledger_alloc()). *known (may be NULL): false for a free of a block that was never seen. */
enum mp_status mp_state_take(struct mp_state *state, struct mp_event *event, struct mp_event *missed, bool *known,
                             struct mp_error *error);
/* Whether an event is about steps and regions. */
static inline bool mp_state_is_boundary(unsigned type)
{
    return type == MP_EVENT_STEP || type == MP_EVENT_REGION_BEGIN || type == MP_EVENT_REGION_END;
}
/* Takes such an event, for who must know first whether a step begins (*begins): it is then not to be taken again.
 * Others are ignored. */
enum mp_status mp_state_boundary(struct mp_state *state, const struct mp_event *event, bool *begins,
                                 struct mp_error *error);
/* An event of a file. */
enum mp_status mp_state_replay(struct mp_state *state, struct mp_event event, struct mp_error *error);
/* A chunk of a file: events, bases, labels, requests and what is told of the past; others are ignored. *whole_base (may
 * be NULL) says whether it was the last part of a base, which state->base then holds. */
enum mp_status mp_state_chunk(struct mp_state *state, const struct mp_chunk *chunk, bool *whole_base,
                              struct mp_error *error);
/* What is live gets the labels and requests that were told until then; the others go on waiting. False where memory is
 * short. */
bool mp_state_settle(struct mp_state *state, uint64_t until_ns);

/* How many events mp_state_write() tells again. */
size_t mp_state_open_events(const struct mp_state *state);
/* What is live. */
enum mp_status mp_state_write_base(const struct mp_state *state, struct mp_writer *writer, struct mp_error *error);
/* Into a file that has the same tables: what came before (events, steps, peaks with their sites), what is live, labels
 * that wait, and as events of now what holds: the window, what allocators hold, the step, open regions. The marks are
 * those that the events carry. */
enum mp_status mp_state_write(struct mp_state *state, struct mp_writer *writer, const struct mp_ring_mark *marks,
                              size_t mark_count, struct mp_error *error);
/* Events that follow on what was taken so far. */
enum mp_status mp_state_write_events(const struct mp_state *state, struct mp_writer *writer,
                                     const struct mp_event *events, size_t count, const struct mp_ring_mark *marks,
                                     size_t mark_count, struct mp_error *error);
void mp_state_close(struct mp_state *state);

#endif
