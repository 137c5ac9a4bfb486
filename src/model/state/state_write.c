#include "model/state/state_write.h"
#include "model/state/state.h"

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "out of memory while writing what is live");
}

size_t mp_state_open_events(const struct mp_state *state)
{
    return state->open.count + (state->window.type != MP_EVENT_NONE) + (state->step.type != MP_EVENT_NONE) +
           state->reserved_count;
}

/* The number of steps that begin with events that write_lasting() repeats. */
static uint64_t open_steps(struct mp_state *state)
{
    struct mp_step_rule *rule = &state->steps;
    uint64_t open = 0;
    if (rule->kind != rule->range) return state->step.type != MP_EVENT_NONE;
    for (size_t i = 0; i < state->open.count; i++) {
        uint32_t name = state->open.at[i].name;
        open += mp_step_rule_kind(rule, MP_EVENT_REGION_BEGIN, name, state->text(state->texts, name)) == rule->kind;
    }
    return open;
}

static enum mp_status write_past(struct mp_state *state, struct mp_writer *writer, struct mp_error *error)
{
    MP_VEC(struct mp_past_peak) peaks = {0};
    MP_VEC(struct mp_past_site) sites = {0};
    struct mp_past past = {.events = state->past.events + state->events - mp_state_open_events(state),
                           .steps = state->ledger.steps - open_steps(state),
                           .time_ns = state->time_ns};
    bool done = true;
    for (size_t i = 0; done && i < state->ledger.tracks.count; i++) {
        const struct mp_ledger_track *track = &state->ledger.tracks.at[i];
        struct mp_past_peak peak = {.bytes = track->peak_bytes,
                                    .blocks = track->peak_blocks,
                                    .time_ns = track->peak_ns,
                                    .step = track->peak_step,
                                    .reserved_bytes = track->peak_reserved_bytes,
                                    .track = (uint16_t)i};
        done = mp_vec_push(&peaks, peak);
    }
    mp_peak_sites_settle(&state->sites);
    for (size_t i = 0; done && i < state->sites.at.count; i++)
        if (state->sites.at.at[i].held.blocks) done = mp_vec_push(&sites, state->sites.at.at[i].held);
    enum mp_status status = done ? mp_writer_past(writer, &past, error) : no_memory(error);
    if (!status) status = mp_writer_past_peaks(writer, peaks.at, peaks.count, error);
    if (!status) status = mp_writer_past_sites(writer, sites.at, sites.count, error);
    mp_vec_free(&peaks);
    mp_vec_free(&sites);
    return status;
}

enum mp_status mp_state_write_base(const struct mp_state *state, struct mp_writer *writer, struct mp_error *error)
{
    struct mp_base_block *blocks;
    size_t count;
    enum mp_status status = mp_ledger_copy(&state->ledger, &blocks, &count, error);
    if (status) return status;
    status = mp_writer_base(writer, state->time_ns, blocks, count, error);
    free(blocks);
    return status;
}

enum mp_status mp_state_write_events(const struct mp_state *state, struct mp_writer *writer,
                                     const struct mp_event *events, size_t count, const struct mp_ring_mark *marks,
                                     size_t mark_count, struct mp_error *error)
{
    const struct mp_ledger *ledger = &state->ledger;
    uint64_t *live = malloc((ledger->tracks.count + 1) * sizeof *live);
    if (!live) return no_memory(error);
    for (size_t i = 0; i < ledger->tracks.count; i++)
        live[i] = ledger->tracks.at[i].bytes;
    enum mp_status status =
        mp_writer_events(writer, events, count, live, ledger->tracks.count, marks, mark_count, error);
    free(live);
    return status;
}

/* Writes everything that is still in force as events. Their time is the moment at which the new file begins. */
static enum mp_status write_lasting(const struct mp_state *state, struct mp_writer *writer,
                                    const struct mp_ring_mark *marks, size_t mark_count, struct mp_error *error)
{
    MP_VEC(struct mp_event) events = {0};
    bool done = true;
    if (state->window.type) done = mp_vec_push(&events, state->window);
    for (size_t i = 0; done && i < state->reserved.count; i++)
        if (state->reserved.at[i].type) done = mp_vec_push(&events, state->reserved.at[i]);
    if (done && state->step.type) done = mp_vec_push(&events, state->step);
    for (size_t i = 0; done && i < state->open.count; i++) {
        const struct mp_open_span *open = &state->open.at[i];
        struct mp_event event = {.type = MP_EVENT_REGION_BEGIN, .name = open->name, .thread = open->thread};
        done = mp_vec_push(&events, event);
    }
    for (size_t i = 0; i < events.count; i++)
        events.at[i].time_ns = state->time_ns;
    enum mp_status status = done ? MP_OK : no_memory(error);
    /* Written even without events, because of the marks. */
    if (!status) status = mp_state_write_events(state, writer, events.at, events.count, marks, mark_count, error);
    mp_vec_free(&events);
    return status;
}

enum mp_status mp_state_write(struct mp_state *state, struct mp_writer *writer, const struct mp_ring_mark *marks,
                              size_t mark_count, struct mp_error *error)
{
    if (!mp_state_settle(state, state->time_ns)) return no_memory(error);
    enum mp_status status = write_past(state, writer, error);
    mp_writer_lost(writer, 0, state->ledger.next_block);
    if (!status) status = mp_state_write_base(state, writer, error);
    if (!status) status = mp_writer_labels(writer, state->labels.at, state->labels.count, error);
    return status ? status : write_lasting(state, writer, marks, mark_count, error);
}
