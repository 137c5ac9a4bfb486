#include "collect/recover/recover.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/recording/recording.h"
#include "collect/recording/spool_file.h"
#include "collect/recover/left_behind.h"
#include "format/reader.h"

struct recovering {
    struct mp_reader *reader;       /* NULL: there is no file */
    struct mp_recording *recording; /* NULL: there is no spool */
    struct mp_writer *writer;       /* without a spool, the new file's; else the recording's */
    struct mp_recovery *result;
    struct mp_event *events; /* room for a chunk's events in the writer's form */
    struct mp_schedule schedule;
    uint64_t lost_chunks;  /* lost chunks of the file so far */
    uint64_t put_in;       /* number of missed frees that the file's collector inserted */
    struct mp_state alone; /* state for the parts of bases if there is no spool; otherwise the recording's state is
                            * used */
    bool coverage_copied, exit_copied;
};

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

static enum mp_status copy_strings(struct recovering *recovering, const struct mp_chunk *chunk,
                                   struct mp_writer *writer, struct mp_error *error)
{
    struct mp_string *strings = malloc((chunk->count + 1) * sizeof *strings);
    if (!strings) return no_memory(error);
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < chunk->count; i++) {
        strings[i] = (struct mp_string){.text = chunk->as.strings[i].text, .length = chunk->as.strings[i].length};
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
        tables->device_keys.at[chunk->as.tracks[i].device] = mp_tables_device_key(&wire[i]);
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
            done = mp_vec_push(&tables->devices, chunk->as.devices[i]) && mp_vec_push(&tables->device_keys, nobody);
        tables->devices_written += chunk->count;
        break;
    case MP_CHUNK_TRACKS:
        return restore_tracks(recording, chunk, error);
    case MP_CHUNK_THREADS:
        done = mp_vec_append(&tables->threads, chunk->as.threads, chunk->count);
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
static enum mp_status copy_table(struct recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer,
                                 struct mp_error *error)
{
    enum mp_status status = recovering->recording ? restore_table(recovering->recording, chunk, error) : MP_OK;
    return status ? status : mp_writer_rows(writer, chunk->kind, chunk->as.rows, chunk->count, error);
}

static enum mp_status copy_events(struct recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer,
                                  struct mp_error *error)
{
    const struct mp_event_columns *columns = &chunk->as.events;
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
static enum mp_status copy_base(struct recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer,
                                struct mp_error *error)
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
static void begin_numbers(struct recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer)
{
    if (mp_reader_start(recovering->reader)->starts_late) mp_writer_lost(writer, 0, chunk->next_block);
}

/* Copies rows that the state needs: those about blocks, and those about the time before a bounded recording's file. */
static enum mp_status copy_words(struct recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer,
                                 struct mp_error *error)
{
    struct mp_recording *recording = recovering->recording;
    if (recording && chunk->kind == MP_CHUNK_PAST) recording->events += chunk->as.past->events;
    enum mp_status status = recording ? mp_state_chunk(&recording->state, chunk, NULL, error) : MP_OK;
    return status ? status : mp_writer_rows(writer, chunk->kind, chunk->as.rows, chunk->count, error);
}

static enum mp_status copy_chunk(struct recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer,
                                 struct mp_error *error)
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
    case MP_CHUNK_USES:
    case MP_CHUNK_METADATA:
    case MP_CHUNK_REQUESTS:
    case MP_CHUNK_PAST:
    case MP_CHUNK_PAST_PEAKS:
    case MP_CHUNK_PAST_SITES:
        return copy_words(recovering, chunk, writer, error);
    case MP_CHUNK_SAMPLES:
        return mp_writer_rows(writer, chunk->kind, chunk->as.rows, chunk->count, error);
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
        return mp_writer_rows(writer, chunk->kind, chunk->as.rows, chunk->count, error);
    case MP_CHUNK_TRACE:
        return mp_writer_calls(writer, chunk->as.calls, chunk->count, error);
    case MP_CHUNK_COVERAGE:
        recovering->coverage_copied = true;
        return mp_writer_coverage(writer, chunk->as.coverage, error);
    case MP_CHUNK_EXIT:
        recovering->exit_copied = true;
        return mp_writer_exit(writer, chunk->as.how, error);
    default:
        return MP_OK;
    }
}

