#include "model/state/state.h"

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "out of memory while following a recording");
}

void mp_state_open(struct mp_state *state, const char *configuration, mp_state_text *text, const void *texts)
{
    *state = (struct mp_state){.text = text, .texts = texts};
    mp_step_rule_open_configured(&state->steps, configuration);
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* Updates the sites of peaks for a change of a block. `before`: the track's peak before the change. */
static bool follow_sites(struct mp_state *state, const struct mp_base_block *block, int64_t bytes, int blocks,
                         uint64_t before)
{
    if (!mp_peak_sites_change(&state->sites, block, bytes, blocks)) return false;
    if (state->ledger.tracks.at[block->track].peak_bytes > before) mp_peak_sites_raise(&state->sites, block->track);
    return true;
}

static enum mp_status alloc_with_sites(struct mp_state *state, struct mp_event *event, struct mp_event *missed,
                                       struct mp_error *error)
{
    struct mp_ledger *ledger = &state->ledger;
    struct mp_event unseen;
    if (!missed) missed = &unseen;
    const struct mp_ledger_track *track = mp_ledger_track(ledger, event->track);
    uint64_t before = track ? track->peak_bytes : 0;
    enum mp_status status = mp_ledger_alloc(ledger, event, missed, error);
    if (status) return status;
    if (missed->type && !follow_sites(state, &ledger->freed, -(int64_t)mp_known(missed->bytes), -1, UINT64_MAX))
        return no_memory(error);
    const struct mp_base_block block = mp_block_born(event);
    return follow_sites(state, &block, (int64_t)mp_known(event->bytes), 1, before) ? MP_OK : no_memory(error);
}

static enum mp_status free_with_sites(struct mp_state *state, struct mp_event *event, bool *known_block,
                                      struct mp_error *error)
{
    struct mp_ledger *ledger = &state->ledger;
    enum mp_status status = mp_ledger_free(ledger, event, known_block, error);
    if (status) return status;
    if (*known_block)
        return follow_sites(state, &ledger->freed, -(int64_t)mp_known(event->bytes), -1, UINT64_MAX) ? MP_OK
                                                                                                     : no_memory(error);
    const struct mp_base_block ended = {.track = event->track};
    struct mp_ledger_track *track = mp_ledger_track(ledger, event->track);
    track->peak_bytes += mp_known(event->bytes);
    track->peak_blocks++;
    return mp_peak_sites_ended(&state->sites, &ended, mp_known(event->bytes)) ? MP_OK : no_memory(error);
}

static inline enum mp_status take_alloc(struct mp_state *state, struct mp_event *event, struct mp_event *missed,
                                        struct mp_error *error)
{
    if (state->with_sites) return alloc_with_sites(state, event, missed, error);
    return mp_ledger_alloc(&state->ledger, event, missed, error);
}

static inline enum mp_status take_free(struct mp_state *state, struct mp_event *event, bool *known_block,
                                       struct mp_error *error)
{
    bool ignored;
    if (!known_block) known_block = &ignored;
    if (state->with_sites) return free_with_sites(state, event, known_block, error);
    return mp_ledger_free(&state->ledger, event, known_block, error);
}

/* Resizes come only from files of other programs: memprof's recorders do not make them. */
static enum mp_status take_resize(struct mp_state *state, const struct mp_event *event, struct mp_error *error)
{
    const struct mp_base_block *block = mp_ledger_at(&state->ledger, event->track, event->address);
    struct mp_event fresh = *event;
    if (!block) return take_alloc(state, &fresh, NULL, error);
    uint64_t bytes = block->bytes, before = state->ledger.tracks.at[event->track].peak_bytes;
    mp_ledger_resize(&state->ledger, event);
    if (!state->with_sites) return MP_OK;
    int64_t more = (int64_t)(mp_known(event->bytes) - mp_known(bytes));
    return follow_sites(state, block, more, 0, before) ? MP_OK : no_memory(error);
}

/* ---- other events ------------------------------------------------------------------------------------------------ */

enum mp_status mp_state_boundary(struct mp_state *state, const struct mp_event *event, bool *begins,
                                 struct mp_error *error)
{
    *begins = false;
    if (event->type == MP_EVENT_REGION_END) mp_open_spans_end(&state->open, event);
    if (event->type != MP_EVENT_STEP && event->type != MP_EVENT_REGION_BEGIN) return MP_OK;
    const char *name = state->text(state->texts, event->name);
    *begins = mp_step_rule_take(&state->steps, event->type, event->name, name);
    state->ledger.steps = mp_step_rule_steps(&state->steps);
    if (event->type == MP_EVENT_REGION_BEGIN)
        return mp_open_spans_begin(&state->open, event) ? MP_OK : no_memory(error);
    enum mp_step_kind kind = mp_step_rule_kind(&state->steps, event->type, event->name, name);
    if (kind < state->step_kind) return MP_OK;
    state->step_kind = kind;
    state->step = *event;
    return MP_OK;
}

static enum mp_status take_reserved(struct mp_state *state, const struct mp_event *event, struct mp_error *error)
{
    struct mp_ledger_track *track = mp_ledger_track(&state->ledger, event->track);
    if (!track) return MP_OK;
    if (!mp_vec_extend(&state->reserved, (size_t)event->track + 1)) return no_memory(error);
    state->reserved_count += state->reserved.at[event->track].type == MP_EVENT_NONE;
    state->reserved.at[event->track] = *event;
    track->reserved_bytes = event->bytes;
    if (track->peak_reserved_bytes == MP_BYTES_UNKNOWN || event->bytes > track->peak_reserved_bytes)
        track->peak_reserved_bytes = event->bytes;
    return MP_OK;
}

static enum mp_status take_other(struct mp_state *state, struct mp_event *event, struct mp_error *error)
{
    bool begins;
    switch (event->type) {
    case MP_EVENT_RESIZE:
        return take_resize(state, event, error);
    case MP_EVENT_RESERVED:
        return take_reserved(state, event, error);
    case MP_EVENT_START:
    case MP_EVENT_STOP:
        state->window = *event;
        return MP_OK;
    default:
        return mp_state_boundary(state, event, &begins, error);
    }
}

enum mp_status mp_state_take(struct mp_state *state, struct mp_event *event, struct mp_event *missed, bool *known_block,
                             struct mp_error *error)
{
    state->events++;
    state->time_ns = event->time_ns;
    if (event->type == MP_EVENT_ALLOC) return take_alloc(state, event, missed, error);
    if (event->type == MP_EVENT_FREE) return take_free(state, event, known_block, error);
    return take_other(state, event, error);
}

enum mp_status mp_state_replay(struct mp_state *state, struct mp_event event, struct mp_error *error)
{
    struct mp_ledger *ledger = &state->ledger;
    if (event.type != MP_EVENT_ALLOC && event.type != MP_EVENT_FREE && event.type != MP_EVENT_RESIZE)
        return mp_state_take(state, &event, NULL, NULL, error);
    const struct mp_base_block *block = mp_ledger_at(ledger, event.track, event.address);
    bool again = event.type == MP_EVENT_ALLOC && block && block->block == event.block; /* a base has already listed the
                                                                                        * block */
    uint64_t next = ledger->next_block > event.block ? ledger->next_block : event.block + 1;
    ledger->next_block = event.block;
    enum mp_status status = again ? MP_OK : mp_state_take(state, &event, NULL, NULL, error);
    ledger->next_block = next;
    return status;
}

/* ---- chunks of a file ------------------------------------------------------------------------------------------- */

static enum mp_status add_base_block(struct mp_state *state, const struct mp_base_block *block, struct mp_error *error)
{
    struct mp_ledger *ledger = &state->ledger;
    uint64_t next = ledger->next_block > block->block ? ledger->next_block : block->block + 1;
    struct mp_event event = mp_birth_of(block);
    event.time_ns = state->time_ns;
    ledger->next_block = block->block;
    enum mp_status status = take_alloc(state, &event, NULL, error);
    ledger->next_block = next;
    if (!status) *mp_ledger_at(ledger, block->track, block->address) = *block;
    return status;
}

static bool is_same(const struct mp_base_block *block, const struct mp_base_block *listed)
{
    return block && block->block == listed->block && block->bytes == listed->bytes;
}

/* Ends the live blocks that a base does not list: the base is right even if events were lost. */
static enum mp_status end_others(struct mp_state *state, struct mp_error *error)
{
    struct mp_ledger *ledger = &state->ledger;
    bool *there = calloc(ledger->blocks.count + 1, sizeof *there);
    if (!there) return no_memory(error);
    mp_vec_each (const struct mp_base_block, listed, &state->base) {
        const struct mp_base_block *block = mp_ledger_at(ledger, listed->track, listed->address);
        if (is_same(block, listed)) there[block - ledger->blocks.at] = true;
    }
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < ledger->blocks.count; i++) {
        const struct mp_base_block *block = &ledger->blocks.at[i];
        if (block->track == MP_LEDGER_SLOT_FREE || there[i]) continue;
        struct mp_event event = {.time_ns = state->time_ns, .address = block->address, .track = block->track};
        status = take_free(state, &event, NULL, error);
    }
    free(there);
    return status;
}

