#include "collect/recording/drain.h"

#include "base/clock.h"

/* A hook takes microseconds, or at most 0.1 s if its ring is full. A hook that is open for longer counts as one that
 * never ends (a longjmp out of a signal handler, a stopped thread). It no longer holds back the other rings. */
#define HOOK_MAX_NS     (MP_NS_PER_SECOND)
#define CLOCK_MARGIN_NS 1000

/* Release early if this many rings belong to ended threads, so that new threads can reuse them. */
#define RETIRED_MANY 8

/* The records of a ring to take: [next, end). */
struct cursor {
    uint32_t ring;
    uint64_t next, end;
    uint64_t order; /* sort key of the record at `next`: its time; at equal times frees come first */
};

static uint32_t rings_of(const struct mp_spool_header *spool)
{
    uint32_t rings = atomic_load(&spool->rings_used);
    return rings < MP_SPOOL_RINGS_MAX ? rings : MP_SPOOL_RINGS_MAX;
}

static uint64_t order_of(const struct mp_record *record)
{
    return record->time_ns << 1 | (record->type != MP_EVENT_FREE);
}

/* True if a hook has been running unchanged for longer than a hook can take. */
static bool is_abandoned(struct mp_drain *drain, uint32_t ring, uint64_t open, uint64_t head, uint64_t now)
{
    if (drain->hooks[ring].open != open || drain->hooks[ring].head != head) {
        drain->hooks[ring].open = open;
        drain->hooks[ring].head = head;
        drain->hooks[ring].first_ns = now;
    }
    return now - drain->hooks[ring].first_ns >= HOOK_MAX_NS;
}

/* The horizon: no record older than this moment can still be added to a ring. *rings is the number of rings. The clock
 * is read before the rings. So any ring or hook that we do not see began later. The margin is for processors whose
 * clock is a little behind. */
static uint64_t horizon(struct mp_drain *drain, const struct mp_spool_header *spool, uint32_t *rings)
{
    uint64_t now = mp_clock_monotonic_ns(), oldest = now - CLOCK_MARGIN_NS;
    *rings = rings_of(spool);
    for (uint32_t i = 0; i < *rings; i++) {
        uint64_t open = atomic_load(&spool->rings[i].open_since);
        if (!open) drain->hooks[i].open = 0;
        if (!open || open >= oldest) continue;
        uint64_t head = atomic_load_explicit(&spool->rings[i].head, memory_order_relaxed);
        if (!is_abandoned(drain, i, open, head, now)) oldest = open;
    }
    return oldest;
}

static void place(struct cursor *cursors, size_t count, size_t at)
{
    for (;;) {
        size_t least = at, left = 2 * at + 1;
        if (left < count && cursors[left].order < cursors[least].order) least = left;
        if (left + 1 < count && cursors[left + 1].order < cursors[least].order) least = left + 1;
        if (least == at) return;
        struct cursor moved = cursors[at];
        cursors[at] = cursors[least];
        cursors[least] = moved;
        at = least;
    }
}

static uint64_t oldest_after_first(const struct cursor *heap, size_t count)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 1; i < count && i < 3; i++)
        if (heap[i].order < least) least = heap[i].order;
    return least;
}

uint64_t mp_drain_take(struct mp_drain *drain, struct mp_spool_header *spool, bool process_ended, mp_drain_visit *visit,
                       void *context)
{
    struct cursor heap[MP_SPOOL_RINGS_MAX];
    uint32_t rings = rings_of(spool);
    uint64_t until = process_ended ? UINT64_MAX : horizon(drain, spool, &rings) << 1;
    size_t count = 0;
    uint64_t taken = 0;
    for (uint32_t i = 0; i < rings; i++) {
        uint64_t end = atomic_load_explicit(&spool->rings[i].head, memory_order_acquire);
        if (end <= drain->next[i] || end - drain->next[i] > MP_RING_RECORDS) continue;
        uint64_t order = order_of(mp_ring_record(spool, i, drain->next[i]));
        if (order < until)
            heap[count++] = (struct cursor){.ring = i, .next = drain->next[i], .end = end, .order = order};
    }
    for (size_t i = count / 2; i-- > 0;)
        place(heap, count, i);

    while (count) {
        /* Stay with this ring until another ring has an older record. */
        struct cursor *first = &heap[0];
        uint64_t limit = oldest_after_first(heap, count);
        do {
            const struct mp_record *record = mp_ring_record(spool, first->ring, first->next);
            drain->next[first->ring] = ++first->next; /* counted before the visit, since the visit may write marks */
            taken++;
            if (!visit(context, first->ring, record)) return taken;
            first->order = first->next < first->end ? order_of(mp_ring_record(spool, first->ring, first->next)) : until;
        } while (first->order < until && first->order <= limit);
        if (first->order >= until) *first = heap[--count];
        place(heap, count, 0);
    }
    return taken;
}

bool mp_drain_is_pressing(const struct mp_spool_header *spool)
{
    uint32_t rings = rings_of(spool), retired = 0;
    for (uint32_t i = 0; i < rings; i++) {
        const struct mp_ring *ring = &spool->rings[i];
        if (atomic_load_explicit(&ring->head, memory_order_relaxed) - ring->tail >= MP_RING_RECORDS / 2) return true;
        retired += atomic_load_explicit(&ring->state, memory_order_relaxed) == MP_RING_RETIRED;
    }
    return retired >= RETIRED_MANY || (retired && atomic_load(&spool->ring_waiters));
}

size_t mp_drain_marks(const struct mp_drain *drain, struct mp_ring_mark *marks)
{
    size_t count = 0;
    for (uint32_t i = 0; i < MP_SPOOL_RINGS_MAX; i++)
        if (drain->next[i]) marks[count++] = (struct mp_ring_mark){.ring = i, .sequence = drain->next[i]};
    return count;
}

uint64_t mp_drain_taken(const struct mp_drain *drain)
{
    uint64_t taken = 0;
    for (uint32_t i = 0; i < MP_SPOOL_RINGS_MAX; i++)
        taken += drain->next[i];
    return taken;
}

void mp_drain_release(const struct mp_drain *drain, struct mp_spool_header *spool)
{
    uint32_t rings = rings_of(spool);
    for (uint32_t i = 0; i < rings; i++) {
        struct mp_ring *ring = &spool->rings[i];
        bool retired = atomic_load_explicit(&ring->state, memory_order_acquire) == MP_RING_RETIRED;
        atomic_store_explicit(&ring->tail, drain->next[i], memory_order_release);
        if (retired && atomic_load_explicit(&ring->head, memory_order_acquire) == drain->next[i])
            atomic_store_explicit(&ring->state, MP_RING_FREE, memory_order_release);
    }
}
