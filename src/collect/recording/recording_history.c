#include "collect/recording/recording_history.h"

#include <stdio.h>

static bool is_wanted(const struct mp_recording *recording)
{
    const struct mp_record_config *config = &recording->config;
    return config->torch && config->torch_history && !config->sample_bytes;
}

/* Takes tracks that were added to the spool since the last call. */
static bool look_at_tracks(struct mp_recording *recording)
{
    struct mp_spool_header *spool = recording->spool.header;
    const struct mp_wire_track *tracks = mp_spool_entries(spool, MP_TABLE_TRACKS);
    size_t count = mp_spool_table_count(spool, MP_TABLE_TRACKS);
    bool wanted = recording->history.tracks.count < count && is_wanted(recording);
    for (size_t i = recording->history.tracks.count; i < count && i < MP_LEDGER_TRACKS; i++)
        if (!mp_history_add_track(&recording->history, wanted && tracks[i].layer == MP_LAYER_TORCH &&
                                                           tracks[i].device_type == MP_DEVICE_CUDA))
            return false;
    return true;
}

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "out of memory for PyTorch's history");
}

enum mp_status mp_recording_follow_history(struct mp_recording *recording, const struct mp_event *event,
                                           struct mp_error *error)
{
    struct mp_history *history = &recording->history;
    if (event->track >= history->tracks.count && !look_at_tracks(recording)) return no_memory(error);
    if (!mp_history_follows(history, event->track)) return MP_OK;
    return mp_history_event(history, event) ? MP_OK : no_memory(error);
}

enum mp_status mp_recording_take_history(struct mp_recording *recording, const struct mp_record *record,
                                         struct mp_error *error)
{
    if (!look_at_tracks(recording)) return no_memory(error);
    return mp_history_take(&recording->history, &recording->state.ledger, record->track, record,
                           mp_recording_time(recording, record->moment_ns), error);
}

void mp_recording_note_history(struct mp_recording *recording)
{
    const struct mp_history *history = &recording->history;
    if (history->joined >= history->entries / 2) return;
    char text[160];
    snprintf(text, sizeof text,
             "of %llu allocations in PyTorch's own history only %llu were found among those recorded",
             (unsigned long long)history->entries, (unsigned long long)history->joined);
    mp_recording_note(recording, text);
}

enum mp_status mp_recording_write_requests(struct mp_recording *recording, struct mp_error *error)
{
    struct mp_history *history = &recording->history;
    enum mp_status status = MP_OK;
    if (history->requests.count)
        status = mp_writer_requests(recording->file.writer, history->requests.at, history->requests.count, error);
    history->requests.count = 0;
    return status;
}

enum mp_status mp_recording_write_segments(struct mp_recording *recording, struct mp_error *error)
{
    struct mp_history_held held = {0};
    enum mp_status status = mp_history_now(&recording->history, &recording->state.ledger, &held, error);
    if (!status && held.segments.count)
        status = mp_writer_segments(recording->file.writer, held.segments.at, held.segments.count, error);
    if (!status && held.parts.count)
        status = mp_writer_parts(recording->file.writer, held.parts.at, held.parts.count, error);
    mp_history_held_free(&held);
    return status;
}
