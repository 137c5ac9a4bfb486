#include "collect/history/history.h"

#include "unit/suite.h"

#define MIB     UINT64_C(1048576)
#define ADDRESS UINT64_C(0x7f0000000000)
#define TRACK   1

/* A history on a ledger, and a clock. */
struct world {
    struct mp_history history;
    struct mp_ledger ledger;
    uint64_t now;
};

static void begin(struct world *world)
{
    *world = (struct world){.now = 1000000000};
    ck_assert(mp_history_add_track(&world->history, false));
    ck_assert(mp_history_add_track(&world->history, true));
}

static void end(struct world *world)
{
    mp_history_free(&world->history);
    mp_ledger_free_all(&world->ledger);
}

static uint64_t happen(struct world *world, enum mp_event_type type, uint64_t address, uint64_t bytes)
{
    struct mp_error error;
    bool known;
    struct mp_event event = {
        .type = (uint8_t)type, .time_ns = world->now += 10000, .address = address, .bytes = bytes, .track = TRACK};
    if (type == MP_EVENT_ALLOC)
        ck_assert(!mp_ledger_alloc(&world->ledger, &event, NULL, &error));
    else
        ck_assert(!mp_ledger_free(&world->ledger, &event, &known, &error));
    ck_assert(mp_history_event(&world->history, &event));
    return event.block;
}

static void tell(struct world *world, struct mp_record record, uint64_t moment_ns)
{
    struct mp_error error;
    record.type = MP_RECORD_TORCH;
    ck_assert(!mp_history_take(&world->history, &world->ledger, TRACK, &record, moment_ns, &error));
}

static void tell_alloc(struct world *world, uint64_t moment_ns, uint64_t address, uint64_t bytes, uint64_t pool)
{
    struct mp_record record = {
        .kind = MP_READING_ALLOC, .address = address, .bytes = bytes, .total_allocated = 7, .total_reserved = pool};
    tell(world, record, moment_ns);
}

static void tell_segment(struct world *world, uint64_t address, uint64_t bytes)
{
    struct mp_record record = {
        .kind = MP_READING_SEGMENT, .address = address, .bytes = bytes, .total_allocated = 7, .total_reserved = 3};
    tell(world, record, 0);
}

static void tell_part(struct world *world, uint64_t bytes, uint64_t requested, enum mp_torch_state state)
{
    struct mp_record record = {.kind = MP_READING_PART, .address = requested, .bytes = bytes, .stack = state};
    tell(world, record, 0);
}

static void tell_end(struct world *world, uint64_t records)
{
    struct mp_record record = {.kind = MP_READING_END, .bytes = records, .stack = 1};
    tell(world, record, world->now);
}

static const struct mp_request *told_of(const struct world *world, uint64_t block)
{
    const struct mp_request *found = NULL;
    for (size_t i = 0; i < world->history.requests.count; i++)
        if (world->history.requests.at[i].block == block) found = &world->history.requests.at[i].request;
    return found;
}

START_TEST(entries_and_parts_tell_what_was_asked_for)
{
    struct world world;
    begin(&world);
    uint64_t forgotten = happen(&world, MP_EVENT_ALLOC, ADDRESS, 1024);
    uint64_t gone = happen(&world, MP_EVENT_ALLOC, ADDRESS + 1024, 512), gone_ns = world.now;
    happen(&world, MP_EVENT_FREE, ADDRESS + 1024, 0);
    uint64_t again = happen(&world, MP_EVENT_ALLOC, ADDRESS + 1024, 512), again_ns = world.now;
    tell_alloc(&world, gone_ns - 2000, ADDRESS + 1024, 500, 3);
    tell_alloc(&world, again_ns - 2000, ADDRESS + 1024, 100, MP_BYTES_UNKNOWN); /* the pool is that of the segment */
    tell_segment(&world, ADDRESS, 2 * MIB);
    tell_part(&world, 1024, 1000, MP_TORCH_ALLOCATED);
    tell_part(&world, 512, 100, MP_TORCH_ALLOCATED);
    tell_part(&world, 2 * MIB - 1536, 0, MP_TORCH_FREE);
    tell_end(&world, 6);
    ck_assert_uint_eq(told_of(&world, gone)->bytes, 500);
    ck_assert_uint_eq(told_of(&world, again)->bytes, 100);
    ck_assert_uint_eq(told_of(&world, again)->pool, 3);
    ck_assert_uint_eq(told_of(&world, forgotten)->bytes, 1000);
    ck_assert_uint_eq(told_of(&world, forgotten)->stream, 7);
    ck_assert_uint_eq(mp_ledger_at(&world.ledger, TRACK, ADDRESS)->request.bytes, 1000);
    ck_assert_uint_eq(mp_ledger_at(&world.ledger, TRACK, ADDRESS + 1024)->request.bytes, 100);
    ck_assert_uint_eq(world.history.entries, 2);
    ck_assert_uint_eq(world.history.joined, 2);
    end(&world);
}

