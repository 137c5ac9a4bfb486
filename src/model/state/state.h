/*
 * A recording's state as its events pass one after the other: live blocks, each track's level and peak, the step and
 * open regions, and the memory that allocators hold. The same object serves wherever a recording is followed: it
 * numbers the blocks of a recorder's events; a file's events have numbers already. It can write its state into another
 * file, which continues from there. Memory is bounded by what is live and open. Pure except for writing; one thread at
 * a time.
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
    struct mp_past past; /* the time before the file; its steps are counted in `steps`, too */

    /* The last event of each kind, which holds until the next one; of type MP_EVENT_NONE where there was none. */
    MP_VEC(struct mp_event) reserved; /* by track */
    size_t reserved_count;            /* tracks that have one */
    struct mp_event window;
    struct mp_event step; /* the last step event of the strongest kind among those */
    enum mp_step_kind step_kind;

    bool with_sites; /* the sites of peaks are followed: set before the first event */
    struct mp_peak_sites sites;

    MP_VEC(struct mp_base_block) base;        /* of a base that comes in parts */
    MP_VEC(struct mp_label) labels;           /* not yet given to a block; those of blocks that have not come wait */
    MP_VEC(struct mp_block_request) requests; /* likewise */
    mp_state_text *text;
    const void *texts;
};

/* `configuration`: the recording's, as far as it concerns steps. */
void mp_state_open(struct mp_state *state, const char *configuration, mp_state_text *text, const void *texts);

/* Takes a recorder's event. Fills in the number of its block, and a free's bytes. *missed (may be NULL): a free that
 * must come before it (mp_ledger_alloc()). *known (may be NULL): false for a free of a block that was never seen. */
enum mp_status mp_state_take(struct mp_state *state, struct mp_event *event, struct mp_event *missed, bool *known,
                             struct mp_error *error);
/* True if an event concerns steps and regions. */
static inline bool mp_state_is_boundary(unsigned type)
{
    return type == MP_EVENT_STEP || type == MP_EVENT_REGION_BEGIN || type == MP_EVENT_REGION_END;
}
/* Takes such an event, for a caller that must first know whether a step begins (*begins); the event must then not be
 * taken again. Ignores other events. */
enum mp_status mp_state_boundary(struct mp_state *state, const struct mp_event *event, bool *begins,
                                 struct mp_error *error);
/* Takes a file's event. */
enum mp_status mp_state_replay(struct mp_state *state, struct mp_event event, struct mp_error *error);
/* Takes a file's chunk of events, bases, labels or requests, or of the past; ignores others. *whole_base (may be NULL):
 * whether it was the last part of a base, which state->base then holds. */
enum mp_status mp_state_chunk(struct mp_state *state, const struct mp_chunk *chunk, bool *whole_base,
                              struct mp_error *error);
/* Gives live blocks the labels and requests up to that time; the others keep waiting. False where memory is short. */
bool mp_state_settle(struct mp_state *state, uint64_t until_ns);

/* The number of events that mp_state_write() repeats. */
size_t mp_state_open_events(const struct mp_state *state);
/* Writes the live blocks as a base. */
enum mp_status mp_state_write_base(const struct mp_state *state, struct mp_writer *writer, struct mp_error *error);
/* Writes the state into a file that has the same tables. First comes the past: events, steps, and peaks with their
 * sites. Then come the live blocks and waiting labels. Last come, as events of the present moment, the window, the
 * allocators' memory, the step and open regions. The events carry the marks. */
enum mp_status mp_state_write(struct mp_state *state, struct mp_writer *writer, const struct mp_ring_mark *marks,
                              size_t mark_count, struct mp_error *error);
/* Writes events that follow those taken so far. */
enum mp_status mp_state_write_events(const struct mp_state *state, struct mp_writer *writer,
                                     const struct mp_event *events, size_t count, const struct mp_ring_mark *marks,
                                     size_t mark_count, struct mp_error *error);
void mp_state_close(struct mp_state *state);

#endif
