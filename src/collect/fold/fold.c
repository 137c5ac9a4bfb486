#include "collect/fold/fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/order.h"
#include "format/tables.h"
#include "model/state/state.h"
#include "model/state/state_write.h"

#define ROWS_MAX 65536 /* most waiting rows of one kind */

/*
 * The tables of a file, gathered while they are copied to another file, so that many small chunks become few. Texts
 * stay available.
 */
struct tables {
    MP_VEC(char) texts;     /* the texts of all strings, each NUL-terminated */
    MP_VEC(size_t) strings; /* offset of each string's text */
    size_t strings_written;
    struct {
        MP_VEC(char) bytes;
        size_t count;
    } rows[MP_CHUNK_STACKS + 1]; /* rows not yet written, by kind of chunk */
};

/* A sampled counter. Only two of its values are kept. */
struct counter {
    struct mp_sample highest, last;
};

struct folding {
    struct mp_state state;
    struct tables tables;
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

static bool add_string(struct tables *tables, const char *text, size_t length)
{
    if (!mp_vec_reserve(&tables->texts, length + 1) || !mp_vec_push(&tables->strings, tables->texts.count))
        return false;
    if (length) memcpy(tables->texts.at + tables->texts.count, text, length);
    tables->texts.at[tables->texts.count + length] = '\0';
    tables->texts.count += length + 1;
    return true;
}

static enum mp_status write_strings(struct tables *tables, struct mp_writer *writer, struct mp_error *error)
{
    size_t count = tables->strings.count - tables->strings_written;
    struct mp_string *strings = malloc((count + 1) * sizeof *strings);
    if (!strings) return no_memory(error);
    for (size_t i = 0; i < count; i++) {
        size_t id = tables->strings_written + i;
        size_t end = id + 1 < tables->strings.count ? tables->strings.at[id + 1] : tables->texts.count;
        strings[i] = (struct mp_string){tables->texts.at + tables->strings.at[id], end - 1 - tables->strings.at[id]};
    }
    enum mp_status status = mp_writer_strings(writer, strings, count, error);
    free(strings);
    tables->strings_written = tables->strings.count;
    return status;
}

/* Writes the rows in order of kind: rows refer only to kinds with lower numbers. */
static enum mp_status flush_tables(struct tables *tables, struct mp_writer *writer, struct mp_error *error)
{
    enum mp_status status = write_strings(tables, writer, error);
    for (unsigned kind = MP_CHUNK_DEVICES; !status && kind <= MP_CHUNK_STACKS; kind++) {
        if (tables->rows[kind].count)
            status = mp_writer_rows(writer, (enum mp_chunk_kind)kind, tables->rows[kind].bytes.at,
                                    tables->rows[kind].count, error);
        tables->rows[kind].bytes.count = tables->rows[kind].count = 0;
    }
    return status;
}

/* Takes a chunk of kinds 1 to 7. */
static enum mp_status take_table(struct tables *tables, const struct mp_chunk *chunk, struct mp_writer *writer,
                                 struct mp_error *error)
{
    bool done = true;
    if (chunk->kind == MP_CHUNK_STRINGS) {
        for (size_t i = 0; done && i < chunk->count; i++)
            done = add_string(tables, chunk->as.strings[i].text, chunk->as.strings[i].length);
        return done ? MP_OK : no_memory(error);
    }
    size_t bytes = chunk->count * mp_table_of(chunk->kind)->row;
    if (!mp_vec_append(&tables->rows[chunk->kind].bytes, chunk->as.rows, bytes)) return no_memory(error);
    tables->rows[chunk->kind].count += chunk->count;
    return tables->rows[chunk->kind].count < ROWS_MAX ? MP_OK : flush_tables(tables, writer, error);
}

static void free_tables(struct tables *tables)
{
    mp_vec_free(&tables->texts);
    mp_vec_free(&tables->strings);
    for (unsigned kind = 0; kind <= MP_CHUNK_STACKS; kind++)
        mp_vec_free(&tables->rows[kind].bytes);
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
    const struct mp_event_columns *columns = &chunk->as.events;
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
        struct mp_sample sample = chunk->as.samples[i];
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
        return take_table(&folding->tables, chunk, folding->writer, error);
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
    enum mp_status status = flush_tables(&folding->tables, folding->writer, error);
    if (!status) status = write_samples(folding, error);
    if (!status)
        status = mp_state_write(&folding->state, folding->writer, folding->marks.at, folding->marks.count, error);
    if (!status && folding->rest_count)
        status = mp_state_write_events(&folding->state, folding->writer, folding->rest, folding->rest_count,
                                       folding->rest_marks.at, folding->rest_marks.count, error);
    return status ? status : mp_writer_copy(folding->writer, from, folding->next_offset, error);
}

static const char *text_of(const void *context, uint32_t name)
{
    const struct tables *tables = context;
    return name < tables->strings.count ? tables->texts.at + tables->strings.at[name] : "";
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
    free_tables(&folding.tables);
    mp_vec_free(&folding.counters);
    mp_vec_free(&folding.marks);
    mp_reader_close(folding.reader);
    mp_vec_free(&folding.rest_marks);
    free(folding.rest);
    return status;
}