/* A block that was allocated after the reading is not the block that the reading has at this address. */
START_TEST(parts_are_of_older_blocks_of_their_size)
{
    struct world world;
    begin(&world);
    happen(&world, MP_EVENT_ALLOC, ADDRESS + 4096, 1024);
    tell_segment(&world, ADDRESS, 2 * MIB);
    tell_part(&world, 4096, 4000, MP_TORCH_ALLOCATED);
    tell_part(&world, 512, 500, MP_TORCH_ALLOCATED);
    struct mp_record last = {.kind = MP_READING_END, .bytes = 3, .stack = 1};
    uint64_t moment_ns = world.now;
    happen(&world, MP_EVENT_ALLOC, ADDRESS, 4096);
    tell(&world, last, moment_ns);
    ck_assert_uint_eq(world.history.requests.count, 0);
    end(&world);
}

/* A loop with turns of 5 ms, and entries that are 6 ms late. Each entry is close to the next turn's allocation, and
 * must not be joined to it. */
START_TEST(a_wrong_clock_tells_nothing)
{
    enum { TURNS = 100 };
    struct world world;
    uint64_t blocks[TURNS], times_ns[TURNS];
    begin(&world);
    for (size_t i = 0; i < TURNS; i++) {
        world.now += 4980000;
        blocks[i] = happen(&world, MP_EVENT_ALLOC, ADDRESS, 1024);
        times_ns[i] = world.now;
        happen(&world, MP_EVENT_FREE, ADDRESS, 0);
    }
    for (size_t i = 0; i < TURNS; i++)
        tell_alloc(&world, times_ns[i] + 6000000, ADDRESS, 600 + i, 3);
    tell_end(&world, TURNS);
    for (size_t i = 0; i < TURNS; i++)
        ck_assert_msg(!told_of(&world, blocks[i]) || told_of(&world, blocks[i])->bytes == 600 + i, "block %zu", i);
    ck_assert_uint_eq(world.history.entries, TURNS);
    ck_assert_uint_eq(world.history.joined, 0);
    end(&world);
}

static void check_now(const struct world *world, size_t segments, size_t parts)
{
    struct mp_history_held held = {0};
    struct mp_error error;
    ck_assert(!mp_history_now(&world->history, &world->ledger, &held, &error));
    ck_assert_uint_eq(held.segments.count, segments);
    ck_assert_uint_eq(held.parts.count, parts);
    uint64_t bytes = 0;
    for (size_t i = 0; i < parts; i++)
        bytes += held.parts.at[i].bytes;
    ck_assert_uint_eq(bytes, segments * 2 * MIB);
    mp_history_held_free(&held);
}

