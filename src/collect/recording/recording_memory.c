#include "collect/recording/recording.h"

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
                  ROOM(recording->holders) + ROOM(recording->operators.uses) + of_map(&recording->operators.last) + ROOM(recording->unkept_steps) + ROOM(recording->samples) +
                  ROOM(recording->notes) + ROOM(recording->state.open) + ROOM(recording->state.reserved) +
                  of_map(&recording->usual_roles.by_kind) + ROOM(recording->lives.ended) +
                  ROOM(recording->lives.begun_ns) + mp_history_bytes(&recording->history),
        .file = recording->writer ? mp_writer_memory(recording->writer) : 0,
    };
}

uint64_t mp_recording_memory_sum(const struct mp_recording_memory *memory)
{
    return memory->ledger + memory->tables + memory->events + memory->file;
}
