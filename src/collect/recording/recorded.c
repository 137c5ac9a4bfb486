#include "collect/recording/recorded.h"

#include <stdio.h>

#define ROOM(vec) ((vec).room * sizeof *(vec).at)

static uint64_t of_map(const struct mp_map *map)
{
    return map->room * sizeof *map->slots;
}

static uint64_t of_texts(const struct mp_intern *texts)
{
    return texts->text_room + texts->room * sizeof *texts->offsets + texts->slot_room * sizeof *texts->slots;
}

static uint64_t of_spool(const struct mp_spool_header *spool)
{
    uint64_t bytes = MP_SPOOL_HEADER_BYTES + atomic_load(&spool->rings_committed) * MP_RING_BYTES;
    for (int i = 0; i < MP_TABLES; i++)
        bytes += atomic_load(&spool->tables[i].committed) * mp_spool_entry_bytes((enum mp_spool_table_id)i);
    return bytes;
}

void mp_recording_memory(const struct mp_recording *recording, struct mp_recording_memory *memory)
{
    const struct mp_ledger *ledger = &recording->state.ledger;
    const struct mp_tables *tables = &recording->tables;
    *memory = (struct mp_recording_memory){
        .spool = of_spool(recording->spool.header),
        .ledger = of_map(&ledger->by_address) + ROOM(ledger->blocks) + ROOM(ledger->births) + ROOM(ledger->free_slots) +
                  ROOM(ledger->tracks) + ROOM(ledger->freed_unseen),
        .tables = of_texts(&tables->strings) + of_map(&tables->spool_strings) + ROOM(tables->devices) +
                  ROOM(tables->device_keys) + ROOM(tables->threads) + ROOM(tables->lane_thread),
        .events = ROOM(recording->pending) + ROOM(recording->pending_live) + ROOM(recording->labels) +
                  ROOM(recording->holders) + ROOM(recording->operators.uses) + of_map(&recording->operators.last) +
                  ROOM(recording->window.unkept_steps) + ROOM(recording->samples) + ROOM(recording->notes) +
                  ROOM(recording->state.open) + ROOM(recording->state.reserved) +
                  of_map(&recording->usual_roles.by_kind) + ROOM(recording->lives.ended) +
                  ROOM(recording->lives.begun_ns) + mp_history_bytes(&recording->history),
        .file = recording->file.writer ? mp_writer_memory(recording->file.writer) : 0,
    };
}

uint64_t mp_recording_memory_sum(const struct mp_recording_memory *memory)
{
    return memory->ledger + memory->tables + memory->events + memory->file;
}

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
           atomic_load(&spool->losses.left_hooks) + atomic_load(&spool->unsound) + mp_recording_ring_full(spool);
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
