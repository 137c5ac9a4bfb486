/*
 * A recording's state while its events pass one after the other: live blocks, each track's level and peak, the step and
 * open regions, and the memory that allocators hold. The same object follows a running program and a file. A recorder's
 * events get their block numbers here; a file's events have numbers already. The state can be written into another
 * file, which continues from there. Memory is bounded by the live blocks and open regions. Pure except for writing; one
 * thread at a time.
 */
#pragma once

#include "base/step_rule.h"
#include "format/open_spans.h"
#include "format/writer.h"
#include "model/state/ledger.h"
#include "model/state/peak_sites.h"

/* Returns the text of a name's id; "" if there is none. */
typedef const char *mp_state_text(const void *texts, uint32_t name);

struct mp_state {
    struct mp_ledger ledger;
    struct mp_step_rule steps;
    struct mp_open_spans open;
    uint64_t events;     /* events taken so far, chunks' events included */
    uint64_t time_ns;    /* time of the last event or base */
    struct mp_past past; /* the time before the file; `steps` counts its steps, too */

    /* The last event of each of these kinds, which is in force until the next one. Its type is MP_EVENT_NONE if there
     * was none. */
    MP_VEC(struct mp_event) reserved; /* by track */
    size_t reserved_count;            /* tracks that have such an event */
    struct mp_event window;
    struct mp_event step; /* the last step event of kind `step_kind`, the strongest so far */
    enum mp_step_kind step_kind;

    bool with_sites; /* follow the sites of peaks; set it before the first event */
    struct mp_peak_sites sites;

    MP_VEC(struct mp_base_block) base;        /* the parts so far of a base that comes in several chunks */
    MP_VEC(struct mp_label) labels;           /* labels not yet given to a block; the block may come later */
    MP_VEC(struct mp_block_request) requests; /* requests not yet given to a block */
    mp_state_text *text;
    const void *texts;
};

/* `configuration`: the recording's; only its settings about steps are used. `text` and `texts`: for names of events. */
void mp_state_open(struct mp_state *state, const char *configuration, mp_state_text *text, const void *texts);

/* Takes a recorder's event. Sets the number of its block, and a free's bytes. *missed (may be NULL): a free that the
 * caller must record before (mp_ledger_alloc()). *known (may be NULL): false for a free of a block that was never
 * seen. */
enum mp_status mp_state_take(struct mp_state *state, struct mp_event *event, struct mp_event *missed, bool *known,
                             struct mp_error *error);

/* True if an event may begin or end steps or regions. */
static inline bool mp_state_is_boundary(unsigned type)
{
    return type == MP_EVENT_STEP || type == MP_EVENT_REGION_BEGIN || type == MP_EVENT_REGION_END;
}

/* Takes an event for which mp_state_is_boundary() is true; *begins: whether it begins a step. Do not pass it to
 * mp_state_take() again. Ignores other events. */
enum mp_status mp_state_boundary(struct mp_state *state, const struct mp_event *event, bool *begins,
                                 struct mp_error *error);

/* Takes an event of a file, which has its block number. */
enum mp_status mp_state_replay(struct mp_state *state, struct mp_event event, struct mp_error *error);

/* Takes a file's chunk of events, base, labels, requests or past; ignores other kinds. *whole_base (may be NULL): true
 * if it was the last part of a base, which state->base then holds. */
enum mp_status mp_state_chunk(struct mp_state *state, const struct mp_chunk *chunk, bool *whole_base,
                              struct mp_error *error);

/* Gives live blocks their requests, and their labels up to that time. Later labels, and labels of blocks that have not
 * come, keep waiting. All others are dropped. False if memory is short. */
bool mp_state_settle(struct mp_state *state, uint64_t until_ns);
void mp_state_close(struct mp_state *state);
