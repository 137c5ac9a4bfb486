#include "collect/recording/recording_parts.h"
#include "collect/recover/recover.h"

#include <stdio.h>
#include <stdlib.h>

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "out of memory while recovering");
}

/* Gives a string of the file the same number in our table. A file may have a text twice, for instance the placeholder
 * for lost texts. The second one then becomes a unique text in our table. */
static enum mp_status restore_string(struct mp_intern *strings, const char *text, size_t length, struct mp_error *error)
{
    uint32_t number = strings->count, given = mp_intern_bytes(strings, text, length);
    char unlike[32] = "";
    if (given < number) {
        int used = snprintf(unlike + 1, sizeof unlike - 1, "string %u", number);
        given = mp_intern_bytes(strings, unlike, (size_t)used + 1);
    }
    if (given == MP_INTERN_FAILED) return no_memory(error);
    return given == number ? MP_OK : mp_fail(error, MP_DAMAGED, "the recording's first text is not the empty one");
}

static enum mp_status copy_strings(struct mp_recovering *recovering, const struct mp_chunk *chunk,
                                   struct mp_writer *writer, struct mp_error *error)
{
    struct mp_string *strings = malloc((chunk->count + 1) * sizeof *strings);
    if (!strings) return no_memory(error);
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < chunk->count; i++) {
        strings[i] = (struct mp_string){.text = chunk->strings[i].text, .length = chunk->strings[i].length};
        if (recovering->recording)
            status = restore_string(&recovering->recording->tables.strings, strings[i].text, strings[i].length, error);
    }
    if (!status) status = mp_writer_strings(writer, strings, chunk->count, error);
    if (!status && recovering->recording) recovering->recording->tables.strings_written += (uint32_t)chunk->count;
    free(strings);
    return status;
}

/* Marks `count` entries of a spool's table as written, if the spool belongs to the file: then it has all entries of the
 * file. */
static enum mp_status pass_over(struct mp_recording *recording, enum mp_spool_table_id id, size_t count,
                                struct mp_error *error)
{
    uint64_t *done = &recording->tables.done[id];
    *done += count;
    if (*done <= atomic_load(&recording->spool.header->tables[id].count)) return MP_OK;
    return mp_fail(error, MP_DAMAGED, "the spool is damaged, or not that of the recording, which has more in it");
}

static enum mp_status restore_tracks(struct mp_recording *recording, const struct mp_chunk *chunk,
                                     struct mp_error *error)
{
    struct mp_tables *tables = &recording->tables;
    const struct mp_wire_track *wire = mp_spool_entries(recording->spool.header, MP_TABLE_TRACKS);
    wire += tables->done[MP_TABLE_TRACKS];
    enum mp_status status = pass_over(recording, MP_TABLE_TRACKS, chunk->count, error);
    for (size_t i = 0; !status && !chunk->lost && i < chunk->count; i++)
        tables->device_keys.at[chunk->tracks[i].device] = mp_tables_device_key(&wire[i]);
    return status;
}

static enum mp_status restore_table(struct mp_recording *recording, const struct mp_chunk *chunk,
                                    struct mp_error *error)
{
    struct mp_tables *tables = &recording->tables;
    const uint16_t nobody = MP_DEVICE_KEY_NOBODY; /* set when a track refers to it */
    bool done = true;
    switch (chunk->kind) {
    case MP_CHUNK_DEVICES:
        for (size_t i = 0; done && i < chunk->count; i++)
            done = mp_vec_push(&tables->devices, chunk->devices[i]) && mp_vec_push(&tables->device_keys, nobody);
        tables->devices_written += chunk->count;
        break;
    case MP_CHUNK_TRACKS:
        return restore_tracks(recording, chunk, error);
    case MP_CHUNK_THREADS:
        done = mp_vec_append(&tables->threads, chunk->threads, chunk->count);
        tables->threads_written += chunk->count;
        break;
    case MP_CHUNK_MODULES:
        return pass_over(recording, MP_TABLE_MODULES, chunk->count, error);
    case MP_CHUNK_FRAMES:
        return pass_over(recording, MP_TABLE_FRAMES, chunk->count, error);
    default:
        return pass_over(recording, MP_TABLE_NODES, chunk->count, error);
    }
    return done ? MP_OK : no_memory(error);
}