static enum mp_status take_base(struct mp_state *state, const struct mp_chunk *chunk, bool *whole,
                                struct mp_error *error)
{
    struct mp_ledger *ledger = &state->ledger;
    bool first = !state->events && !ledger->by_address.count && !state->past.events;
    if (!chunk->base_before) state->base.count = 0;
    if (chunk->base_before != state->base.count) return MP_OK; /* a part of this base is lost */
    if (!mp_vec_append(&state->base, chunk->as.base, chunk->count)) return no_memory(error);
    if (state->base.count < chunk->base_total) return MP_OK;
    *whole = true;
    state->time_ns = chunk->time_ns;
    enum mp_status status = mp_state_settle(state, state->time_ns) ? end_others(state, error) : no_memory(error);
    for (size_t i = 0; !status && i < state->base.count; i++) {
        const struct mp_base_block *listed = &state->base.at[i];
        struct mp_base_block *block = mp_ledger_at(ledger, listed->track, listed->address);
        if (is_same(block, listed))
            *block = *listed;
        else
            status = add_base_block(state, listed, error);
    }
    for (size_t i = 0; first && i < ledger->tracks.count; i++) /* the base's blocks are older than all events */
        ledger->tracks.at[i].peak_ns = ledger->tracks.at[i].peak_step = 0;
    return status;
}