/* Counts losses of the file as losses of the new file. */
static void copy_losses(struct recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer)
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
    if (state->window.type) recording->window.is_open = state->window.type == MP_EVENT_START;
    bool done = mp_state_settle(state, UINT64_MAX);
    state->labels.count = 0; /* the remaining labels belong to blocks of the spool, which has them, too */
    return done;
}

/* Copies the file's contents into the new file, and into the recording's state if there is a recording. Losses of the
 * file count as losses of the new file, too. */
static enum mp_status copy_file(struct recovering *recovering, struct mp_writer *writer, struct mp_error *error)
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

static const char *end_of_recording(const struct mp_spool_header *spool)
{
    const _Atomic uint32_t *word = (const _Atomic uint32_t *)&spool->collector;
    if (!(atomic_load(word) & FUTEX_OWNER_DIED)) return "the recording was not finished by its collector";
    return atomic_load(&spool->program_left) ? "the collector was killed; the program ran to its end"
                                             : "the collector was killed, and the program did not end in order";
}

/* Sets the position from which records are taken: after the file's marks; without a file, at the rings' tails. */
static void restore_position(struct mp_recording *recording, bool has_file)
{
    struct mp_tables *tables = &recording->tables;
    const struct mp_spool_header *spool = recording->spool.header;
    for (uint32_t ring = 0; ring < MP_SPOOL_RINGS_MAX; ring++) {
        for (size_t i = 0; i < tables->threads.count; i++)
            if (tables->threads.at[i].tid == spool->rings[ring].tid) tables->ring_thread[ring] = (uint32_t)i + 1;
        /* While a window is closed, records are released without a chunk that has marks for them. */
        uint64_t tail = atomic_load(&spool->rings[ring].tail);
        if (tail > recording->drain.next[ring]) recording->drain.next[ring] = tail;
    }
    const struct mp_schedule_position *position = mp_recording_resume(recording);
    if (!has_file) recording->state.ledger.steps = recording->state.steps.before = position->steps;
    for (size_t i = 0; i < tables->threads.count; i++)
        if (tables->threads.at[i].tid == MP_TID_LANE) mp_tables_known_lane(tables, (uint32_t)i);
}

static void note_source(struct mp_recording *recording)
{
    const struct mp_spool_header *spool = recording->spool.header;
    char text[2 * MP_SPOOL_NOTE_TEXT] = "recovered from what a killed collector left";
    if (atomic_load(&spool->written.failed))
        snprintf(text, sizeof text, "recovered from shared memory, as the file could not be written on: %.*s",
                 (int)sizeof spool->written.why - 1, spool->written.why);
    mp_recording_note(recording, text);
}

static enum mp_status recover_with_spool(struct recovering *recovering, struct mp_error *error)
{
    struct mp_recording *recording = recovering->recording;
    enum mp_status status = MP_OK;
    if (recovering->reader) {
        int fd;
        recording->state.ledger.paused = false; /* only while the file is read, because its blocks already have
                                                 * numbers */
        status = recording->file.name(recording->file.name_context, recording, &recording->file.path, &fd, error);
        if (!status) status = mp_writer_open(fd, mp_reader_start(recovering->reader), &recording->file.writer, error);
        if (!status) status = copy_file(recovering, recording->file.writer, error);
    }
    if (status) {
        mp_recording_free(recording, false);
        return status;
    }
    restore_position(recording, recovering->reader);
    if (!recovering->reader && mp_drain_taken(&recording->drain))
        mp_recording_note(
            recording,
            "what was allocated before the first event here is not known: the collector was killed before this "
            "file had an event");
    recording->state.ledger.paused = !recording->window.is_open;
    const char *text = end_of_recording(recording->spool.header);
    note_source(recording);
    mp_recording_end(recording, (struct mp_exit){.known = false}, text);
    mp_recording_finish(recording, &recovering->result->summary);
    mp_recording_free(recording, !recovering->result->summary.failed);
    if (!recovering->result->summary.failed) return MP_OK;
    *error = recovering->result->summary.failure;
    return recovering->result->summary.failed;
}

