#include "collect/fold_state.h"

#include <string.h>

void mp_fold_state_open(struct mp_fold_state *state, const char *configuration)
{
    *state = (struct mp_fold_state){0};
    mp_step_rule_open_configured(&state->rule, configuration);
    mp_step_setting(state->function, sizeof state->function, configuration, "step_at");
}

static uint64_t known(uint64_t bytes)
{
    return bytes == MP_BYTES_UNKNOWN ? 0 : bytes;
}

/* ---- blocks ---------------------------------------------------------------------------------------------------- */

static struct mp_base_block *find(struct mp_fold_state *state, uint64_t number)
{
    const uint64_t *slot = mp_map_find(&state->live, number + 1);
    return slot ? &state->blocks.at[*slot] : NULL;
}

static struct mp_base_block *add(struct mp_fold_state *state, const struct mp_base_block *block)
{
    uint32_t slot = (uint32_t)state->blocks.count;
    uint64_t *value = mp_map_insert(&state->live, block->block + 1, NULL);
    if (!value) return NULL;
    if (state->free_slots.count)
        slot = state->free_slots.at[--state->free_slots.count];
    else if (!mp_vec_push(&state->blocks, *block))
        return NULL;
    state->blocks.at[slot] = *block;
    *value = slot;
    if (block->block >= state->next_block) state->next_block = block->block + 1;
    return &state->blocks.at[slot];
}

static bool drop(struct mp_fold_state *state, uint64_t number)
{
    uint64_t slot;
    return !mp_map_remove(&state->live, number + 1, &slot) || mp_vec_push(&state->free_slots, (uint32_t)slot);
}

static bool change(struct mp_fold_state *state, const struct mp_base_block *block, uint64_t more, uint64_t less,
                   int blocks)
{
    return mp_fold_peaks_change(&state->peaks, block, (int64_t)(known(more) - known(less)), blocks, state->time_ns,
                                mp_fold_state_steps(state));
}

static bool take_block(struct mp_fold_state *state, const struct mp_event *event)
{
    struct mp_base_block *block = find(state, event->block);
    if (event->type == MP_EVENT_ALLOC || (!block && event->type == MP_EVENT_RESIZE)) {
        struct mp_base_block fresh = {.block = event->block,
                                      .address = event->address,
                                      .bytes = event->bytes,
                                      .birth_ns = event->time_ns,
                                      .stack = event->stack,
                                      .module = event->name,
                                      .track = event->track,
                                      .kind = event->kind};
        if (block) return true; /* a number that is taken says nothing new */
        return add(state, &fresh) && change(state, &fresh, fresh.bytes, 0, 1);
    }
    if (!block) {
        struct mp_base_block ended = {.track = event->track};
        if (event->block >= state->next_block) state->next_block = event->block + 1;
        return mp_fold_peaks_ended(&state->peaks, &ended, known(event->bytes));
    }
    if (event->type == MP_EVENT_FREE) return change(state, block, 0, block->bytes, -1) && drop(state, event->block);
    uint64_t before = block->bytes;
    block->bytes = event->bytes;
    return change(state, block, event->bytes, before, 0);
}

/* After lost chunks the base knows better. */
static bool correct(struct mp_fold_state *state)
{
    struct mp_map there = {0};
    bool done = true;
    for (size_t i = 0; done && i < state->base.count; i++) {
        const struct mp_base_block *block = &state->base.at[i];
        done = mp_map_insert(&there, block->block + 1, NULL);
        if (done && !find(state, block->block)) done = add(state, block) && change(state, block, block->bytes, 0, 1);
    }
    for (size_t i = 0; done && i < state->blocks.count; i++) {
        struct mp_base_block block = state->blocks.at[i];
        if (find(state, block.block) != &state->blocks.at[i] || mp_map_find(&there, block.block + 1)) continue;
        done = change(state, &block, 0, block.bytes, -1) && drop(state, block.block);
    }
    mp_map_free(&there);
    return done;
}

bool mp_fold_state_base(struct mp_fold_state *state, const struct mp_chunk *chunk)
{
    if (!chunk->base_before) state->base.count = 0;
    if (chunk->base_before != state->base.count) return true; /* a part of it is lost */
    if (chunk->next_block > state->next_block) state->next_block = chunk->next_block;
    if (!mp_vec_append(&state->base, chunk->base, chunk->count)) return false;
    if (state->base.count < chunk->base_total) return true;
    state->time_ns = chunk->time_ns;
    if (state->taken || state->live.count) return correct(state);
    for (size_t i = 0; i < state->base.count; i++) {
        const struct mp_base_block *block = &state->base.at[i];
        if (!add(state, block) || !mp_fold_peaks_base(&state->peaks, block, known(block->bytes), state->has_past))
            return false;
    }
    return true;
}

/* ---- steps and regions ------------------------------------------------------------------------------------------ */

static bool is_named_step(struct mp_fold_state *state, uint32_t name)
{
    if (!mp_vec_extend(&state->is_step, (size_t)name + 1)) return false;
    unsigned char *answer = &state->is_step.at[name];
    if (*answer == MP_FOLD_NOT_ASKED)
        *answer = mp_step_rule_matches(&state->rule, mp_fold_tables_text(&state->tables, name)) ? MP_FOLD_STEP
                                                                                                : MP_FOLD_NO_STEP;
    return *answer == MP_FOLD_STEP;
}

uint64_t mp_fold_state_steps(const struct mp_fold_state *state)
{
    bool asked = state->rule.has_pattern;
    uint64_t here = 0;
    if (state->function_steps)
        here = state->function_steps;
    else if (asked && state->named_steps)
        here = state->named_steps;
    else if (state->marked_steps)
        here = state->marked_steps;
    else if (!asked && state->named_steps)
        here = state->named_steps;
    else if (state->optimizer_steps) /* each ends a step and begins the next one: the first began with the program */
        here = state->optimizer_steps + !state->past.steps;
    return state->past.steps + here;
}

