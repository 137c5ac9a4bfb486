#include "collect/fold/fold.h"
#include "collect/fold/fold_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/order.h"
#include "model/state/state.h"
#include "model/state/state_write.h"

/* A sampled counter. Only two of its values are kept. */
struct counter {
    struct mp_sample highest, last;
};

struct folding {
    struct mp_state state;
    struct mp_fold_tables tables;
    MP_VEC(struct counter) counters;
    struct mp_reader *reader;
    struct mp_writer *writer;
    uint64_t events, keep;
    MP_VEC(struct mp_ring_mark) marks; /* marks of the last chunk of which all events were taken */
    struct mp_event *rest;             /* remaining events of the chunk in which the new file begins */
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
    uint64_t left = folding->events - folding->state.events;
    return left && left + mp_state_open_events(&folding->state) > folding->keep;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static bool keep_marks(void *vec_pointer, const struct mp_chunk *chunk)
{
    MP_VEC(struct mp_ring_mark) *marks = vec_pointer;
    marks->count = 0;
    return mp_vec_append(marks, chunk->marks, chunk->mark_count);
}

/* Takes events of a chunk into the state, as long as the file has too many. The remaining events of the chunk become
 * `rest`. */
static enum mp_status take_events(struct folding *folding, const struct mp_chunk *chunk, struct mp_error *error)
{
    const struct mp_event_columns *columns = &chunk->events;
    enum mp_status status = MP_OK;
    size_t at = 0;
    while (!status && at < columns->count && too_many(folding))
        status = mp_state_replay(&folding->state, mp_event_at(columns, at++), error);
    if (status) return status;
    if (at == columns->count) return keep_marks(&folding->marks, chunk) ? MP_OK : no_memory(error);
    folding->rest = malloc((columns->count - at) * sizeof *folding->rest);
    for (; folding->rest && at < columns->count; at++)
        folding->rest[folding->rest_count++] = mp_event_at(columns, at);
    return folding->rest && keep_marks(&folding->rest_marks, chunk) ? MP_OK : no_memory(error);
}

static bool take_samples(struct folding *folding, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_sample sample = chunk->samples[i];
        struct counter fresh = {sample, sample};
        size_t at = 0;
        while (at < folding->counters.count && folding->counters.at[at].last.counter != sample.counter)
            at++;
        if (at == folding->counters.count && !mp_vec_push(&folding->counters, fresh)) return false;
        folding->counters.at[at].last = sample;
        if (sample.value > folding->counters.at[at].highest.value) folding->counters.at[at].highest = sample;
    }
    return true;
}

static enum mp_status take_chunk(struct folding *folding, const struct mp_chunk *chunk, struct mp_error *error)
{
    switch (chunk->kind) {
    case MP_CHUNK_STRINGS:
    case MP_CHUNK_DEVICES:
    case MP_CHUNK_TRACKS:
    case MP_CHUNK_THREADS:
    case MP_CHUNK_MODULES:
    case MP_CHUNK_FRAMES:
    case MP_CHUNK_STACKS:
        return mp_fold_tables_take(&folding->tables, chunk, folding->writer, error);
    case MP_CHUNK_EVENTS_KIND:
        return take_events(folding, chunk, error);
    case MP_CHUNK_SAMPLES:
        return take_samples(folding, chunk) ? MP_OK : no_memory(error);
    default:
        return mp_state_chunk(&folding->state, chunk, NULL, error);
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

MP_ORDER(by_time, struct mp_sample, MP_RISING(time_ns))

static enum mp_status write_samples(struct folding *folding, struct mp_error *error)
{
    struct mp_sample *samples = malloc((2 * folding->counters.count + 1) * sizeof *samples);
    size_t count = 0;
    if (!samples) return no_memory(error);
    mp_vec_each (const struct counter, counter, &folding->counters) {
        if (counter->highest.time_ns != counter->last.time_ns) samples[count++] = counter->highest;
        samples[count++] = counter->last;
    }
    if (count) qsort(samples, count, sizeof *samples, by_time);
    enum mp_status status = mp_writer_samples(folding->writer, samples, count, error);
    free(samples);
    return status;
}

static enum mp_status write_new(struct folding *folding, const struct mp_written *from, struct mp_error *error)
{
    enum mp_status status = mp_fold_tables_flush(&folding->tables, folding->writer, error);
    if (!status) status = write_samples(folding, error);
    if (!status)
        status = mp_state_write(&folding->state, folding->writer, folding->marks.at, folding->marks.count, error);
    if (!status && folding->rest_count)
        status = mp_state_write_events(&folding->state, folding->writer, folding->rest, folding->rest_count,
                                       folding->rest_marks.at, folding->rest_marks.count, error);
    return status ? status : mp_writer_copy(folding->writer, from, folding->next_offset, error);
}

static const char *text_of(const void *tables, uint32_t name)
{
    return mp_fold_tables_text(tables, name);
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
    mp_state_open(&folding->state, start.configuration, text_of, &folding->tables);
    folding->state.with_sites = true;
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
                                 .events = events - folding.state.events + mp_state_open_events(&folding.state),
                                 .next_offset = from->bytes};
    if (status) mp_writer_abandon(folding.writer);
    if (status) folded->writer = NULL;
    mp_state_close(&folding.state);
    mp_fold_tables_free(&folding.tables);
    mp_vec_free(&folding.counters);
    mp_vec_free(&folding.marks);
    mp_reader_close(folding.reader);
    mp_vec_free(&folding.rest_marks);
    free(folding.rest);
    return status;
}