static enum mp_status recover_alone(struct recovering *recovering, mp_recording_name *name, void *name_context,
                                    struct mp_error *error)
{
    int fd;
    struct mp_recording_summary *summary = &recovering->result->summary;
    enum mp_status status = name(name_context, NULL, &summary->path, &fd, error);
    if (!status) status = mp_writer_open(fd, mp_reader_start(recovering->reader), &recovering->writer, error);
    if (!status) status = copy_file(recovering, recovering->writer, error);
    summary->events = recovering->result->events_from_file;
    if (!status && !recovering->coverage_copied) {
        struct mp_coverage coverage = {.events = summary->events, .missed_frees = recovering->put_in};
        status = mp_writer_coverage(recovering->writer, &coverage, error);
    }
    if (!status && !recovering->exit_copied) {
        struct mp_exit how = {.known = false};
        status = mp_writer_exit(recovering->writer, &how, error);
    }
    if (status) {
        mp_writer_abandon(recovering->writer);
        return status;
    }
    summary->file_bytes = mp_writer_bytes(recovering->writer);
    return mp_writer_finish(recovering->writer, error);
}

/* Makes the recording, and continues its schedule where the collector was killed. Without a file the program had not
 * started recording yet; a file contains its start event. */
static enum mp_status new_recording(struct recovering *recovering, struct mp_spool_file *spool, mp_recording_name *name,
                                    void *name_context, struct mp_error *error)
{
    const char *schedule = spool->header->schedule;
    bool is_scheduled = *schedule && memchr(schedule, '\0', MP_SPOOL_SCHEDULE);
    struct mp_error ignored;
    if (is_scheduled && mp_schedule_parse(schedule, &recovering->schedule, &ignored)) is_scheduled = false;
    recovering->recording = mp_recording_new(spool, true, name, name_context, error);
    if (!recovering->recording) {
        mp_spool_file_close(spool, false);
        return error->status;
    }
    if (is_scheduled) mp_recording_schedule(recovering->recording, &recovering->schedule);
    return MP_OK;
}

enum mp_status mp_recover(const char *path, mp_recording_name *name, void *name_context, struct mp_recovery *recovery,
                          struct mp_error *error)
{
    struct recovering recovering = {.result = recovery};
    struct mp_spool_file spool;
    *recovery = (struct mp_recovery){0};
    enum mp_status status = mp_left_recording(path, &recovering.reader, error);
    if (status) return status;
    struct mp_error spool_error;
    enum mp_status found = mp_left_spool(recovering.reader, path, &spool, &spool_error);
    recovery->had_spool = !found;
    if (!found) {
        status = new_recording(&recovering, &spool, name, name_context, error);
        /* A file that begins with a window, but is cut before the window's base, is useless: the rings have all its
         * records. */
        if (!status && recovering.reader && !recovering.recording->window.is_open && mp_left_without_events(path)) {
            mp_reader_close(recovering.reader);
            recovering.reader = NULL;
        }
        if (!status) status = recover_with_spool(&recovering, error);
        mp_schedule_free(&recovering.schedule);
    } else if (found != MP_NOT_FOUND) {
        *error = spool_error;
        status = found;
    } else {
        if (!recovering.reader) status = mp_reader_open(path, &recovering.reader, error);
        if (!status) status = recover_alone(&recovering, name, name_context, error);
    }
    mp_reader_close(recovering.reader);
    if (status == MP_INVALID) status = error->status = MP_DAMAGED; /* the files are invalid, not the arguments */
    return status;
}
