#include "collect/ledger.h"

#include <string.h>

#include "unit/suite.h"

#define TRACKS    3
#define ADDRESSES 40
#define ROUNDS    20000

static uint32_t state = 1;

static uint32_t chance(uint32_t below)
{
    state = state * 1664525 + 1013904223;
    return (state >> 16) % below;
}

/* The definition: what lies where, and sums made anew each time. */
struct truth {
    struct mp_base_block at[TRACKS][ADDRESSES]; /* bytes 0: nothing */
    uint64_t peak[TRACKS], peak_ns[TRACKS], next, unknown, missed;
};

static uint64_t address_of(uint32_t index)
{
    static const uint64_t odd[] = {UINT64_C(1) << 56, UINT64_C(2) << 56, UINT64_MAX, 1};
    return index < 4 ? odd[index] : UINT64_C(0x7f0000000000) + index * 512;
}

static uint64_t sum(const struct truth *truth, uint16_t track)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < ADDRESSES; i++)
        bytes += truth->at[track][i].bytes;
    return bytes;
}

static void check_live(const struct mp_ledger *ledger, const struct truth *truth)
{
    struct mp_base_block *blocks;
    struct mp_error error;
    size_t count, wanted = 0;
    ck_assert(!mp_ledger_copy(ledger, &blocks, &count, &error));
    for (uint16_t track = 0; track < TRACKS; track++)
        for (uint32_t i = 0; i < ADDRESSES; i++) {
            const struct mp_base_block *block = &truth->at[track][i];
            ck_assert_int_eq(mp_ledger_at(ledger, track, address_of(i)) != NULL, block->bytes != 0);
            if (!block->bytes) continue;
            wanted++;
            size_t found = 0;
            while (found < count && blocks[found].block != block->block)
                found++;
            ck_assert_uint_lt(found, count);
            ck_assert_uint_eq(blocks[found].address, block->address);
            ck_assert_uint_eq(blocks[found].bytes, block->bytes);
            ck_assert_uint_eq(blocks[found].birth_ns, block->birth_ns);
            ck_assert_uint_eq(blocks[found].stack, block->stack);
            ck_assert_uint_eq(blocks[found].track, track);
        }
    ck_assert_uint_eq(count, wanted);
    for (size_t i = 1; i < count; i++)
        ck_assert_uint_lt(blocks[i - 1].block, blocks[i].block);
    free(blocks);
}

static void alloc_both(struct mp_ledger *ledger, struct truth *truth, uint64_t now)
{
    uint16_t track = (uint16_t)chance(TRACKS);
    uint32_t index = chance(ADDRESSES);
    struct mp_base_block *place = &truth->at[track][index], before = *place;
    struct mp_event missed, event = {.time_ns = now,
                                     .address = address_of(index),
                                     .bytes = 1 + chance(1000),
                                     .stack = chance(100),
                                     .thread = 3,
                                     .track = track,
                                     .type = MP_EVENT_ALLOC};
    struct mp_error error;
    ck_assert(!mp_ledger_alloc(ledger, &event, &missed, &error));
    ck_assert_uint_eq(event.block, truth->next);
    ck_assert_uint_eq(missed.type, before.bytes ? MP_EVENT_FREE : MP_EVENT_NONE);
    if (before.bytes) {
        truth->missed++;
        ck_assert_uint_eq(missed.block, before.block);
        ck_assert_uint_eq(missed.bytes, before.bytes);
        ck_assert_uint_eq(missed.address, before.address);
        ck_assert_uint_eq(missed.time_ns, now);
        ck_assert_uint_eq(missed.track, track);
    }
    *place = (struct mp_base_block){.block = truth->next++,
                                    .address = event.address,
                                    .bytes = event.bytes,
                                    .birth_ns = now,
                                    .stack = event.stack,
                                    .track = track};
    if (sum(truth, track) > truth->peak[track]) {
        truth->peak[track] = sum(truth, track);
        truth->peak_ns[track] = now;
    }
}