/* Copies a table of rows that have ids: kinds 2 to 7. */
static enum mp_status copy_table(struct mp_recovering *recovering, const struct mp_chunk *chunk,
                                 struct mp_writer *writer, struct mp_error *error)
{
    enum mp_status status = recovering->recording ? restore_table(recovering->recording, chunk, error) : MP_OK;
    return status ? status : mp_writer_rows(writer, chunk->kind, chunk->rows, chunk->count, error);
}

static enum mp_status copy_events(struct mp_recovering *recovering, const struct mp_chunk *chunk,
                                  struct mp_writer *writer, struct mp_error *error)
{
    const struct mp_event_columns *columns = &chunk->events;
    struct mp_recording *recording = recovering->recording;
    enum mp_status status = recording ? mp_state_chunk(&recording->state, chunk, NULL, error) : MP_OK;
    uint64_t put_in = 0;
    for (size_t i = 0; i < columns->count; i++) {
        recovering->events[i] = mp_event_at(columns, i);
        put_in += mp_event_had_free_put_in(columns, i);
    }
    for (size_t i = 0; recording && i < chunk->mark_count; i++)
        if (chunk->marks[i].ring < MP_SPOOL_RINGS_MAX)
            recording->drain.next[chunk->marks[i].ring] = chunk->marks[i].sequence;
    if (!status)
        status = mp_writer_events(writer, recovering->events, columns->count, chunk->live_bytes,
                                  chunk->live_bytes_count, chunk->marks, chunk->mark_count, error);
    if (status) return status;
    recovering->put_in += put_in;
    recovering->result->events_from_file += columns->count - put_in;
    if (recording) {
        recording->bound.file_events += columns->count;
        recording->events += columns->count - put_in;
        recording->events_since_base += columns->count;
    }
    return MP_OK;
}

/* Copies a base. A complete base is the set of live blocks, even if earlier chunks were lost. A base with a lost part
 * is skipped, since blocks that it lacks may be live. */
static enum mp_status copy_base(struct mp_recovering *recovering, const struct mp_chunk *chunk,
                                struct mp_writer *writer, struct mp_error *error)
{
    struct mp_recording *recording = recovering->recording;
    struct mp_state *state = recording ? &recording->state : &recovering->alone;
    bool whole;
    enum mp_status status = mp_state_chunk(state, chunk, &whole, error);
    if (status || !whole) return status;
    if (recording) recording->events_since_base = 0;
    return mp_writer_base(writer, chunk->time_ns, state->base.at, state->base.count, error);
}

/* Sets the first block number, since a bounded recording does not count from 0. */
static void begin_numbers(struct mp_recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer)
{
    if (mp_reader_start(recovering->reader)->starts_late) mp_writer_lost(writer, 0, chunk->next_block);
}

/* Copies rows that the state needs: those about blocks, and those about the time before a bounded recording's file. */
static enum mp_status copy_words(struct mp_recovering *recovering, const struct mp_chunk *chunk,
                                 struct mp_writer *writer, struct mp_error *error)
{
    struct mp_recording *recording = recovering->recording;
    if (recording && chunk->kind == MP_CHUNK_PAST) recording->events += chunk->past->events;
    enum mp_status status = recording ? mp_state_chunk(&recording->state, chunk, NULL, error) : MP_OK;
    return status ? status : mp_writer_rows(writer, chunk->kind, chunk->rows, chunk->count, error);
}

