#include "collect/recover.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/left_behind.h"
#include "wire/config.h"

struct recovering {
    struct mp_reader *reader;       /* NULL: there is no file */
    struct mp_recording *recording; /* NULL: there is no spool */
    struct mp_writer *writer;       /* without a spool; else the recording's */
    struct mp_recovery *result;
    struct mp_event *events; /* room for a chunk's events as the writer takes them */
    struct mp_schedule schedule;
    uint64_t lost_chunks;   /* of the file, so far */
    struct mp_map labelled; /* block number + 1 to index in labels: since the last base */
    MP_VEC(struct mp_label) labels;
    MP_VEC(struct mp_base_block) base; /* the parts of one, so far */
    bool coverage_copied, exit_copied;
};

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "out of memory while recovering");
}

/* ---- what the file holds, into the new one and into the recording's state -------------------------------------- */

static enum mp_status copy_strings(struct recovering *recovering, const struct mp_chunk *chunk,
                                   struct mp_writer *writer, struct mp_error *error)
{
    struct mp_string *strings = malloc((chunk->count + 1) * sizeof *strings);
    if (!strings) return no_memory(error);
    enum mp_status status = MP_OK;
    for (size_t i = 0; i < chunk->count; i++) {
        strings[i] = (struct mp_string){.text = chunk->strings[i].text, .length = chunk->strings[i].length};
        if (recovering->recording && mp_intern_bytes(&recovering->recording->tables.strings, strings[i].text,
                                                     strings[i].length) == MP_INTERN_FAILED)
            status = no_memory(error);
    }
    if (!status) status = mp_writer_strings(writer, strings, chunk->count, error);
    if (!status && recovering->recording) recovering->recording->tables.strings_written += (uint32_t)chunk->count;
    free(strings);
    return status;
}

static enum mp_status restore_tracks(struct mp_recording *recording, const struct mp_chunk *chunk,
                                     struct mp_error *error)
{
    const struct mp_wire_track *wire = mp_spool_entries(recording->spool.header, MP_TABLE_TRACKS);
    struct mp_tables *tables = &recording->tables;
    for (size_t i = 0; i < chunk->count; i++) {
        const struct mp_wire_track *track = &wire[tables->done[MP_TABLE_TRACKS]++];
        uint32_t device = chunk->tracks[i].device;
        if (!mp_vec_extend(&tables->device_keys, (size_t)device + 1)) return no_memory(error);
        tables->device_keys.at[device] = mp_tables_device_key(track);
    }
    return MP_OK;
}

static enum mp_status restore_event(struct mp_recording *recording, struct mp_event event, struct mp_error *error)
{
    struct mp_ledger *ledger = &recording->ledger;
    struct mp_ledger_track *track;
    bool known;
    recording->events++;
    recording->events_since_base++;
    recording->last_event_ns = event.time_ns;
    switch (event.type) {
    case MP_EVENT_ALLOC:
        ledger->next_block = event.block;
        return mp_ledger_alloc(ledger, &event, NULL, error);
    case MP_EVENT_FREE:
        return mp_ledger_free(ledger, &event, &known, error);
    case MP_EVENT_STEP:
        ledger->steps++;
        return MP_OK;
    case MP_EVENT_RESERVED:
        track = mp_ledger_track(ledger, event.track);
        if (track) track->reserved_bytes = event.bytes;
        return MP_OK;
    case MP_EVENT_START:
    case MP_EVENT_STOP:
        recording->window_open = event.type == MP_EVENT_START;
        return MP_OK;
    default:
        return MP_OK;
    }
}

