#include "collect/fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "collect/fold_state.h"

struct folding {
    struct mp_fold_state state;
    struct mp_reader *reader;
    struct mp_writer *writer;
    uint64_t events, keep;
    struct mp_event *rest; /* of the chunk in which the new file begins */
    size_t rest_count;
    MP_VEC(struct mp_ring_mark) rest_marks;
    uint64_t next_offset;
};

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "not enough memory to keep the recording short");
}

static bool too_many(const struct folding *folding)
{
    const struct mp_fold_state *state = &folding->state;
    uint64_t left = folding->events - state->taken;
    return left && left + state->told_again > folding->keep;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static bool keep_marks(void *vec_pointer, const struct mp_chunk *chunk)
{
    MP_VEC(struct mp_ring_mark) *marks = vec_pointer;
    marks->count = 0;
    return mp_vec_append(marks, chunk->marks, chunk->mark_count);
}

/* Takes a chunk's events while there are too many; the others are its rest. */
static bool take_events(struct folding *folding, const struct mp_chunk *chunk)
{
    const struct mp_event_columns *columns = &chunk->events;
    size_t at = 0;
    while (at < columns->count && too_many(folding)) {
        struct mp_event event = mp_event_at(columns, at++);
        if (!mp_fold_state_take(&folding->state, &event)) return false;
    }
    if (at == columns->count) return keep_marks(&folding->state.marks, chunk);
    folding->rest = malloc((columns->count - at) * sizeof *folding->rest);
    for (; folding->rest && at < columns->count; at++)
        folding->rest[folding->rest_count++] = mp_event_at(columns, at);
    return folding->rest && keep_marks(&folding->rest_marks, chunk);
}

static enum mp_status take_chunk(struct folding *folding, const struct mp_chunk *chunk, struct mp_error *error)
{
    struct mp_fold_state *state = &folding->state;
    switch (chunk->kind) {
    case MP_CHUNK_STRINGS:
    case MP_CHUNK_DEVICES:
    case MP_CHUNK_TRACKS:
    case MP_CHUNK_THREADS:
    case MP_CHUNK_MODULES:
    case MP_CHUNK_FRAMES:
    case MP_CHUNK_STACKS:
        return mp_fold_tables_take(&state->tables, chunk, folding->writer, error);
    case MP_CHUNK_EVENTS_KIND:
        return take_events(folding, chunk) ? MP_OK : no_memory(error);
    case MP_CHUNK_BASE:
        return mp_fold_state_base(state, chunk) ? MP_OK : no_memory(error);
    case MP_CHUNK_SAMPLES:
        return mp_fold_state_samples(state, chunk) ? MP_OK : no_memory(error);
    case MP_CHUNK_LABELS:
        return mp_fold_state_labels(state, chunk) ? MP_OK : no_memory(error);
    case MP_CHUNK_REQUESTS:
        mp_fold_state_requests(state, chunk);
        return MP_OK;
    case MP_CHUNK_PAST:
    case MP_CHUNK_PAST_PEAKS:
    case MP_CHUNK_PAST_SITES:
        return mp_fold_state_past(state, chunk) ? MP_OK : no_memory(error);
    default:
        return MP_OK; /* of the end, which an unfinished file has not */
    }
}

static enum mp_status read_old(struct folding *folding, const struct mp_written *from, struct mp_error *error)
{
    struct mp_chunk chunk;
    enum mp_status status = MP_OK;
    while (!status && !folding->rest && folding->next_offset < from->bytes) {
        status = mp_reader_next(folding->reader, &chunk, error);
        if (status == MP_NOT_FOUND) return MP_OK;
        if (!status) status = take_chunk(folding, &chunk, error);
        if (!status && chunk.bytes) folding->next_offset = chunk.offset + chunk.bytes;
    }
    return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* How many of the events that are told again begin a step, as model/spans.h counts them. */
static uint64_t steps_told_again(struct mp_fold_state *state)
{
    bool named = state->named_steps && (state->rule.has_pattern || !state->marked_steps);
    uint64_t open = 0;
    if (state->function_steps || !named) return mp_fold_state_step(state) != NULL;
    for (size_t i = 0; i < state->open.count; i++)
        open += state->is_step.at[state->open.at[i].name] == MP_FOLD_STEP;
    return open;
}

static enum mp_status write_past(struct folding *folding, struct mp_error *error)
{
    struct mp_fold_state *state = &folding->state;
    MP_VEC(struct mp_past_peak) peaks = {0};
    MP_VEC(struct mp_past_site) sites = {0};
    struct mp_past past = {.events = state->past.events + state->taken - state->told_again,
                           .steps = mp_fold_state_steps(state) - steps_told_again(state),
                           .time_ns = state->time_ns};
    mp_fold_peaks_settle(&state->peaks);
    bool done = true;
    for (size_t i = 0; done && i < state->peaks.tracks.count; i++)
        done = mp_vec_push(&peaks, state->peaks.tracks.at[i].peak);
    for (size_t i = 0; done && i < state->peaks.sites.count; i++)
        if (state->peaks.sites.at[i].held.blocks) done = mp_vec_push(&sites, state->peaks.sites.at[i].held);
    enum mp_status status = done ? mp_writer_past(folding->writer, &past, error) : no_memory(error);
    if (!status) status = mp_writer_past_peaks(folding->writer, peaks.at, peaks.count, error);
    if (!status) status = mp_writer_past_sites(folding->writer, sites.at, sites.count, error);
    mp_vec_free(&peaks);
    mp_vec_free(&sites);
    return status;
}

static enum mp_status write_base(struct folding *folding, struct mp_error *error)
{
    struct mp_fold_state *state = &folding->state;
    struct mp_base_block *blocks = malloc((state->live.count + 1) * sizeof *blocks);
    size_t count = 0;
    if (!blocks) return no_memory(error);
    for (size_t i = 0; i < state->blocks.count; i++) {
        const uint64_t *slot = mp_map_find(&state->live, state->blocks.at[i].block + 1);
        if (slot && *slot == i) blocks[count++] = state->blocks.at[i];
    }
    qsort(blocks, count, sizeof *blocks, mp_base_by_number);
    mp_writer_lost(folding->writer, 0, state->next_block);
    enum mp_status status = mp_writer_base(folding->writer, state->time_ns, blocks, count, error);
    free(blocks);
    return status;
}

static int by_time(const void *left, const void *right)
{
    const struct mp_sample *a = left, *b = right;
    return a->time_ns < b->time_ns ? -1 : a->time_ns > b->time_ns;
}

static enum mp_status write_samples(struct folding *folding, struct mp_error *error)
{
    const struct mp_fold_state *state = &folding->state;
    struct mp_sample *samples = malloc((2 * state->counters.count + 1) * sizeof *samples);
    size_t count = 0;
    if (!samples) return no_memory(error);
    for (size_t i = 0; i < state->counters.count; i++) {
        const struct mp_fold_counter *counter = &state->counters.at[i];
        if (counter->highest.time_ns != counter->last.time_ns) samples[count++] = counter->highest;
        samples[count++] = counter->last;
    }
    if (count) qsort(samples, count, sizeof *samples, by_time);
    enum mp_status status = mp_writer_samples(folding->writer, samples, count, error);
    free(samples);
    return status;
}

static enum mp_status write_events(struct folding *folding, const struct mp_event *events, size_t count,
                                   const struct mp_ring_mark *marks, size_t mark_count, struct mp_error *error)
{
    const struct mp_fold_peaks *peaks = &folding->state.peaks;
    uint64_t *live = malloc((peaks->tracks.count + 1) * sizeof *live);
    if (!live) return no_memory(error);
    for (size_t i = 0; i < peaks->tracks.count; i++)
        live[i] = peaks->tracks.at[i].bytes;
    enum mp_status status =
        mp_writer_events(folding->writer, events, count, live, peaks->tracks.count, marks, mark_count, error);
    free(live);
    return status;
}

/* What still holds, as events of the moment at which the new file begins. */
static enum mp_status tell_again(struct folding *folding, struct mp_error *error)
{
    struct mp_fold_state *state = &folding->state;
    MP_VEC(struct mp_event) events = {0};
    bool done = true;
    if (state->window.type) done = mp_vec_push(&events, state->window);
    for (size_t i = 0; done && i < state->reserved.count; i++)
        if (state->reserved.at[i].type) done = mp_vec_push(&events, state->reserved.at[i]);
    const struct mp_event *step = mp_fold_state_step(state);
    if (done && step) done = mp_vec_push(&events, *step);
    for (size_t i = 0; done && i < state->open.count; i++) {
        const struct mp_open_span *open = &state->open.at[i];
        struct mp_event event = {.type = MP_EVENT_REGION_BEGIN, .name = open->name, .thread = open->thread};
        done = mp_vec_push(&events, event);
    }
    for (size_t i = 0; i < events.count; i++)
        events.at[i].time_ns = state->time_ns;
    enum mp_status status = done ? MP_OK : no_memory(error);
    /* Also without events: the marks must not be lost. */
    if (!status) status = write_events(folding, events.at, events.count, state->marks.at, state->marks.count, error);
    mp_vec_free(&events);
    return status;
}

static enum mp_status write_new(struct folding *folding, const struct mp_written *from, struct mp_error *error)
{
    struct mp_fold_state *state = &folding->state;
    mp_fold_state_label(state);
    enum mp_status status = mp_fold_tables_flush(&state->tables, folding->writer, error);
    if (!status) status = write_past(folding, error);
    if (!status) status = write_base(folding, error);
    if (!status) status = write_samples(folding, error);
    if (!status) status = mp_writer_labels(folding->writer, state->labels.at, state->labels.count, error);
    if (!status) status = tell_again(folding, error);
    if (!status && folding->rest_count)
        status = write_events(folding, folding->rest, folding->rest_count, folding->rest_marks.at,
                              folding->rest_marks.count, error);
    return status ? status : mp_writer_copy(folding->writer, from, folding->next_offset, error);
}

static enum mp_status open_both(struct folding *folding, const struct mp_written *from, int fd, struct mp_error *error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", from->fd);
    enum mp_status status = mp_reader_open(path, &folding->reader, error);
    if (status) {
        close(fd);
        return status;
    }
    struct mp_recording_start start = *mp_reader_start(folding->reader);
    start.starts_late = true;
    mp_fold_state_open(&folding->state, start.configuration);
    return mp_writer_open(fd, &start, &folding->writer, error);
}

enum mp_status mp_fold(const struct mp_written *from, uint64_t events, uint64_t keep, int fd, struct mp_folded *folded,
                       struct mp_error *error)
{
    struct folding folding = {.events = events, .keep = keep};
    enum mp_status status = open_both(&folding, from, fd, error);
    if (!status) status = read_old(&folding, from, error);
    if (!status) status = write_new(&folding, from, error);
    *folded = (struct mp_folded){.writer = folding.writer,
                                 .events = events - folding.state.taken + folding.state.told_again,
                                 .next_offset = from->bytes};
    if (status) mp_writer_abandon(folding.writer);
    if (status) folded->writer = NULL;
    mp_fold_state_close(&folding.state);
    mp_reader_close(folding.reader);
    mp_vec_free(&folding.rest_marks);
    free(folding.rest);
    return status;
}