const struct mp_event *mp_fold_state_step(const struct mp_fold_state *state)
{
    return state->function_steps    ? &state->function_step
           : state->marked_steps    ? &state->marked_step
           : state->optimizer_steps ? &state->optimizer_step
                                    : NULL;
}

static bool begin_region(struct mp_fold_state *state, const struct mp_event *event)
{
    state->named_steps += is_named_step(state, event->name);
    return mp_open_spans_begin(&state->open, event);
}

static void take_step(struct mp_fold_state *state, const struct mp_event *event)
{
    const char *name = mp_fold_tables_text(&state->tables, event->name);
    bool of_optimizer = !strcmp(name, MP_TORCH_STEP);
    *(of_optimizer ? &state->optimizer_steps : &state->marked_steps) += 1;
    *(of_optimizer ? &state->optimizer_step : &state->marked_step) = *event;
    if (!*state->function || strcmp(name, state->function)) return;
    state->function_steps++;
    state->function_step = *event;
}

static bool take_reserved(struct mp_fold_state *state, const struct mp_event *event)
{
    struct mp_fold_track *track = mp_fold_track(&state->peaks, event->track);
    if (!track || !mp_vec_extend(&state->reserved, (size_t)event->track + 1)) return false;
    state->reserved.at[event->track] = *event;
    if (track->peak.reserved_bytes == MP_BYTES_UNKNOWN || event->bytes > track->peak.reserved_bytes)
        track->peak.reserved_bytes = event->bytes;
    return true;
}

static void count_told_again(struct mp_fold_state *state)
{
    state->told_again = state->open.count + (state->window.type != MP_EVENT_NONE) + (mp_fold_state_step(state) != NULL);
    for (size_t i = 0; i < state->reserved.count; i++)
        state->told_again += state->reserved.at[i].type != MP_EVENT_NONE;
}

bool mp_fold_state_take(struct mp_fold_state *state, const struct mp_event *event)
{
    bool done = true;
    state->taken++;
    state->time_ns = event->time_ns;
    switch (event->type) {
    case MP_EVENT_ALLOC:
    case MP_EVENT_FREE:
    case MP_EVENT_RESIZE:
        return take_block(state, event);
    case MP_EVENT_RESERVED:
        done = take_reserved(state, event);
        break;
    case MP_EVENT_STEP:
        take_step(state, event);
        break;
    case MP_EVENT_REGION_BEGIN:
        done = begin_region(state, event);
        break;
    case MP_EVENT_REGION_END:
        mp_open_spans_end(&state->open, event);
        break;
    case MP_EVENT_START:
    case MP_EVENT_STOP:
        state->window = *event;
        break;
    default:
        return true;
    }
    count_told_again(state);
    return done;
}

/* ---- the rest --------------------------------------------------------------------------------------------------- */

bool mp_fold_state_samples(struct mp_fold_state *state, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_sample sample = chunk->samples[i];
        struct mp_fold_counter fresh = {sample, sample};
        size_t at = 0;
        while (at < state->counters.count && state->counters.at[at].last.counter != sample.counter)
            at++;
        if (at == state->counters.count && !mp_vec_push(&state->counters, fresh)) return false;
        state->counters.at[at].last = sample;
        if (sample.value > state->counters.at[at].highest.value) state->counters.at[at].highest = sample;
    }
    return true;
}

bool mp_fold_state_labels(struct mp_fold_state *state, const struct mp_chunk *chunk)
{
    mp_fold_state_label(state);
    return mp_vec_append(&state->labels, chunk->labels, chunk->count);
}

void mp_fold_state_label(struct mp_fold_state *state)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->labels.count; i++) {
        const struct mp_label label = state->labels.at[i];
        struct mp_base_block *block = find(state, label.block);
        if (block && label.time_ns <= state->time_ns) {
            block->role = (uint8_t)label.role;
            block->label = label.name;
        } else if (block || label.block >= state->next_block) {
            state->labels.at[kept++] = label;
        }
    }
    state->labels.count = kept;
}

void mp_fold_state_requests(struct mp_fold_state *state, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_base_block *block = find(state, chunk->requests[i].block);
        if (block) block->request = chunk->requests[i].request;
    }
}

bool mp_fold_state_past(struct mp_fold_state *state, const struct mp_chunk *chunk)
{
    bool done = true;
    if (chunk->kind == MP_CHUNK_PAST) {
        state->past = *chunk->past;
        state->has_past = chunk->past->events > 0;
    }
    for (size_t i = 0; done && chunk->kind == MP_CHUNK_PAST_PEAKS && i < chunk->count; i++)
        done = mp_fold_peaks_past(&state->peaks, &chunk->past_peaks[i]);
    for (size_t i = 0; done && chunk->kind == MP_CHUNK_PAST_SITES && i < chunk->count; i++)
        done = mp_fold_peaks_past_site(&state->peaks, &chunk->past_sites[i]);
    return done;
}

void mp_fold_state_close(struct mp_fold_state *state)
{
    mp_fold_tables_free(&state->tables);
    mp_fold_peaks_free(&state->peaks);
    mp_map_free(&state->live);
    mp_vec_free(&state->blocks);
    mp_vec_free(&state->free_slots);
    mp_vec_free(&state->base);
    mp_vec_free(&state->reserved);
    mp_vec_free(&state->open);
    mp_vec_free(&state->is_step);
    mp_vec_free(&state->counters);
    mp_vec_free(&state->labels);
    mp_vec_free(&state->marks);
    mp_step_rule_close(&state->rule);
}
