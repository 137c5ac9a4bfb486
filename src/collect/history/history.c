#include "collect/history/history.h"

#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/search.h"
#include "format/segments.h"

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "out of memory for PyTorch's history");
}

bool mp_history_add_track(struct mp_history *history, bool followed)
{
    const struct mp_history_track track = {.followed = followed};
    return mp_vec_push(&history->tracks, track);
}

static size_t first_from(const struct mp_history_track *track, uint64_t time_ns)
{
    return MP_COUNT_BEFORE(track->allocs.count, i, track->allocs.at[i].time_ns < time_ns);
}

static void drop_first(struct mp_history_track *track, size_t count)
{
    track->allocs.count -= count;
    if (count) memmove(track->allocs.at, track->allocs.at + count, track->allocs.count * sizeof *track->allocs.at);
}

bool mp_history_event(struct mp_history *history, const struct mp_event *event)
{
    struct mp_history_track *track = &history->tracks.at[event->track];
    track->last_event_ns = event->time_ns;
    if (event->type != MP_EVENT_ALLOC) return true;
    if (track->allocs.count == 2 * MP_HISTORY_ALLOCS) drop_first(track, MP_HISTORY_ALLOCS);
    const struct mp_history_alloc alloc = {event->time_ns, event->address, event->bytes, event->block};
    return mp_vec_push(&track->allocs, alloc);
}

/* ---- a reading ------------------------------------------------------------------------------------------------- */

static bool add_request(struct mp_history *history, uint64_t number, const struct mp_request *request)
{
    const struct mp_block_request row = {number, *request};
    if (number & MP_LEDGER_UNNUMBERED) return true; /* the block is in no file yet; a base will have its request */
    return mp_vec_push(&history->requests, row);
}

/* Finds the pools of entries through their segments: PyTorch before 2.10 gives only a segment's pool. */
static bool find_pools(struct mp_history *history)
{
    size_t count = history->coming.segments.count;
    const struct mp_segment **sorted = mp_segments_sorted(history->coming.segments.at, count);
    for (uint16_t number = 0; sorted && number < history->tracks.count; number++) {
        struct mp_history_track *track = &history->tracks.at[number];
        mp_vec_each (struct mp_history_entry, entry, &track->entries) {
            if (entry->pool != MP_BYTES_UNKNOWN) continue;
            const struct mp_segment *segment = mp_segment_at(sorted, count, number, entry->address);
            if (segment) entry->pool = segment->pool;
        }
    }
    bool done = sorted;
    free(sorted);
    return done;
}

/* True if most pairs are close in time. Otherwise the clock was set, or drifted from PyTorch's. In a loop, entries may
 * then have been joined to allocations of a neighbouring turn. */
static bool times_agree(const struct mp_history_alloc *allocs, const struct mp_history_entry *entries,
                        const uint32_t *alloc_of, size_t count, size_t pairs)
{
    size_t close = 0;
    for (size_t i = 0; i < count; i++) {
        if (alloc_of[i] == MP_NONE) continue;
        int64_t late = (int64_t)(allocs[alloc_of[i]].time_ns - entries[i].time_ns);
        close += late >= -MP_HISTORY_CLOSE_NS && late <= MP_HISTORY_CLOSE_NS;
    }
    return close > pairs / 2;
}

static bool join_track(struct mp_history *history, struct mp_ledger *ledger, uint16_t number)
{
    struct mp_history_track *track = &history->tracks.at[number];
    size_t count = track->entries.count, pairs = 0;
    const struct mp_history_entry *entries = track->entries.at;
    if (!count) return true;
    uint64_t begin = entries[0].time_ns;
    for (size_t i = 1; i < count; i++)
        if (entries[i].time_ns < begin) begin = entries[i].time_ns;
    size_t first = first_from(track, begin > MP_HISTORY_EARLY_NS ? begin - MP_HISTORY_EARLY_NS : 0);
    size_t last = track->allocs.count;
    const struct mp_history_alloc *allocs = last ? track->allocs.at + first : NULL;
    uint32_t *alloc_of = malloc(count * sizeof *alloc_of);
    bool done = alloc_of && (first == last || mp_history_join(allocs, last - first, entries, count, alloc_of, &pairs));
    if (done && pairs && !times_agree(allocs, entries, alloc_of, count, pairs)) pairs = 0;
    for (size_t i = 0; done && pairs && i < count; i++) {
        if (alloc_of[i] == MP_NONE) continue;
        const struct mp_history_alloc *alloc = &allocs[alloc_of[i]];
        const struct mp_request request = {entries[i].bytes, entries[i].stream, entries[i].pool};
        struct mp_base_block *live = mp_ledger_at(ledger, number, alloc->address);
        /* births are compared, because a live block's number in the file may have changed */
        bool lives = live && live->birth_ns == alloc->time_ns;
        if (lives) live->request = request;
        done = add_request(history, lives ? live->block : alloc->block, &request);
    }
    free(alloc_of);
    history->entries += count;
    history->joined += pairs;
    return done;
}

/* Gives live blocks the requests that segments show. A live block counts only if its birth is the same, because its
 * number in the file may have changed. */
