#include <stdlib.h>

#include "base/order.h"
#include "collect/history/history.h"
#include "collect/history/history_now.h"
#include "format/segments.h"

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "out of memory for the segments of PyTorch's allocator");
}

void mp_history_held_free(struct mp_history_held *held)
{
    mp_vec_free(&held->segments);
    mp_vec_free(&held->parts);
}

MP_ORDER(by_address, struct mp_base_block, MP_RISING(address))

/* Moves the track's live blocks to the beginning of `blocks`, by address. */
static size_t pick(struct mp_base_block *blocks, size_t count, uint16_t track)
{
    size_t picked = 0;
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].track != track) continue;
        struct mp_base_block block = blocks[i];
        blocks[i] = blocks[picked];
        blocks[picked++] = block;
    }
    qsort(blocks, picked, sizeof *blocks, by_address);
    return picked;
}

struct maker {
    struct mp_history_held *to;
    const struct mp_history *history;
    const struct mp_base_block *blocks; /* the track's live blocks, by address */
    size_t count, next, placed;
    const struct mp_segment_part *part, *parts_end; /* the next part of the segment in the reading; the end of all
                                                     * parts */
    uint64_t part_address;
    bool unchanged; /* no events since the reading, so pending parts are still pending */
};

static bool put(struct maker *m, uint64_t bytes, uint64_t requested, enum mp_torch_state state)
{
    const struct mp_segment_part part = {.bytes = bytes,
                                         .requested = requested,
                                         .segment = (uint32_t)m->to->segments.count - 1,
                                         .state = (uint8_t)state};
    return !bytes || mp_vec_push(&m->to->parts, part);
}

/* Adds the parts of a range without live blocks: pending parts of the reading if unchanged, else free ones. */
static bool put_room(struct maker *m, uint64_t address, uint64_t end)
{
    for (; m->unchanged && m->part < m->parts_end && m->part_address < end; m->part_address += m->part++->bytes) {
        uint64_t bytes = m->part->bytes;
        if (m->part->state != MP_TORCH_PENDING || m->part_address < address || bytes > end - m->part_address) continue;
        if (!put(m, m->part_address - address, 0, MP_TORCH_FREE) ||
            !put(m, bytes, m->part->requested, MP_TORCH_PENDING))
            return false;
        address = m->part_address + bytes;
    }
    return put(m, end - address, 0, MP_TORCH_FREE);
}

/* Adds a segment and its parts. `part` is its first part in the reading. */
static bool put_segment(struct maker *m, const struct mp_segment *segment, const struct mp_segment_part *part)
{
    const struct mp_history_held *held = &m->history->held;
    uint64_t at = segment->address, end = at + segment->bytes;
    if (!mp_vec_push(&m->to->segments, *segment)) return false;
    m->part = m->parts_end = part;
    m->part_address = at;
    while (m->parts_end < held->parts.at + held->parts.count && m->parts_end->segment == part->segment)
        m->parts_end++;
    while (m->next < m->count && m->blocks[m->next].address < at)
        m->next++;
    for (; m->next < m->count && m->blocks[m->next].address < end; m->next++) {
        const struct mp_base_block *block = &m->blocks[m->next];
        if (block->address < at || block->bytes > end - block->address) break; /* impossible */
        uint64_t asked = block->request.bytes ? block->request.bytes : block->bytes;
        if (!put_room(m, at, block->address) || !put(m, block->bytes, asked, MP_TORCH_ALLOCATED)) return false;
        at = block->address + block->bytes;
        m->placed++;
    }
    return put_room(m, at, end);
}

static bool put_track(struct maker *m, const struct mp_segment *const *sorted, size_t count, const size_t *first_part)
{
    const struct mp_history_held *held = &m->history->held;
    size_t segments = m->to->segments.count, parts = m->to->parts.count;
    for (size_t i = 0; i < count; i++) {
        size_t index = (size_t)(sorted[i] - held->segments.at);
        if (!put_segment(m, sorted[i], held->parts.at + first_part[index])) return false;
    }
    if (m->placed == m->count) return true;
    m->to->segments.count = segments;
    m->to->parts.count = parts;
    return true;
}

/* True if no block of the track began or ended since the reading. */
static bool is_unchanged(const struct mp_history *history, uint16_t track)
{
    return mp_history_follows(history, track) && history->tracks.at[track].last_event_ns <= history->held_ns;
}

static bool put_all(const struct mp_history *history, const struct mp_ledger *ledger, struct mp_base_block *blocks,
                    size_t count, const struct mp_segment *const *sorted, size_t *first_part,
                    struct mp_history_held *to)
{
    const struct mp_history_held *held = &history->held;
    for (size_t i = 0; i <= held->segments.count; i++)
        first_part[i] = held->parts.count;
    for (size_t i = held->parts.count; i-- > 0;)
        first_part[held->parts.at[i].segment] = i;
    for (size_t i = 0, next; i < held->segments.count; i = next) {
        uint16_t track = sorted[i]->track;
        uint64_t bytes = 0;
        bool unchanged = is_unchanged(history, track);
        for (next = i; next < held->segments.count && sorted[next]->track == track; next++)
            bytes += sorted[next]->bytes;
        /* Skip the track if segments changed since the reading: no event shows which segment was released. */
        if (track >= ledger->tracks.count || (!unchanged && ledger->tracks.at[track].reserved_bytes != bytes)) continue;
        struct maker m = {.to = to,
                          .history = history,
                          .blocks = blocks,
                          .count = pick(blocks, count, track),
                          .unchanged = unchanged};
        if (!put_track(&m, sorted + i, next - i, first_part)) return false;
    }
    return true;
}

enum mp_status mp_history_now(const struct mp_history *history, const struct mp_ledger *ledger,
                              struct mp_history_held *held, struct mp_error *error)
{
    size_t segments = history->held.segments.count, count;
    struct mp_base_block *blocks;
    if (!segments) return MP_OK;
    enum mp_status status = mp_ledger_copy(ledger, &blocks, &count, error);
    if (status) return status;
    const struct mp_segment **sorted = mp_segments_sorted(history->held.segments.at, history->held.segments.count);
    size_t *first_part = malloc((segments + 1) * sizeof *first_part);
    bool done = sorted && first_part && put_all(history, ledger, blocks, count, sorted, first_part, held);
    free(sorted);
    free(first_part);
    free(blocks);
    return done ? MP_OK : no_memory(error);
}
