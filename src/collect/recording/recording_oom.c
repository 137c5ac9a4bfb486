/*
 * Finds out when memory ran out, and whether that is worth a snapshot. A refusal by the driver does not count if
 * PyTorch survives it: its caching allocator releases free segments and asks again. If PyTorch may have asked, the
 * thread's next event decides, however late it comes. If PyTorch then gets memory on that device, there is no snapshot.
 * If PyTorch reports out-of-memory, there is one. Any other event means that another library had asked, and there is a
 * snapshot, too. Other refusals get a snapshot at once.
 */
#include "collect/recording/recording_parts.h"

#include "base/clock.h"

#define OOMS_LOOKED_AT 3
#define OOM_APART_NS   (10 * MP_NS_PER_SECOND)

static enum mp_status ask_for_look(struct mp_recording *recording, uint64_t time_ns, struct mp_error *error)
{
    struct mp_snapshot_request request = {.at_oom = true, .oom_ns = time_ns};
    recording->oom_passed_over = false;
    return mp_vec_push(&recording->requests, request) ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory");
}

/* A program that searches for a batch size runs out of memory often. Only the first few times get a file, and the last
 * time if the program did not end well. */
static enum mp_status look_at(struct mp_recording *recording, uint64_t time_ns, struct mp_error *error)
{
    /* A refusal that was undecided for long may come here after later ones. */
    uint64_t last = recording->last_oom_ns, apart = time_ns > last ? time_ns - last : last - time_ns;
    bool soon = recording->ooms_looked_at && apart < OOM_APART_NS;
    recording->oom_passed_over_ns = time_ns;
    recording->oom_passed_over = soon || recording->ooms_looked_at == OOMS_LOOKED_AT;
    if (recording->oom_passed_over) return MP_OK;
    recording->ooms_looked_at++;
    if (time_ns > last) recording->last_oom_ns = time_ns;
    return ask_for_look(recording, time_ns, error);
}

/* The track numbered `track`; NULL if there is none. */
static const struct mp_wire_track *track_of(const struct mp_recording *recording, uint16_t track)
{
    struct mp_spool_header *spool = recording->spool.header;
    const struct mp_wire_track *tracks = mp_spool_entries(spool, MP_TABLE_TRACKS);
    /* A damaged spool may contain any number. */
    bool there = track < mp_spool_table_count(spool, MP_TABLE_TRACKS);
    return there ? &tracks[track] : NULL;
}

bool mp_recording_has_layer(const struct mp_recording *recording, uint16_t track, enum mp_layer layer)
{
    const struct mp_wire_track *facts = track_of(recording, track);
    return facts && facts->layer == layer;
}

/* True if PyTorch's caching allocator has memory on the track's device. */
static bool has_allocator_above(const struct mp_recording *recording, uint16_t track)
{
    const struct mp_wire_track *facts = track_of(recording, track), *other;
    for (size_t i = 0; facts && i < recording->state.ledger.tracks.count; i++)
        if ((other = track_of(recording, (uint16_t)i)) && other->layer == MP_LAYER_TORCH &&
            other->device_type == facts->device_type && other->device_index == facts->device_index &&
            recording->state.ledger.tracks.at[i].reserved_bytes != MP_BYTES_UNKNOWN)
            return true;
    return false;
}

/* True if PyTorch's allocator may have asked for its very first segment. It never asks on the track of a pool. */
static bool may_be_first(const struct mp_recording *recording, uint16_t track)
{
    const struct mp_wire_track *facts = track_of(recording, track);
    return recording->config.torch && facts && facts->device_type == MP_DEVICE_CUDA && !facts->name &&
           atomic_load(&recording->spool.header->has_cuda_allocator);
}

static struct mp_refusal *refusal_of(struct mp_recording *recording, uint32_t thread)
{
    for (size_t i = 0; i < recording->refusals.count; i++)
        if (recording->refusals.at[i].thread == thread) return &recording->refusals.at[i];
    return NULL;
}

static void forget_refusal(struct mp_recording *recording, struct mp_refusal *refusal)
{
    *refusal = recording->refusals.at[--recording->refusals.count];
}

/* True if the track is of layer `layer` on the device that refused. */
static bool is_on_refusing_device(const struct mp_recording *recording, const struct mp_refusal *refusal,
                                  uint16_t track, enum mp_layer layer)
{
    const struct mp_wire_track *facts = track_of(recording, track), *refused = track_of(recording, refusal->track);
    return facts && refused && facts->layer == layer && facts->device_type == refused->device_type &&
           facts->device_index == refused->device_index;
}

static enum mp_status decide(struct mp_recording *recording, struct mp_refusal *refusal, bool answered,
                             struct mp_error *error)
{
    uint64_t time_ns = refusal->time_ns;
    forget_refusal(recording, refusal);
    return answered ? MP_OK : look_at(recording, time_ns, error);
}

static enum mp_status take_oom(struct mp_recording *recording, const struct mp_event *event, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    struct mp_refusal *before = refusal_of(recording, event->thread);
    bool undecided = mp_recording_has_layer(recording, event->track, MP_LAYER_DRIVER) &&
                     (has_allocator_above(recording, event->track) || may_be_first(recording, event->track));
    if (undecided && before && is_on_refusing_device(recording, before, event->track, MP_LAYER_DRIVER)) return MP_OK;
    if (before)
        status =
            decide(recording, before, is_on_refusing_device(recording, before, event->track, MP_LAYER_TORCH), error);
    if (status) return status;
    if (!undecided) return look_at(recording, event->time_ns, error);
    const struct mp_refusal refusal = {.thread = event->thread, .track = event->track, .time_ns = event->time_ns};
    return mp_vec_push(&recording->refusals, refusal) ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory");
}

/* True for an event that PyTorch may cause between a refusal and its report. In this time PyTorch frees memory and asks
 * again, for expandable segments in pieces. */
static bool may_be_retry(const struct mp_recording *recording, const struct mp_refusal *refusal,
                         const struct mp_event *event)
{
    return event->type == MP_EVENT_FREE || event->type == MP_EVENT_RESERVED ||
           (event->type == MP_EVENT_ALLOC && is_on_refusing_device(recording, refusal, event->track, MP_LAYER_DRIVER));
}

enum mp_status mp_recording_follow_oom(struct mp_recording *recording, const struct mp_event *event,
                                       struct mp_error *error)
{
    if (event->type == MP_EVENT_OOM) return take_oom(recording, event, error);
    struct mp_refusal *refusal = recording->refusals.count ? refusal_of(recording, event->thread) : NULL;
    if (!refusal || event->type >= MP_EVENT_TYPES || may_be_retry(recording, refusal, event)) return MP_OK;
    bool gets =
        event->type == MP_EVENT_ALLOC && is_on_refusing_device(recording, refusal, event->track, MP_LAYER_TORCH);
    return decide(recording, refusal, gets, error);
}

enum mp_status mp_recording_look_at_last_ooms(struct mp_recording *recording, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    while (recording->refusals.count && !status)
        status = look_at(recording, recording->refusals.at[--recording->refusals.count].time_ns, error);
    bool ended_well = recording->how.known && !recording->how.by_signal && !recording->how.status;
    if (!status && recording->oom_passed_over && !ended_well)
        status = ask_for_look(recording, recording->oom_passed_over_ns, error);
    return status;
}