static enum mp_status take_past(struct mp_state *state, const struct mp_chunk *chunk, struct mp_error *error)
{
    if (chunk->kind == MP_CHUNK_PAST) {
        state->past = *chunk->as.past;
        state->ledger.steps = state->steps.before = chunk->as.past->steps;
    }
    for (size_t i = 0; chunk->kind == MP_CHUNK_PAST_PEAKS && i < chunk->count; i++) {
        const struct mp_past_peak *peak = &chunk->as.past_peaks[i];
        struct mp_ledger_track *track = mp_ledger_track(&state->ledger, peak->track);
        if (!track) return no_memory(error);
        track->peak_bytes = peak->bytes;
        track->peak_blocks = peak->blocks;
        track->peak_ns = peak->time_ns;
        track->peak_step = peak->step;
        track->peak_reserved_bytes = peak->reserved_bytes;
    }
    for (size_t i = 0; state->with_sites && chunk->kind == MP_CHUNK_PAST_SITES && i < chunk->count; i++)
        if (!mp_peak_sites_past(&state->sites, &chunk->as.past_sites[i])) return no_memory(error);
    return MP_OK;
}

#define WAITING_MAX 4096 /* more waiting labels than this, plus live blocks: give them to their blocks */

static enum mp_status take_words(struct mp_state *state, const struct mp_chunk *chunk, struct mp_error *error)
{
    bool done = chunk->kind == MP_CHUNK_LABELS ? mp_vec_append(&state->labels, chunk->as.labels, chunk->count)
                                               : mp_vec_append(&state->requests, chunk->as.requests, chunk->count);
    size_t waiting = state->labels.count + state->requests.count;
    if (done && waiting > WAITING_MAX + state->ledger.by_address.count) done = mp_state_settle(state, state->time_ns);
    return done ? MP_OK : no_memory(error);
}