static void free_both(struct mp_ledger *ledger, struct truth *truth, uint64_t now)
{
    uint16_t track = (uint16_t)chance(TRACKS);
    uint32_t index = chance(ADDRESSES);
    struct mp_base_block *place = &truth->at[track][index];
    struct mp_event event = {
        .time_ns = now, .address = address_of(index), .bytes = 77, .track = track, .type = MP_EVENT_FREE};
    struct mp_error error;
    bool known;
    ck_assert(!mp_ledger_free(ledger, &event, &known, &error));
    ck_assert_int_eq(known, place->bytes != 0);
    ck_assert_uint_eq(event.bytes, known ? place->bytes : 77);
    ck_assert_uint_eq(event.block, known ? place->block : truth->next);
    if (!known) {
        truth->next++;
        truth->unknown++;
    }
    place->bytes = 0;
}

static void check_counters(struct mp_ledger *ledger, const struct truth *truth)
{
    for (uint16_t track = 0; track < TRACKS; track++) {
        const struct mp_ledger_track *counted = mp_ledger_track(ledger, track);
        ck_assert_uint_eq(counted->bytes, sum(truth, track));
        ck_assert_uint_eq(counted->peak_bytes, truth->peak[track]);
        ck_assert_uint_eq(counted->peak_ns, truth->peak_ns[track]);
    }
    ck_assert_uint_eq(ledger->unknown_frees, truth->unknown);
    ck_assert_uint_eq(ledger->missed_frees, truth->missed);
}

START_TEST(it_agrees_with_the_definition)
{
    struct mp_ledger ledger = {0};
    static struct truth truth;
    for (uint64_t now = 1; now <= ROUNDS; now++) {
        (chance(100) < 55 ? alloc_both : free_both)(&ledger, &truth, now);
        check_counters(&ledger, &truth);
        if (now % 500 == 0) check_live(&ledger, &truth);
    }
    ck_assert_uint_gt(truth.unknown, 0);
    ck_assert_uint_gt(truth.missed, 0);
    mp_ledger_free_all(&ledger);
}
END_TEST

START_TEST(restored_it_goes_on_as_before)
{
    struct mp_ledger ledger = {0}, copy = {0};
    static struct truth truth;
    struct mp_error error;
    for (uint64_t now = 1; now <= 3000; now++) {
        (chance(100) < 55 ? alloc_both : free_both)(&ledger, &truth, now);
        if (now % 100) continue;
        struct mp_base_block *blocks;
        size_t count;
        ck_assert(!mp_ledger_copy(&ledger, &blocks, &count, &error));
        /* Into one that has been used for something else. */
        struct mp_event junk = {.address = 0x123, .bytes = 5, .track = 1};
        ck_assert(!mp_ledger_alloc(&copy, &junk, NULL, &error));
        copy.next_block = 0;
        ck_assert(!mp_ledger_restore(&copy, blocks, count, &error));
        free(blocks);
        check_live(&copy, &truth);
        for (uint16_t track = 0; track < TRACKS; track++)
            ck_assert_uint_eq(mp_ledger_track(&copy, track)->bytes, sum(&truth, track));
        uint64_t highest = 0;
        for (uint16_t track = 0; track < TRACKS; track++)
            for (uint32_t i = 0; i < ADDRESSES; i++)
                if (truth.at[track][i].bytes && truth.at[track][i].block > highest) highest = truth.at[track][i].block;
        ck_assert_uint_eq(copy.next_block, highest + 1);
    }
    mp_ledger_free_all(&ledger);
    mp_ledger_free_all(&copy);
}
END_TEST

