#include "collect/recover/recover.h"

#include <linux/futex.h>
#include <stdio.h>
#include <string.h>

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
    if (atomic_load(&spool->file_failed))
        snprintf(text, sizeof text, "recovered from shared memory, as the file could not be written on: %.*s",
                 (int)sizeof spool->failure - 1, spool->failure);
    mp_recording_note(recording, text);
}

static enum mp_status recover_with_spool(struct mp_recovering *recovering, struct mp_error *error)
{
    struct mp_recording *recording = recovering->recording;
    enum mp_status status = MP_OK;
    if (recovering->reader) {
        int fd;
        recording->state.ledger.paused = false; /* only while the file is read, because its blocks already have
                                                 * numbers */
        status = recording->name(recording->name_context, recording, &recording->path, &fd, error);
        if (!status) status = mp_writer_open(fd, mp_reader_start(recovering->reader), &recording->writer, error);
        if (!status) status = mp_recover_copy(recovering, recording->writer, error);
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
    recording->state.ledger.paused = !recording->window_open;
    const char *text = end_of_recording(recording->spool.header);
    note_source(recording);
    mp_recording_end(recording, (struct mp_exit){.known = false}, text);
    mp_recording_finish(recording, &recovering->result->summary);
    mp_recording_free(recording, !recovering->result->summary.failed);
    if (!recovering->result->summary.failed) return MP_OK;
    *error = recovering->result->summary.failure;
    return recovering->result->summary.failed;
}

static enum mp_status recover_alone(struct mp_recovering *recovering, mp_recording_name *name, void *name_context,
                                    struct mp_error *error)
{
    int fd;
    struct mp_recording_summary *summary = &recovering->result->summary;
    enum mp_status status = name(name_context, NULL, &summary->path, &fd, error);
    if (!status) status = mp_writer_open(fd, mp_reader_start(recovering->reader), &recovering->writer, error);
    if (!status) status = mp_recover_copy(recovering, recovering->writer, error);
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
static enum mp_status new_recording(struct mp_recovering *recovering, struct mp_spool_file *spool,
                                    mp_recording_name *name, void *name_context, struct mp_error *error)
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
    struct mp_recovering recovering = {.result = recovery};
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
        if (!status && recovering.reader && !recovering.recording->window_open && mp_left_without_events(path)) {
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