static bool learn_from_parts(struct mp_history *history, struct mp_ledger *ledger, uint64_t moment_ns)
{
    const struct mp_segment_part *parts = history->coming.parts.at;
    uint64_t address = 0;
    for (size_t i = 0; i < history->coming.parts.count; i++) {
        const struct mp_segment *segment = &history->coming.segments.at[parts[i].segment];
        if (!i || parts[i - 1].segment != parts[i].segment) address = segment->address;
        struct mp_base_block *live = mp_ledger_at(ledger, segment->track, address);
        address += parts[i].bytes;
        if (!live || live->request.bytes || parts[i].state != MP_TORCH_ALLOCATED || !parts[i].requested ||
            live->bytes != parts[i].bytes || live->birth_ns > moment_ns)
            continue;
        live->request = (struct mp_request){parts[i].requested, segment->stream, segment->pool};
        if (!add_request(history, live->block, &live->request)) return false;
    }
    return true;
}

static enum mp_status end_reading(struct mp_history *history, struct mp_ledger *ledger, const struct mp_record *record,
                                  uint64_t moment_ns, struct mp_error *error)
{
    bool whole = record->bytes == history->records && !history->overflowed, done = find_pools(history);
    for (uint16_t i = 0; done && i < history->tracks.count; i++)
        done = join_track(history, ledger, i);
    done = done && learn_from_parts(history, ledger, moment_ns);
    if (whole && record->stack) {
        struct mp_history_held before = history->held;
        history->held = history->coming;
        history->held_ns = moment_ns;
        history->coming = before;
    }
    /* A reading takes all entries that PyTorch has. So allocations until now need not wait for later entries. */
    mp_vec_each (struct mp_history_track, track, &history->tracks) {
        track->entries.count = 0;
        drop_first(track, first_from(track, moment_ns));
    }
    history->coming.segments.count = history->coming.parts.count = 0;
    history->records = 0;
    history->overflowed = false;
    return done ? MP_OK : no_memory(error);
}

static bool take_part(struct mp_history *history, const struct mp_record *record)
{
    struct mp_history_held *coming = &history->coming;
    const struct mp_segment_part part = {.bytes = record->bytes,
                                         .requested = record->address,
                                         .segment = (uint32_t)coming->segments.count - 1,
                                         .state = (uint8_t)record->stack};
    if (!coming->segments.count || record->stack >= MP_TORCH_STATES || coming->parts.count >= MP_HISTORY_ENTRIES) {
        history->overflowed = true;
        return true;
    }
    return mp_vec_push(&coming->parts, part);
}

enum mp_status mp_history_take(struct mp_history *history, struct mp_ledger *ledger, uint16_t number,
                               const struct mp_record *record, uint64_t moment_ns, struct mp_error *error)
{
    if (record->kind == MP_READING_END) return end_reading(history, ledger, record, moment_ns, error);
    bool done = true;
    history->records++;
    if (!mp_history_follows(history, number)) {
        history->overflowed = true;
    } else if (record->kind == MP_READING_ALLOC) {
        struct mp_history_track *track = &history->tracks.at[number];
        const struct mp_history_entry entry = {moment_ns, record->address, record->bytes, record->total_allocated,
                                               record->total_reserved};
        if (track->entries.count < MP_HISTORY_ENTRIES) done = mp_vec_push(&track->entries, entry);
    } else if (record->kind == MP_READING_SEGMENT) {
        const struct mp_segment segment = {.address = record->address,
                                           .bytes = record->bytes,
                                           .stream = record->total_allocated,
                                           .pool = record->total_reserved,
                                           .track = number,
                                           .small = (record->stack & MP_READING_SMALL) != 0,
                                           .expandable = (record->stack & MP_READING_EXPANDABLE) != 0};
        if (history->coming.segments.count < MP_HISTORY_ENTRIES)
            done = mp_vec_push(&history->coming.segments, segment);
        else
            history->overflowed = true;
    } else if (record->kind == MP_READING_PART) {
        done = take_part(history, record);
    }
    return done ? MP_OK : no_memory(error);
}

uint64_t mp_history_bytes(const struct mp_history *history)
{
    const struct mp_history_held *held[] = {&history->coming, &history->held};
    uint64_t bytes =
        history->tracks.room * sizeof *history->tracks.at + history->requests.room * sizeof *history->requests.at;
    for (size_t i = 0; i < history->tracks.count; i++)
        bytes += history->tracks.at[i].allocs.room * sizeof(struct mp_history_alloc) +
                 history->tracks.at[i].entries.room * sizeof(struct mp_history_entry);
    for (size_t i = 0; i < 2; i++)
        bytes +=
            held[i]->segments.room * sizeof(struct mp_segment) + held[i]->parts.room * sizeof(struct mp_segment_part);
    return bytes;
}

void mp_history_free(struct mp_history *history)
{
    for (size_t i = 0; i < history->tracks.count; i++) {
        mp_vec_free(&history->tracks.at[i].allocs);
        mp_vec_free(&history->tracks.at[i].entries);
    }
    mp_vec_free(&history->tracks);
    mp_vec_free(&history->requests);
    mp_history_held_free(&history->coming);
    mp_history_held_free(&history->held);
}

/* ---- the memory now, by the segments of the last reading --------------------------------------------------------- */

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