static enum mp_status copy_chunk(struct mp_recovering *recovering, const struct mp_chunk *chunk,
                                 struct mp_writer *writer, struct mp_error *error)
{
    switch (chunk->kind) {
    case MP_CHUNK_STRINGS:
        return copy_strings(recovering, chunk, writer, error);
    case MP_CHUNK_DEVICES:
    case MP_CHUNK_TRACKS:
    case MP_CHUNK_THREADS:
    case MP_CHUNK_MODULES:
    case MP_CHUNK_FRAMES:
    case MP_CHUNK_STACKS:
        return copy_table(recovering, chunk, writer, error);
    case MP_CHUNK_EVENTS_KIND:
        begin_numbers(recovering, chunk, writer);
        return copy_events(recovering, chunk, writer, error);
    case MP_CHUNK_BASE:
        begin_numbers(recovering, chunk, writer);
        return copy_base(recovering, chunk, writer, error);
    case MP_CHUNK_LABELS:
    case MP_CHUNK_HOLDERS:
    case MP_CHUNK_METADATA:
    case MP_CHUNK_REQUESTS:
    case MP_CHUNK_PAST:
    case MP_CHUNK_PAST_PEAKS:
    case MP_CHUNK_PAST_SITES:
        return copy_words(recovering, chunk, writer, error);
    case MP_CHUNK_SAMPLES:
        return mp_writer_rows(writer, chunk->kind, chunk->rows, chunk->count, error);
    default:
        break;
    }
    if (recovering->recording) return MP_OK; /* the recording writes the end anew */
    switch (chunk->kind) {
    case MP_CHUNK_SYMBOLS:
    case MP_CHUNK_SEGMENTS:
    case MP_CHUNK_SEGMENT_PARTS:
    case MP_CHUNK_CALLS:
    case MP_CHUNK_ASIDES:
        return mp_writer_rows(writer, chunk->kind, chunk->rows, chunk->count, error);
    case MP_CHUNK_TRACE:
        return mp_writer_calls(writer, chunk->calls, chunk->count, error);
    case MP_CHUNK_COVERAGE:
        recovering->coverage_copied = true;
        return mp_writer_coverage(writer, chunk->coverage, error);
    case MP_CHUNK_EXIT:
        recovering->exit_copied = true;
        return mp_writer_exit(writer, chunk->how, error);
    default:
        return MP_OK;
    }
}

/* Counts losses of the file as losses of the new file. */
static void copy_losses(struct mp_recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer)
{
    uint64_t lost = mp_reader_damage(recovering->reader)->lost_chunks;
    bool begins = chunk && (chunk->kind == MP_CHUNK_EVENTS_KIND ||
                            (chunk->kind == MP_CHUNK_BASE && !chunk->base_before)); /* the parts of a base wait for its
                                                                                     * last part */
    mp_writer_lost(writer, lost - recovering->lost_chunks, lost && begins ? chunk->next_block : 0);
    recovering->lost_chunks = lost;
}

/* Gives the live blocks the file's labels, and restores the window. `put_in`: number of missed frees that the file
 * has. */
static bool end_reading(struct mp_recording *recording, uint64_t put_in)
{
    struct mp_state *state = &recording->state;
    state->ledger.missed_frees = put_in;
    if (state->window.type) recording->window_open = state->window.type == MP_EVENT_START;
    bool done = mp_state_settle(state, UINT64_MAX);
    state->labels.count = 0; /* the remaining labels belong to blocks of the spool, which has them, too */
    return done;
}

enum mp_status mp_recover_copy(struct mp_recovering *recovering, struct mp_writer *writer, struct mp_error *error)
{
    struct mp_chunk chunk;
    enum mp_status status;
    uint64_t refused = 0;
    recovering->events = malloc(MP_CHUNK_EVENTS * sizeof *recovering->events);
    if (!recovering->events) return no_memory(error);
    while (!(status = mp_reader_next(recovering->reader, &chunk, error))) {
        copy_losses(recovering, &chunk, writer);
        status = copy_chunk(recovering, &chunk, writer, error);
        if (status == MP_INVALID && chunk.kind > MP_CHUNK_STACKS) { /* a chunk that contradicts other chunks counts as
                                                                     * lost */
            mp_writer_lost(writer, 1, 0);
            refused++;
        } else if (status) {
            break;
        }
    }
    free(recovering->events);
    mp_state_close(&recovering->alone);
    if (status == MP_NOT_FOUND && recovering->recording && !end_reading(recovering->recording, recovering->put_in))
        status = no_memory(error);
    if (status != MP_NOT_FOUND) return status;
    const struct mp_damage *damage = mp_reader_damage(recovering->reader);
    copy_losses(recovering, NULL, writer);
    /* A cut file lacks its end, unless the spool has it. */
    bool cut = damage->cut && !recovering->recording;
    if (!damage->lost_chunks && (cut || (damage->lost_bytes && !damage->cut))) mp_writer_lost(writer, 1, 0);
    recovering->result->damage = *damage;
    recovering->result->damage.lost_chunks += refused;
    return MP_OK;
}
