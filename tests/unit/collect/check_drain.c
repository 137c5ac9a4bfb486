/* Random records over many rings against a plain sort: each exactly once, in order of time. */
#include "collect/recording/drain.h"

#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/vec.h"
#include "unit/suite.h"

#define RINGS 7

static uint32_t state = 1;

static uint32_t chance(uint32_t below)
{
    state = state * 1664525 + 1013904223;
    return (state >> 16) % below;
}

/* The clocks are the test's own: nothing depends on how long the machine takes. */
static uint64_t now_ns;

uint64_t mp_clock_monotonic_ns(void)
{
    return now_ns;
}

uint64_t mp_clock_realtime_ns(void)
{
    return now_ns;
}

static struct mp_spool_header *new_spool(void)
{
    struct mp_spool_table tables[MP_TABLES] = {{0}};
    void *at =
        mmap(NULL, mp_spool_layout(tables), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    struct mp_spool_header *spool = at;
    memcpy(spool->tables, tables, sizeof tables);
    spool->rings_committed = MP_SPOOL_RINGS_MAX;
    return spool;
}

static void delete_spool(struct mp_spool_header *spool)
{
    now_ns = 0;
    struct mp_spool_table tables[MP_TABLES];
    munmap(spool, mp_spool_layout(tables));
}

/* The records put in and taken out. `address` numbers the records in the order in which they were made. */
struct seen {
    uint64_t made, taken, last_order, stop_after;
    MP_VEC(uint64_t) times;   /* by number */
    MP_VEC(uint8_t) is_free;  /* by number */
    MP_VEC(uint8_t) is_taken; /* by number */
};

static uint64_t order_of(const struct seen *seen, uint64_t number)
{
    return seen->times.at[number] * 2 + !seen->is_free.at[number];
}

static void put(struct mp_spool_header *spool, struct seen *seen, uint32_t ring, uint64_t time_ns, bool is_free)
{
    uint64_t head = spool->rings[ring].head;
    ck_assert_uint_lt(head - spool->rings[ring].tail, MP_RING_RECORDS);
    *mp_ring_record(spool, ring, head) = (struct mp_record){
        .time_ns = time_ns, .address = seen->made++, .type = is_free ? MP_EVENT_FREE : MP_EVENT_ALLOC};
    spool->rings[ring].head = head + 1;
    ck_assert(mp_vec_push(&seen->times, time_ns) && mp_vec_push(&seen->is_free, is_free) &&
              mp_vec_push(&seen->is_taken, 0));
}

static bool visit(void *context, uint32_t ring, const struct mp_record *record)
{
    struct seen *seen = context;
    ck_assert_uint_lt(ring, MP_SPOOL_RINGS_MAX);
    ck_assert_uint_lt(record->address, seen->made);
    ck_assert(!seen->is_taken.at[record->address]);
    seen->is_taken.at[record->address] = 1;
    uint64_t order = order_of(seen, record->address);
    ck_assert_uint_ge(order, seen->last_order);
    seen->last_order = order;
    seen->taken++;
    return seen->taken != seen->stop_after;
}

static void free_seen(struct seen *seen)
{
    mp_vec_free(&seen->times);
    mp_vec_free(&seen->is_free);
    mp_vec_free(&seen->is_taken);
}

static void check_marks(const struct mp_drain *drain, const struct mp_spool_header *spool)
{
    struct mp_ring_mark marks[MP_SPOOL_RINGS_MAX];
    size_t count = mp_drain_marks(drain, marks);
    uint64_t reported = 0, taken = 0;
    for (size_t i = 0; i < count; i++) {
        ck_assert_uint_eq(marks[i].sequence, drain->next[marks[i].ring]);
        ck_assert_uint_le(marks[i].sequence, spool->rings[marks[i].ring].head);
        reported += marks[i].sequence;
    }
    for (uint32_t i = 0; i < MP_SPOOL_RINGS_MAX; i++)
        taken += drain->next[i];
    ck_assert_uint_eq(reported, taken);
}

/* Everything before the horizon is taken, nothing after it. The horizon is the oldest open hook. */
START_TEST(random_rounds)
{
    for (int run = 0; run < 8; run++) {
        struct mp_spool_header *spool = new_spool();
        struct mp_drain drain = {0};
        struct seen seen = {0};
        uint64_t clock = 5000 * MP_NS_PER_SECOND, base = clock;
        now_ns = clock + MP_NS_PER_SECOND / 2; /* the records are of the last half second */
        spool->rings_used = RINGS;
        uint64_t last[RINGS] = {0}, furthest = 0;
        for (int round = 0; round < 60; round++) {
            clock++;
            uint32_t many = chance(round % 10 == 9 ? 30000 : 400);
            for (uint32_t i = 0; i < many; i++) {
                uint32_t ring = chance(RINGS);
                if (spool->rings[ring].head - spool->rings[ring].tail >= MP_RING_RECORDS) continue;
                /* Threads' clocks interleave; equal times happen between threads, a thread's own always advances. */
                clock += chance(3);
                uint64_t at = clock + chance(50);
                if (at <= last[ring]) at = last[ring] + 1;
                put(spool, &seen, ring, last[ring] = at, chance(2));
            }
            /* On some rings a hook is running; the ring's later records are not older than its beginning. Other rings
             * are quiet; their later records are not older than now. */
            uint64_t horizon = UINT64_MAX;
            for (uint32_t ring = 0; ring < RINGS; ring++) {
                uint64_t open = chance(3) ? last[ring] : 0;
                if (open && open < base) open = base;
                spool->rings[ring].open_since = open;
                if (open && open < horizon) horizon = open;
            }
            clock = clock + 60 > last[0] ? clock + 60 : last[0];
            for (uint32_t ring = 0; ring < RINGS; ring++)
                if (clock < last[ring]) clock = last[ring];
            mp_drain_take(&drain, spool, false, visit, &seen);
            if (horizon == UINT64_MAX) horizon = clock + 1;
            if (horizon > furthest) furthest = horizon;
            uint64_t wrong = 0; /* counted: an assertion for each would take minutes */
            for (uint64_t number = 0; number < seen.made; number++)
                wrong += seen.is_taken.at[number] != (seen.times.at[number] < furthest);
            ck_assert_uint_eq(wrong, 0);
            check_marks(&drain, spool);
            if (chance(4)) {
                mp_drain_release(&drain, spool);
                for (uint32_t ring = 0; ring < RINGS; ring++)
                    ck_assert_uint_eq(spool->rings[ring].tail, drain.next[ring]);
                /* released space may be overwritten at once */
                for (uint32_t ring = 0; ring < RINGS; ring++)
                    for (uint64_t at = spool->rings[ring].head; at < spool->rings[ring].tail + MP_RING_RECORDS; at++)
                        memset(mp_ring_record(spool, ring, at), 0x5a, sizeof(struct mp_record));
            }
        }
        mp_drain_take(&drain, spool, true, visit, &seen);
        ck_assert_uint_eq(seen.taken, seen.made);
        ck_assert(!mp_drain_take(&drain, spool, true, visit, &seen));
        free_seen(&seen);
        delete_spool(spool);
    }
}

START_TEST(a_stop_takes_nothing_twice)
{
    struct mp_spool_header *spool = new_spool();
    struct mp_drain drain = {0};
    struct seen seen = {0};
    spool->rings_used = RINGS;
    for (uint64_t i = 0; i < 5000; i++)
        put(spool, &seen, chance(RINGS), 1000 + i, chance(2));
    while (seen.taken < 5000) {
        seen.stop_after = seen.taken + 1 + chance(100);
        uint64_t before = seen.taken, taken = mp_drain_take(&drain, spool, true, visit, &seen);
        ck_assert_uint_eq(taken, seen.taken - before);
        ck_assert_uint_gt(taken, 0);
        ck_assert_uint_le(seen.taken, seen.stop_after);
        check_marks(&drain, spool);
        if (chance(2)) mp_drain_release(&drain, spool);
    }
    ck_assert_uint_eq(seen.taken, 5000);
    free_seen(&seen);
    delete_spool(spool);
}

START_TEST(rings_of_ended_threads_come_back_when_empty)
{
    struct mp_spool_header *spool = new_spool();
    struct mp_drain drain = {0};
    struct seen seen = {0};
    spool->rings_used = 2;
    spool->rings[0].state = spool->rings[1].state = MP_RING_OWNED;
    put(spool, &seen, 0, 10, false);
    put(spool, &seen, 1, 20, false);
    spool->rings[0].state = MP_RING_RETIRED;
    mp_drain_release(&drain, spool);
    ck_assert_uint_eq(spool->rings[0].state, MP_RING_RETIRED); /* its record was not taken yet */
    mp_drain_take(&drain, spool, true, visit, &seen);
    ck_assert_uint_eq(spool->rings[0].state, MP_RING_RETIRED); /* not safe yet */
    mp_drain_release(&drain, spool);
    ck_assert_uint_eq(spool->rings[0].state, MP_RING_FREE);
    ck_assert_uint_eq(spool->rings[1].state, MP_RING_OWNED);
    /* A later thread goes on with its numbers. */
    spool->rings[0].state = MP_RING_OWNED;
    put(spool, &seen, 0, 30, false);
    mp_drain_take(&drain, spool, true, visit, &seen);
    ck_assert_uint_eq(seen.taken, 3);
    ck_assert_uint_eq(drain.next[0], 2);
    free_seen(&seen);
    delete_spool(spool);
}

START_TEST(it_presses_when_room_or_rings_run_out)
{
    struct mp_spool_header *spool = new_spool();
    spool->rings_used = 40;
    ck_assert(!mp_drain_is_pressing(spool));
    spool->rings[39].tail = 1000000;
    spool->rings[39].head = 1000000 + MP_RING_RECORDS / 2 - 1;
    ck_assert(!mp_drain_is_pressing(spool));
    spool->rings[39].head++;
    ck_assert(mp_drain_is_pressing(spool));
    spool->rings[39].head = spool->rings[39].tail;
    spool->ring_waiters = 3;
    ck_assert(!mp_drain_is_pressing(spool));
    spool->rings[5].state = MP_RING_RETIRED;
    ck_assert(mp_drain_is_pressing(spool));
    spool->ring_waiters = 0;
    ck_assert(!mp_drain_is_pressing(spool));
    for (int i = 0; i < 30; i++)
        spool->rings[i].state = MP_RING_RETIRED;
    ck_assert(mp_drain_is_pressing(spool));
    delete_spool(spool);
}

static uint64_t take(struct mp_drain *drain, struct mp_spool_header *spool, struct seen *seen)
{
    mp_drain_take(drain, spool, false, visit, seen);
    return seen->taken;
}

/* A hook left by a longjmp out of a signal handler holds back the other rings only for a second. The same is true of a
 * hook in a thread whose last record is hours old. */
START_TEST(hooks_without_end)
{
    struct mp_spool_header *spool = new_spool();
    struct mp_drain drain = {0};
    struct seen seen = {0};
    spool->rings_used = 2;
    now_ns = 9000 * MP_NS_PER_SECOND;
    put(spool, &seen, 0, now_ns - 1000000, false);
    spool->rings[1].open_since = now_ns - 5000 * MP_NS_PER_SECOND;
    ck_assert_uint_eq(take(&drain, spool, &seen), 0);
    now_ns += MP_NS_PER_SECOND - 1; /* it was watched for nearly that long */
    ck_assert_uint_eq(take(&drain, spool, &seen), 0);
    now_ns++;
    ck_assert_uint_eq(take(&drain, spool, &seen), 1);
    /* the hook goes on, so the second of watching begins again */
    put(spool, &seen, 1, now_ns - 5000 * MP_NS_PER_SECOND, false);
    put(spool, &seen, 0, now_ns - 500000, false);
    ck_assert_uint_eq(take(&drain, spool, &seen), 1);
    now_ns += MP_NS_PER_SECOND - 1;
    ck_assert_uint_eq(take(&drain, spool, &seen), 1);
    spool->rings[1].open_since = 0;
    seen.last_order = 0; /* the time of its record is far in the past */
    ck_assert_uint_eq(take(&drain, spool, &seen), 3);
    /* another hook, with the same time */
    spool->rings[1].open_since = now_ns - 5000 * MP_NS_PER_SECOND;
    put(spool, &seen, 0, now_ns - 400000, false);
    ck_assert_uint_eq(take(&drain, spool, &seen), 3);
    now_ns += MP_NS_PER_SECOND - 1;
    ck_assert_uint_eq(take(&drain, spool, &seen), 3);
    now_ns++;
    ck_assert_uint_eq(take(&drain, spool, &seen), 4);
    free_seen(&seen);
    delete_spool(spool);
}

/* Records of the last microsecond are not taken: a processor may read its clock a little late. */
START_TEST(the_newest_microsecond_waits)
{
    struct mp_spool_header *spool = new_spool();
    struct mp_drain drain = {0};
    struct seen seen = {0};
    spool->rings_used = 1;
    now_ns = 7 * MP_NS_PER_SECOND;
    put(spool, &seen, 0, now_ns - 1000, false);
    ck_assert_uint_eq(take(&drain, spool, &seen), 0);
    now_ns++;
    ck_assert_uint_eq(take(&drain, spool, &seen), 1);
    spool->rings[0].open_since = now_ns - 10; /* a hook that began after what is taken anyway */
    put(spool, &seen, 0, now_ns - 1001, false);
    ck_assert_uint_eq(take(&drain, spool, &seen), 2);
    free_seen(&seen);
    delete_spool(spool);
}

START_TEST(a_damaged_head_takes_nothing)
{
    struct mp_spool_header *spool = new_spool();
    struct mp_drain drain = {.next = {100, 100}};
    struct seen seen = {0};
    spool->rings_used = UINT32_MAX;
    spool->rings[0].head = 99;
    spool->rings[1].head = 100 + MP_RING_RECORDS + 1;
    ck_assert_uint_eq(mp_drain_take(&drain, spool, true, visit, &seen), 0);
    delete_spool(spool);
}

MP_SUITE("drain", random_rounds, a_stop_takes_nothing_twice, rings_of_ended_threads_come_back_when_empty,
         it_presses_when_room_or_rings_run_out, hooks_without_end, the_newest_microsecond_waits,
         a_damaged_head_takes_nothing)