static enum mp_status copy_events(struct recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer,
                                  struct mp_error *error)
{
    const struct mp_event_columns *columns = &chunk->events;
    struct mp_recording *recording = recovering->recording;
    enum mp_status status = MP_OK;
    for (size_t i = 0; i < columns->count && !status; i++) {
        recovering->events[i] = (struct mp_event){.time_ns = columns->time_ns[i],
                                                  .address = columns->address[i],
                                                  .bytes = columns->bytes[i],
                                                  .block = columns->block[i],
                                                  .stack = columns->stack[i],
                                                  .name = columns->name[i],
                                                  .thread = columns->thread[i],
                                                  .track = columns->track[i],
                                                  .type = columns->type[i],
                                                  .kind = columns->kind[i]};
        if (recording) status = restore_event(recording, recovering->events[i], error);
    }
    for (size_t i = 0; recording && i < chunk->mark_count; i++)
        if (chunk->marks[i].ring < MP_SPOOL_RINGS_MAX)
            recording->drain.next[chunk->marks[i].ring] = chunk->marks[i].sequence;
    recovering->result->events_from_file += columns->count;
    return status ? status
                  : mp_writer_events(writer, recovering->events, columns->count, chunk->live_bytes,
                                     chunk->live_bytes_count, chunk->marks, chunk->mark_count, error);
}

/* A base is what was live, whatever was lost before it; but one of which a part is lost says nothing of what it lacks.
 */
static enum mp_status copy_base(struct recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer,
                                struct mp_error *error)
{
    size_t have = chunk->base_before ? recovering->base.count : 0;
    recovering->base.count = have;
    if (have != chunk->base_before) return MP_OK;
    if (!mp_vec_extend(&recovering->base, have + chunk->count)) return no_memory(error);
    memcpy(recovering->base.at + have, chunk->base, chunk->count * sizeof *chunk->base);
    if (recovering->base.count < chunk->base_total) return MP_OK;
    const struct mp_base_block *blocks = recovering->base.at;
    size_t count = recovering->base.count;
    if (recovering->recording && mp_ledger_restore(&recovering->recording->ledger, blocks, count, error))
        return MP_NO_MEMORY;
    if (recovering->recording) recovering->recording->events_since_base = 0;
    mp_map_clear(&recovering->labelled);
    return mp_writer_base(writer, chunk->time_ns, blocks, count, error);
}

static enum mp_status copy_labels(struct recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer,
                                  struct mp_error *error)
{
    for (size_t i = 0; recovering->recording && i < chunk->count; i++) {
        if (chunk->labels[i].block == UINT64_MAX) continue;
        uint64_t *last = mp_map_insert(&recovering->labelled, chunk->labels[i].block + 1, NULL);
        if (!last || !mp_vec_push(&recovering->labels, chunk->labels[i])) return no_memory(error);
        *last = recovering->labels.count - 1;
    }
    return mp_writer_labels(writer, chunk->labels, chunk->count, error);
}

/* What is live has the labels that the file says. */
static void restore_labels(struct recovering *recovering)
{
    struct mp_ledger *ledger = &recovering->recording->ledger;
    for (size_t i = 0; i < ledger->blocks.count; i++) {
        struct mp_base_block *block = &ledger->blocks.at[i];
        const uint64_t *last = mp_map_find(&recovering->labelled, block->block + 1);
        if (!last) continue;
        block->role = recovering->labels.at[*last].role;
        block->label = recovering->labels.at[*last].name;
    }
}

static enum mp_status copy_devices(struct recovering *recovering, const struct mp_chunk *chunk,
                                   struct mp_writer *writer, struct mp_error *error)
{
    struct mp_tables *tables = recovering->recording ? &recovering->recording->tables : NULL;
    for (size_t i = 0; tables && i < chunk->count; i++)
        if (!mp_vec_push(&tables->devices, chunk->devices[i])) return no_memory(error);
    if (tables) tables->devices_written += chunk->count;
    return mp_writer_devices(writer, chunk->devices, chunk->count, error);
}