START_TEST(segments_hold_what_lives_now)
{
    struct world world;
    begin(&world);
    check_now(&world, 0, 0);
    happen(&world, MP_EVENT_ALLOC, ADDRESS, 1024);
    happen(&world, MP_EVENT_ALLOC, ADDRESS + 4 * MIB + 4096, 512);
    tell_segment(&world, ADDRESS + 4 * MIB, 2 * MIB);
    tell_part(&world, 1024, 1000, MP_TORCH_PENDING);
    tell_part(&world, 2 * MIB - 1024, 0, MP_TORCH_FREE);
    tell_segment(&world, ADDRESS, 2 * MIB);
    tell_part(&world, 1024, 1000, MP_TORCH_ALLOCATED);
    tell_part(&world, 2 * MIB - 1024, 0, MP_TORCH_FREE);
    tell_end(&world, 6);
    struct mp_ledger_track *track = mp_ledger_track(&world.ledger, TRACK);
    track->reserved_bytes = 4 * MIB;
    check_now(&world, 2, 2 + 4); /* the pending part, room, the other block, room */
    happen(&world, MP_EVENT_ALLOC, ADDRESS + MIB, 4096);
    check_now(&world, 2, 4 + 3); /* the present pending parts are unknown */
    track->reserved_bytes = 6 * MIB;
    check_now(&world, 0, 0); /* the allocator has reserved more than the reading shows */
    track->reserved_bytes = 4 * MIB;
    happen(&world, MP_EVENT_ALLOC, ADDRESS + 2 * MIB, 4096);
    check_now(&world, 0, 0); /* a block in no segment */
    end(&world);
}

START_TEST(a_reading_that_lacks_records_has_no_segments)
{
    struct world world;
    begin(&world);
    uint64_t block = happen(&world, MP_EVENT_ALLOC, ADDRESS, 1024);
    tell_segment(&world, ADDRESS, 2 * MIB);
    tell_part(&world, 1024, 1000, MP_TORCH_ALLOCATED);
    tell_end(&world, 3);
    mp_ledger_track(&world.ledger, TRACK)->reserved_bytes = 2 * MIB;
    check_now(&world, 0, 0);
    ck_assert_uint_eq(told_of(&world, block)->bytes, 1000); /* the facts that arrived are right nevertheless */
    end(&world);
}

/* Records of a damaged spool. */
START_TEST(nonsense_does_no_harm)
{
    struct world world;
    uint32_t seed = 1;
    begin(&world);
    for (int i = 0; i < 20000; i++) {
        uint64_t numbers[6];
        for (int k = 0; k < 6; k++) {
            seed = seed * 1664525 + 1013904223;
            numbers[k] = seed >> 30 ? (seed >> 8) % 8 * 512 + ADDRESS : UINT64_MAX - (seed >> 8) % 3;
        }
        struct mp_record record = {.kind = (uint8_t)(numbers[0] % 7),
                                   .address = numbers[1],
                                   .bytes = numbers[2],
                                   .total_allocated = numbers[3],
                                   .total_reserved = numbers[4],
                                   .stack = (uint32_t)numbers[0] % 9};
        struct mp_error error;
        if (i % 5 == 0 && !mp_ledger_at(&world.ledger, TRACK, numbers[1]))
            happen(&world, MP_EVENT_ALLOC, numbers[1], 512);
        ck_assert(!mp_history_take(&world.history, &world.ledger, (uint16_t)(numbers[5] % 4), &record,
                                   numbers[5] % 3 ? world.now : numbers[5], &error));
        struct mp_history_held held = {0};
        mp_ledger_track(&world.ledger, TRACK)->reserved_bytes = numbers[2];
        if (i % 100 == 0) ck_assert(!mp_history_now(&world.history, &world.ledger, &held, &error));
        mp_history_held_free(&held);
    }
    end(&world);
}

START_TEST(memory_has_a_bound)
{
    struct world world;
    begin(&world);
    for (uint64_t i = 0; i < 5 * MP_HISTORY_ALLOCS; i++) {
        happen(&world, MP_EVENT_ALLOC, ADDRESS, 512);
        happen(&world, MP_EVENT_FREE, ADDRESS, 0);
    }
    for (uint64_t i = 0; i < 2 * MP_HISTORY_ENTRIES; i++)
        tell_alloc(&world, world.now, ADDRESS, 512, 0);
    ck_assert_uint_lt(mp_history_bytes(&world.history), 40 * MIB);
    end(&world);
}

MP_SUITE("history", entries_and_parts_tell_what_was_asked_for, parts_are_of_older_blocks_of_their_size,
         a_wrong_clock_tells_nothing, segments_hold_what_lives_now, a_reading_that_lacks_records_has_no_segments,
         nonsense_does_no_harm, memory_has_a_bound)
