#include "model/state/ledger.h"

#include <stdlib.h>

static uint64_t key_of(uint16_t track, uint64_t address)
{
    /* Mixes the track into all bits, because an application may use any number as an address. */
    uint64_t key = address ^ (track + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return key ? key : UINT64_MAX;
}

struct mp_ledger_track *mp_ledger_track(struct mp_ledger *ledger, uint16_t track)
{
    if (track >= MP_LEDGER_TRACKS) return NULL;
    for (size_t i = ledger->tracks.count; i <= track; i++) {
        struct mp_ledger_track fresh = {.reserved_bytes = MP_BYTES_UNKNOWN, .peak_reserved_bytes = MP_BYTES_UNKNOWN};
        if (!mp_vec_push(&ledger->tracks, fresh)) return NULL;
    }
    return &ledger->tracks.at[track];
}

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "out of memory while following live blocks");
}

/* A record has its track's number. In a damaged spool it may be any number. */
static enum mp_status no_track(uint16_t track, struct mp_error *error)
{
    if (track < MP_LEDGER_TRACKS) return no_memory(error);
    return mp_fail(error, MP_DAMAGED, "the spool is damaged: it names track %u", track);
}

static bool take_slot(struct mp_ledger *ledger, uint32_t *slot)
{
    if (ledger->free_slots.count) {
        *slot = ledger->free_slots.at[--ledger->free_slots.count];
        return true;
    }
    struct mp_base_block none = {.track = MP_LEDGER_SLOT_FREE};
    if (!mp_vec_push(&ledger->births, 0) || !mp_vec_push(&ledger->blocks, none)) return false;
    *slot = (uint32_t)(ledger->blocks.count - 1);
    return true;
}

static uint64_t new_number(struct mp_ledger *ledger)
{
    return ledger->paused ? MP_LEDGER_UNNUMBERED | ledger->next_unnumbered++ : ledger->next_block++;
}

static void subtract(struct mp_ledger_track *track, uint64_t bytes)
{
    track->bytes -= mp_known(bytes);
    track->blocks--;
}

static void add(struct mp_ledger *ledger, struct mp_ledger_track *track, uint64_t bytes, uint64_t time_ns)
{
    track->bytes += mp_known(bytes);
    if (track->bytes > track->peak_since_reset_bytes) track->peak_since_reset_bytes = track->bytes;
    if (track->bytes <= track->peak_bytes) return;
    track->peak_bytes = track->bytes;
    track->peak_blocks = track->blocks;
    track->peak_ns = time_ns;
    track->peak_step = ledger->steps;
}

/* During a pause, notes the end of a block that the file has. */
static bool note_unseen_end(struct mp_ledger *ledger, const struct mp_base_block *block, uint64_t time_ns)
{
    if (!ledger->paused || block->block & MP_LEDGER_UNNUMBERED) return true;
    struct mp_base_block ended = *block;
    ended.birth_ns = time_ns;
    return mp_vec_push(&ledger->freed_unseen, ended);
}

enum mp_status mp_ledger_alloc(struct mp_ledger *ledger, struct mp_event *event, struct mp_event *missed,
                               struct mp_error *error)
{
    struct mp_ledger_track *track = mp_ledger_track(ledger, event->track);
    if (missed) missed->type = MP_EVENT_NONE;
    if (!track) return no_track(event->track, error);
    bool added;
    uint64_t *value = mp_map_insert(&ledger->by_address, key_of(event->track, event->address), &added);
    if (!value) return no_memory(error);
    uint32_t slot;
    if (added) {
        if (!take_slot(ledger, &slot)) return no_memory(error);
        *value = slot;
    } else {
        slot = (uint32_t)*value;
        const struct mp_base_block *before = &ledger->blocks.at[slot];
        subtract(track, before->bytes);
        ledger->freed = *before;
        ledger->freed_birth = ledger->births.at[slot];
        if (!note_unseen_end(ledger, before, event->time_ns)) return no_memory(error);
        ledger->missed_frees++;
        if (missed)
            *missed = (struct mp_event){.time_ns = event->time_ns,
                                        .address = before->address,
                                        .bytes = before->bytes,
                                        .block = before->block,
                                        .thread = event->thread,
                                        .track = event->track,
                                        .type = MP_EVENT_FREE};
    }
    event->block = new_number(ledger);
    ledger->blocks.at[slot] = mp_block_born(event);
    ledger->births.at[slot] = ledger->step_now;
    track->blocks++;
    add(ledger, track, event->bytes, event->time_ns);
    return MP_OK;
}