static enum mp_status copy_threads(struct recovering *recovering, const struct mp_chunk *chunk,
                                   struct mp_writer *writer, struct mp_error *error)
{
    struct mp_tables *tables = recovering->recording ? &recovering->recording->tables : NULL;
    for (size_t i = 0; tables && i < chunk->count; i++)
        if (!mp_vec_push(&tables->threads, chunk->threads[i])) return no_memory(error);
    if (tables) tables->threads_written += chunk->count;
    return mp_writer_threads(writer, chunk->threads, chunk->count, error);
}

static enum mp_status copy_chunk(struct recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer,
                                 struct mp_error *error)
{
    struct mp_recording *recording = recovering->recording;
    uint64_t *done = recording ? recording->tables.done : (uint64_t[MP_TABLES]){0};
    enum mp_status status;
    switch (chunk->kind) {
    case MP_CHUNK_STRINGS:
        return copy_strings(recovering, chunk, writer, error);
    case MP_CHUNK_DEVICES:
        return copy_devices(recovering, chunk, writer, error);
    case MP_CHUNK_TRACKS:
        status = recording ? restore_tracks(recording, chunk, error) : MP_OK;
        return status ? status : mp_writer_tracks(writer, chunk->tracks, chunk->count, error);
    case MP_CHUNK_THREADS:
        return copy_threads(recovering, chunk, writer, error);
    case MP_CHUNK_MODULES:
        done[MP_TABLE_MODULES] += chunk->count;
        return mp_writer_modules(writer, chunk->modules, chunk->count, error);
    case MP_CHUNK_FRAMES:
        done[MP_TABLE_FRAMES] += chunk->count;
        return mp_writer_frames(writer, chunk->frames, chunk->count, error);
    case MP_CHUNK_STACKS:
        done[MP_TABLE_NODES] += chunk->count;
        return mp_writer_stacks(writer, chunk->stacks, chunk->count, error);
    case MP_CHUNK_EVENTS_KIND:
        return copy_events(recovering, chunk, writer, error);
    case MP_CHUNK_BASE:
        return copy_base(recovering, chunk, writer, error);
    case MP_CHUNK_LABELS:
        return copy_labels(recovering, chunk, writer, error);
    case MP_CHUNK_SAMPLES:
        return mp_writer_samples(writer, chunk->samples, chunk->count, error);
    default:
        break;
    }
    if (recording) return MP_OK; /* the end is written anew */
    switch (chunk->kind) {
    case MP_CHUNK_SYMBOLS:
        return mp_writer_symbols(writer, chunk->symbols, chunk->count, error);
    case MP_CHUNK_SEGMENTS:
        return mp_writer_segments(writer, chunk->segments, chunk->count, error);
    case MP_CHUNK_SEGMENT_PARTS:
        return mp_writer_parts(writer, chunk->parts, chunk->count, error);
    case MP_CHUNK_CALLS:
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

/* What is lost in the file is lost in the new one. */
static void copy_losses(struct recovering *recovering, const struct mp_chunk *chunk, struct mp_writer *writer)
{
    uint64_t lost = mp_reader_damage(recovering->reader)->lost_chunks;
    bool begins = chunk && (chunk->kind == MP_CHUNK_EVENTS_KIND ||
                            (chunk->kind == MP_CHUNK_BASE && !chunk->base_before)); /* whose parts wait for the last */
    mp_writer_lost(writer, lost - recovering->lost_chunks, lost && begins ? chunk->next_block : 0);
    recovering->lost_chunks = lost;
}

static enum mp_status copy_file(struct recovering *recovering, struct mp_writer *writer, struct mp_error *error)
{
    struct mp_chunk chunk;
    enum mp_status status;
    recovering->events = malloc(MP_CHUNK_EVENTS * sizeof *recovering->events);
    if (!recovering->events) return no_memory(error);
    while (!(status = mp_reader_next(recovering->reader, &chunk, error))) {
        copy_losses(recovering, &chunk, writer);
        if ((status = copy_chunk(recovering, &chunk, writer, error))) break;
    }
    free(recovering->events);
    if (recovering->recording) restore_labels(recovering);
    mp_map_free(&recovering->labelled);
    mp_vec_free(&recovering->labels);
    mp_vec_free(&recovering->base);
    if (status != MP_NOT_FOUND) return status;
    const struct mp_damage *damage = mp_reader_damage(recovering->reader);
    copy_losses(recovering, NULL, writer);
    /* A cut file lacks its end, unless the spool has that. */
    bool cut = damage->cut && !recovering->recording;
    if (!damage->lost_chunks && (cut || (damage->lost_bytes && !damage->cut))) mp_writer_lost(writer, 1, 0);
    recovering->result->damage = *damage;
    return MP_OK;
}

/* ---- the spool ------------------------------------------------------------------------------------------------- */

static const char *what_happened(const struct mp_spool_header *spool)
{
    const _Atomic uint32_t *word = (const _Atomic uint32_t *)&spool->collector;
    if (!(atomic_load(word) & FUTEX_OWNER_DIED)) return "the recording was not finished by its collector";
    return atomic_load(&spool->program_left) ? "the collector was killed; the program ran to its end"
                                             : "the collector was killed, and the program did not end in order";
}

static void restore_ring_threads(struct mp_recording *recording)
{
    struct mp_tables *tables = &recording->tables;
    const struct mp_spool_header *spool = recording->spool.header;
    for (uint32_t ring = 0; ring < MP_SPOOL_RINGS_MAX; ring++) {
        for (size_t i = 0; i < tables->threads.count; i++)
            if (tables->threads.at[i].tid == spool->rings[ring].tid) tables->ring_thread[ring] = (uint32_t)i + 1;
        /* Records that a closed window left out were released without a chunk that says so. */
        uint64_t tail = atomic_load(&spool->rings[ring].tail);
        if (tail > recording->drain.next[ring]) recording->drain.next[ring] = tail;
    }
    for (size_t i = 0; i < tables->threads.count; i++)
        if (tables->threads.at[i].tid == MP_TID_LANE) mp_tables_known_lane(tables, (uint32_t)i);
}

static enum mp_status recover_with_spool(struct recovering *recovering, struct mp_error *error)
{
    struct mp_recording *recording = recovering->recording;
    enum mp_status status = MP_OK;
    if (recovering->reader) {
        int fd;
        recording->ledger.paused = false; /* until the file is read: what it has was numbered and told */
        status = recording->name(recording->name_context, recording, &recording->path, &fd, error);
        if (!status) status = mp_writer_open(fd, mp_reader_start(recovering->reader), &recording->writer, error);
        if (!status) status = copy_file(recovering, recording->writer, error);
    }
    if (status) {
        mp_recording_free(recording, false);
        return status;
    }
    restore_ring_threads(recording);
    recording->ledger.paused = !recording->window_open;
    const char *text = what_happened(recording->spool.header);
    mp_recording_note(recording, "recovered from what a killed collector left");
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
        struct mp_coverage coverage = {.events = summary->events};
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

/* Without a file, the program had not said start; a file says it itself. */
static bool began_paused(const struct mp_spool_file *spool)
{
    struct mp_record_config config;
    mp_record_config_defaults(&config);
    mp_record_config_parse(spool->header->configuration, &config);
    return config.paused;
}

/* A schedule goes on where the collector was killed. */
static enum mp_status new_recording(struct recovering *recovering, struct mp_spool_file *spool, mp_recording_name *name,
                                    void *name_context, struct mp_error *error)
{
    const char *schedule = spool->header->schedule;
    bool is_scheduled = *schedule && memchr(schedule, '\0', MP_SPOOL_SCHEDULE);
    struct mp_error ignored;
    if (is_scheduled && mp_schedule_restore(schedule, &recovering->schedule, &ignored)) is_scheduled = false;
    recovering->recording = mp_recording_new(spool, true, began_paused(spool), name, name_context, error);
    if (!recovering->recording) return error->status;
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
    return status;
}