/* While nothing is kept no number of the file is used up, and nothing numbered ends unseen. */
START_TEST(a_pause_leaves_no_holes)
{
    enum { BLOCKS = 200 };
    for (int round = 0; round < 50; round++) {
        struct mp_ledger ledger = {0};
        struct mp_error error;
        bool known, numbered[BLOCKS] = {0}, told[BLOCKS] = {0};
        uint64_t numbers = 0;
        for (uint32_t i = 0; i < 3 * BLOCKS; i++) {
            if (i == BLOCKS) ledger.paused = true;
            struct mp_event event = {.address = 0x1000 + chance(60), .bytes = 8, .time_ns = i};
            if (chance(2))
                ck_assert(!mp_ledger_alloc(&ledger, &event, NULL, &error));
            else
                ck_assert(!mp_ledger_free(&ledger, &event, &known, &error));
            if (i < BLOCKS && event.block == numbers) numbers++;
            ck_assert_uint_eq(ledger.next_block, numbers);
        }
        struct mp_base_block *blocks;
        size_t count;
        ck_assert(!mp_ledger_resume(&ledger, &error));
        ck_assert(!mp_ledger_copy(&ledger, &blocks, &count, &error));
        uint64_t fresh = numbers, birth = 0;
        for (size_t i = 0; i < count; i++) {
            if (blocks[i].block < numbers) {
                numbered[blocks[i].block] = true;
                continue;
            }
            ck_assert_uint_eq(blocks[i].block, fresh++); /* in the order of births */
            ck_assert_uint_ge(blocks[i].birth_ns, birth);
            birth = blocks[i].birth_ns;
        }
        ck_assert_uint_eq(ledger.next_block, fresh);
        for (size_t i = 0; i < ledger.freed_unseen.count; i++) {
            uint64_t number = ledger.freed_unseen.at[i].block;
            ck_assert_uint_lt(number, numbers);
            ck_assert(!numbered[number] && !told[number]);
            told[number] = true;
        }
        free(blocks);
        mp_ledger_free_all(&ledger);
    }
}
END_TEST

/* The allocator's totals, with neighbours told in the wrong order now and then. */
static uint64_t wrong_totals(bool miss_one, bool miss_two)
{
    struct mp_ledger ledger = {0};
    struct mp_error error;
    uint64_t total = 1000000; /* what was there before the recording */
    struct {
        struct mp_event event;
        uint64_t total;
    } told[4000];
    for (uint32_t i = 0; i < 4000; i++) {
        told[i].event = (struct mp_event){.address = 0x1000 + i, .bytes = 1 + chance(500), .time_ns = i};
        told[i].total = total += told[i].event.bytes;
    }
    for (uint32_t i = 0; i + 1 < 4000; i++)
        if (chance(10) == 0) {
            __typeof__(told[0]) swapped = told[i];
            told[i] = told[i + 1];
            told[i + 1] = swapped;
        }
    for (uint32_t i = 0; i < 4000; i++) {
        if ((miss_one && i == 1000) || (miss_two && i == 2000)) continue;
        ck_assert(!mp_ledger_alloc(&ledger, &told[i].event, NULL, &error));
        mp_ledger_check_total(&ledger, 0, (int64_t)told[i].event.bytes, told[i].total);
    }
    ck_assert_uint_eq(ledger.totals_checked, 4000u - miss_one - miss_two);
    uint64_t wrong = mp_ledger_totals_wrong(&ledger);
    mp_ledger_free_all(&ledger);
    return wrong;
}

START_TEST(totals_are_checked_but_order_is_forgiven)
{
    for (int i = 0; i < 20; i++) {
        ck_assert_uint_eq(wrong_totals(false, false), 0);
        uint64_t one = wrong_totals(true, false), two = wrong_totals(true, true);
        ck_assert_uint_gt(one, 0);
        ck_assert_uint_lt(one, 1000); /* and the total is taken over then, not complained about for ever */
        ck_assert_uint_gt(two, 0);
        ck_assert_uint_lt(two, 1000);
    }
}
END_TEST

START_TEST(track_numbers_have_an_end)
{
    struct mp_ledger ledger = {0};
    struct mp_error error;
    struct mp_event event = {.address = 1, .bytes = 1, .track = MP_LEDGER_TRACKS};
    ck_assert_ptr_null(mp_ledger_track(&ledger, MP_LEDGER_TRACKS));
    ck_assert(mp_ledger_alloc(&ledger, &event, NULL, &error));
    ck_assert_ptr_nonnull(mp_ledger_track(&ledger, MP_LEDGER_TRACKS - 1));
    mp_ledger_free_all(&ledger);
}
END_TEST

MP_SUITE("ledger", it_agrees_with_the_definition, restored_it_goes_on_as_before, a_pause_leaves_no_holes,
         totals_are_checked_but_order_is_forgiven, track_numbers_have_an_end)