enum mp_status mp_ledger_free(struct mp_ledger *ledger, struct mp_event *event, bool *known, struct mp_error *error)
{
    struct mp_ledger_track *track = mp_ledger_track(ledger, event->track);
    uint64_t slot;
    if (!track) return no_track(event->track, error);
    *known = mp_map_remove(&ledger->by_address, key_of(event->track, event->address), &slot);
    if (!*known) {
        event->block = new_number(ledger);
        ledger->unknown_frees++;
        return MP_OK;
    }
    struct mp_base_block *block = &ledger->blocks.at[slot];
    ledger->freed = *block;
    ledger->freed_birth = ledger->births.at[slot];
    event->block = block->block;
    event->bytes = block->bytes;
    subtract(track, block->bytes);
    if (!note_unseen_end(ledger, block, event->time_ns)) return no_memory(error);
    block->track = MP_LEDGER_SLOT_FREE;
    return mp_vec_push(&ledger->free_slots, (uint32_t)slot) ? MP_OK : no_memory(error);
}

void mp_ledger_resize(struct mp_ledger *ledger, const struct mp_event *event)
{
    struct mp_base_block *block = mp_ledger_at(ledger, event->track, event->address);
    struct mp_ledger_track *track = mp_ledger_track(ledger, event->track);
    if (!block || !track) return;
    track->bytes -= mp_known(block->bytes);
    block->bytes = event->bytes;
    add(ledger, track, event->bytes, event->time_ns);
}

struct mp_base_block *mp_ledger_at(const struct mp_ledger *ledger, uint16_t track, uint64_t address)
{
    const uint64_t *slot = mp_map_find(&ledger->by_address, key_of(track, address));
    return slot ? &ledger->blocks.at[*slot] : NULL;
}

enum { FIRST = 8, LATER = 64 };

void mp_ledger_check_total(struct mp_ledger *ledger, uint16_t number, int64_t bytes, uint64_t total)
{
    /* If the allocator holds no lock, threads may report out of order. Then single events disagree with its total, even
     * the first ones, and later ones agree again. So a difference is wrong only if it lasts for some events. */
    struct mp_ledger_track *track = mp_ledger_track(ledger, number);
    if (!track) return;
    if (total == MP_BYTES_UNKNOWN) {
        track->total_known = false;
        track->total_weight = track->total_off = 0;
        return;
    }
    ledger->totals_checked++;
    track->total_seen += (uint64_t)bytes;
    uint64_t difference = total - track->total_seen;
    if (difference == track->total_candidate)
        track->total_weight += track->total_weight < LATER;
    else if (track->total_weight)
        track->total_weight--;
    else
        track->total_candidate = difference, track->total_weight = 1;
    if (!track->total_known) {
        track->total_known = track->total_weight == FIRST;
        track->total_difference = track->total_candidate;
        return;
    }
    track->total_off = difference == track->total_difference ? 0 : track->total_off + 1;
    if (track->total_candidate == track->total_difference || track->total_weight < LATER) return;
    ledger->totals_wrong += track->total_off;
    track->total_difference = track->total_candidate;
    track->total_off = 0;
}

uint64_t mp_ledger_totals_wrong(const struct mp_ledger *ledger)
{
    /* If the difference grows with every event, it never settles on one value. */
    uint64_t wrong = ledger->totals_wrong;
    for (size_t i = 0; i < ledger->tracks.count; i++)
        if (ledger->tracks.at[i].total_off >= LATER) wrong += ledger->tracks.at[i].total_off;
    return wrong;
}

enum mp_status mp_ledger_copy(const struct mp_ledger *ledger, struct mp_base_block **blocks, size_t *count,
                              struct mp_error *error)
{
    *count = 0;
    *blocks = malloc((ledger->by_address.count + 1) * sizeof **blocks);
    if (!*blocks) return no_memory(error);
    for (size_t i = 0; i < ledger->blocks.count; i++)
        if (ledger->blocks.at[i].track != MP_LEDGER_SLOT_FREE) (*blocks)[(*count)++] = ledger->blocks.at[i];
    qsort(*blocks, *count, sizeof **blocks, mp_base_by_number);
    return MP_OK;
}

enum mp_status mp_ledger_resume(struct mp_ledger *ledger, struct mp_error *error)
{
    struct mp_base_block *blocks;
    size_t count;
    enum mp_status status = mp_ledger_copy(ledger, &blocks, &count, error);
    for (size_t i = 0; !status && i < count; i++) {
        if (!(blocks[i].block & MP_LEDGER_UNNUMBERED)) continue;
        const uint64_t *slot = mp_map_find(&ledger->by_address, key_of(blocks[i].track, blocks[i].address));
        ledger->blocks.at[*slot].block = ledger->next_block++;
    }
    if (!status) free(blocks);
    ledger->paused = false;
    return status;
}

void mp_ledger_free_all(struct mp_ledger *ledger)
{
    mp_map_free(&ledger->by_address);
    mp_vec_free(&ledger->blocks);
    mp_vec_free(&ledger->births);
    mp_vec_free(&ledger->free_slots);
    mp_vec_free(&ledger->freed_unseen);
    mp_vec_free(&ledger->tracks);
}
