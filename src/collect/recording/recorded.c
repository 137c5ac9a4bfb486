#include "collect/recording/recorded.h"

#include <stdio.h>

uint64_t mp_recording_time(const struct mp_recording *recording, uint64_t monotonic_ns)
{
    uint64_t start = recording->spool.header->monotonic_ns;
    return monotonic_ns > start ? monotonic_ns - start : 0;
}

bool mp_recording_check(struct mp_recording *recording, enum mp_status status, const struct mp_error *error)
{
    if (status && !recording->file.failed) {
        recording->file.failed = status;
        recording->file.failure = *error;
        struct mp_spool_header *spool = recording->spool.header;
        snprintf(spool->written.why, sizeof spool->written.why, "%.*s", (int)sizeof spool->written.why - 1,
                 error->text);
        spool->written.full_before = mp_recording_ring_full(spool);
        atomic_store(&spool->written.failed, 1); /* from now on hooks drop events if a ring is full */
    }
    return !status;
}

void mp_recording_note(struct mp_recording *recording, const char *text)
{
    uint32_t id = mp_intern_text(&recording->tables.strings, text);
    for (size_t i = 0; i < recording->notes.count; i++)
        if (recording->notes.at[i] == id) return;
    if (id != MP_INTERN_FAILED) (void)mp_vec_push(&recording->notes, id);
}

uint64_t mp_recording_public_step(const struct mp_recording *recording, uint64_t step)
{
    bool unended = recording->state.steps.kind == MP_STEP_OF_OPTIMIZER && step == recording->state.ledger.steps;
    return unended ? step - 1 : step;
}

uint64_t mp_recording_dropped(const struct mp_spool_header *spool)
{
    return atomic_load(&spool->losses.dropped_no_ring) + atomic_load(&spool->losses.dropped_no_track) +
           atomic_load(&spool->losses.dropped_no_memory) + atomic_load(&spool->losses.dropped_inside) +
           atomic_load(&spool->losses.dropped_refused) + atomic_load(&spool->losses.dropped_unattached) +
           atomic_load(&spool->losses.dropped_retired) + atomic_load(&spool->losses.left_hooks) +
           atomic_load(&spool->unsound) + mp_recording_ring_full(spool);
}

uint64_t mp_recording_ring_full(const struct mp_spool_header *spool)
{
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < MP_SPOOL_RINGS_MAX; i++)
        dropped += atomic_load(&spool->rings[i].dropped);
    return dropped;
}

bool mp_recording_lacks_names(const struct mp_spool_header *spool)
{
    return atomic_load(&spool->losses.lost_stacks) || atomic_load(&spool->losses.lost_strings) ||
           atomic_load(&spool->losses.without_lock);
}