static void take_number(struct mp_state *state, const struct mp_chunk *chunk)
{
    if (chunk->next_block > state->ledger.next_block) state->ledger.next_block = chunk->next_block;
}

enum mp_status mp_state_chunk(struct mp_state *state, const struct mp_chunk *chunk, bool *whole_base,
                              struct mp_error *error)
{
    enum mp_status status = MP_OK;
    bool whole = false;
    switch (chunk->kind) {
    case MP_CHUNK_EVENTS_KIND:
        take_number(state, chunk);
        for (size_t i = 0; !status && i < chunk->as.events.count; i++)
            status = mp_state_replay(state, mp_event_at(&chunk->as.events, i), error);
        return status;
    case MP_CHUNK_BASE:
        take_number(state, chunk);
        status = take_base(state, chunk, &whole, error);
        if (whole_base) *whole_base = whole;
        return status;
    case MP_CHUNK_LABELS:
    case MP_CHUNK_REQUESTS:
        return take_words(state, chunk, error);
    case MP_CHUNK_PAST:
    case MP_CHUNK_PAST_PEAKS:
    case MP_CHUNK_PAST_SITES:
        return take_past(state, chunk, error);
    default:
        return MP_OK;
    }
}

static struct mp_base_block *live(struct mp_state *state, const struct mp_map *slots, uint64_t number)
{
    const uint64_t *slot = number == UINT64_MAX ? NULL : mp_map_find(slots, number + 1);
    return slot ? &state->ledger.blocks.at[*slot] : NULL;
}

bool mp_state_settle(struct mp_state *state, uint64_t until_ns)
{
    struct mp_map slots = {0};
    const struct mp_ledger *ledger = &state->ledger;
    size_t kept = 0;
    if (!state->labels.count && !state->requests.count) return true;
    for (size_t i = 0; i < ledger->blocks.count; i++) {
        if (ledger->blocks.at[i].track == MP_LEDGER_SLOT_FREE) continue;
        uint64_t *slot = mp_map_insert(&slots, ledger->blocks.at[i].block + 1, NULL);
        if (!slot) return mp_map_free(&slots), false;
        *slot = i;
    }
    for (size_t i = 0; i < state->labels.count; i++) {
        const struct mp_label label = state->labels.at[i];
        struct mp_base_block *block = live(state, &slots, label.block);
        if (block && label.time_ns <= until_ns) {
            block->role = label.role;
            block->label = label.name;
        } else if (block || label.block >= ledger->next_block) {
            state->labels.at[kept++] = label;
        }
    }
    state->labels.count = kept;
    for (size_t i = 0; i < state->requests.count; i++) {
        struct mp_base_block *block = live(state, &slots, state->requests.at[i].block);
        if (block) block->request = state->requests.at[i].request;
    }
    state->requests.count = 0; /* dropped, because the blocks now have their requests */
    mp_map_free(&slots);
    return true;
}

void mp_state_close(struct mp_state *state)
{
    mp_ledger_free_all(&state->ledger);
    mp_step_rule_close(&state->steps);
    mp_peak_sites_free(&state->sites);
    mp_vec_free(&state->open);
    mp_vec_free(&state->reserved);
    mp_vec_free(&state->base);
    mp_vec_free(&state->labels);
    mp_vec_free(&state->requests);
}
