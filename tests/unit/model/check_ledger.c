#include "model/state/state.h"

#include <string.h>

#include "unit/suite.h"
#include "unit/whole.h"

#define TRACKS    3
#define ADDRESSES 40
#define ROUNDS    20000

static uint32_t state = 1;

static uint32_t chance(uint32_t below)
{
    state = state * 1664525 + 1013904223;
    return (state >> 16) % below;
}

/* The truth: the block at each address, and sums computed anew each time. */
struct truth {
    struct mp_base_block at[TRACKS][ADDRESSES]; /* bytes 0: nothing */
    uint32_t born[TRACKS][ADDRESSES];           /* the step in which the block at each address was born */
    uint64_t peak[TRACKS], peak_ns[TRACKS], peak_step[TRACKS], next, unknown, missed;
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
            ck_whole_eq(mp_base_block, &blocks[found], block);
            ck_whole_eq(mp_base_block, mp_ledger_at(ledger, track, address_of(i)), block);
        }
    ck_assert_uint_eq(count, wanted);
    for (size_t i = 1; i < count; i++)
        ck_assert_uint_lt(blocks[i - 1].block, blocks[i].block);
    free(blocks);
}

/* The caller gets the whole block that ended. */
static void check_freed(const struct mp_ledger *ledger, const struct truth *truth, const struct mp_base_block *before,
                        const struct mp_base_block *place)
{
    ck_whole_eq(mp_base_block, &ledger->freed, before);
    size_t at = (size_t)(place - truth->at[0]);
    ck_assert_uint_eq(ledger->freed_birth, truth->born[at / ADDRESSES][at % ADDRESSES]);
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
                                     .name = chance(50),
                                     .thread = chance(9),
                                     .track = track,
                                     .type = MP_EVENT_ALLOC,
                                     .kind = (uint8_t)chance(MP_KINDS)};
    struct mp_event reported = event, end = {.time_ns = now,
                                             .address = before.address,
                                             .bytes = before.bytes,
                                             .block = before.block,
                                             .thread = event.thread,
                                             .track = track,
                                             .type = MP_EVENT_FREE};
    struct mp_error error;
    ck_assert(!mp_ledger_alloc(ledger, &event, &missed, &error));
    reported.block = truth->next;
    ck_whole_eq(mp_event, &event, &reported);
    if (before.bytes) {
        truth->missed++;
        ck_whole_eq(mp_event, &missed, &end);
        check_freed(ledger, truth, &before, place);
    } else {
        ck_assert_uint_eq(missed.type, MP_EVENT_NONE);
    }
    *place = (struct mp_base_block){.block = truth->next++,
                                    .address = event.address,
                                    .bytes = event.bytes,
                                    .birth_ns = now,
                                    .stack = event.stack,
                                    .track = track,
                                    .kind = event.kind,
                                    .module = event.name};
    truth->born[track][index] = ledger->step_now;
    if (sum(truth, track) > truth->peak[track]) {
        truth->peak[track] = sum(truth, track);
        truth->peak_ns[track] = now;
        truth->peak_step[track] = ledger->steps;
    }
}

static void free_both(struct mp_ledger *ledger, struct truth *truth, uint64_t now)
{
    uint16_t track = (uint16_t)chance(TRACKS);
    uint32_t index = chance(ADDRESSES);
    struct mp_base_block *place = &truth->at[track][index];
    struct mp_event event = {.time_ns = now,
                             .address = address_of(index),
                             .bytes = 77,
                             .thread = chance(9),
                             .track = track,
                             .type = MP_EVENT_FREE};
    struct mp_event reported = event;
    struct mp_error error;
    bool known;
    ck_assert(!mp_ledger_free(ledger, &event, &known, &error));
    ck_assert_int_eq(known, place->bytes != 0);
    reported.bytes = known ? place->bytes : 77;
    reported.block = known ? place->block : truth->next;
    ck_whole_eq(mp_event, &event, &reported);
    if (known) {
        check_freed(ledger, truth, place, place);
    } else {
        truth->next++;
        truth->unknown++;
    }
    place->bytes = 0;
}

/* A block has both: the program's label, and PyTorch's request. */
static void tell_both(struct mp_ledger *ledger, struct truth *truth)
{
    uint16_t track = (uint16_t)chance(TRACKS);
    uint32_t index = chance(ADDRESSES);
    struct mp_base_block *place = &truth->at[track][index], *live = mp_ledger_at(ledger, track, address_of(index));
    if (!live) return;
    place->role = live->role = (uint8_t)(1 + chance(MP_ROLES - 1));
    place->label = live->label = chance(70);
    place->request = live->request = (struct mp_request){1 + chance(512), chance(5), chance(7)};
}

static void change_both(struct mp_ledger *ledger, struct truth *truth, uint64_t now)
{
    uint32_t what = chance(100);
    if (what < 50)
        alloc_both(ledger, truth, now);
    else if (what < 90)
        free_both(ledger, truth, now);
    else if (what < 98)
        tell_both(ledger, truth);
    else
        ledger->steps += 2, ledger->step_now++;
}

static void check_counters(struct mp_ledger *ledger, const struct truth *truth)
{
    for (uint16_t track = 0; track < TRACKS; track++) {
        const struct mp_ledger_track *counted = mp_ledger_track(ledger, track);
        uint64_t blocks = 0;
        for (uint32_t i = 0; i < ADDRESSES; i++)
            blocks += truth->at[track][i].bytes != 0;
        ck_assert_uint_eq(counted->bytes, sum(truth, track));
        ck_assert_uint_eq(counted->blocks, blocks);
        ck_assert_uint_eq(counted->peak_bytes, truth->peak[track]);
        ck_assert_uint_eq(counted->peak_since_reset_bytes, truth->peak[track]);
        ck_assert_uint_eq(counted->peak_ns, truth->peak_ns[track]);
        ck_assert_uint_eq(counted->peak_step, truth->peak_step[track]);
        ck_assert_uint_eq(counted->reserved_bytes, MP_BYTES_UNKNOWN);
    }
    ck_assert_uint_eq(ledger->unknown_frees, truth->unknown);
    ck_assert_uint_eq(ledger->missed_frees, truth->missed);
}

START_TEST(it_agrees_with_the_definition)
{
    struct mp_ledger ledger = {0};
    static struct truth truth;
    for (uint64_t now = 1; now <= ROUNDS; now++) {
        change_both(&ledger, &truth, now);
        check_counters(&ledger, &truth);
        if (now % 500 == 0) check_live(&ledger, &truth);
    }
    ck_assert_uint_gt(truth.unknown, 0);
    ck_assert_uint_gt(truth.missed, 0);
    mp_ledger_free_all(&ledger);
}

START_TEST(restored_it_goes_on_as_before)
{
    struct mp_ledger ledger = {0};
    struct mp_state copy = {.events = 1};
    static struct truth truth;
    struct mp_error error;
    for (uint64_t now = 1; now <= 3000; now++) {
        change_both(&ledger, &truth, now);
        if (now % 100) continue;
        struct mp_base_block *blocks;
        size_t count;
        ck_assert(!mp_ledger_copy(&ledger, &blocks, &count, &error));
        /* into a ledger that was used before */
        struct mp_event junk = {.address = 0x123, .bytes = 5, .track = 1};
        bool whole = false;
        ck_assert(!mp_state_take(&copy, &junk, NULL, NULL, &error));
        struct mp_chunk chunk = {.kind = MP_CHUNK_BASE, .count = count, .base_total = count};
        chunk.as.base = blocks;
        chunk.next_block = ledger.next_block;
        ck_assert(!mp_state_chunk(&copy, &chunk, &whole, &error));
        ck_assert(whole);
        free(blocks);
        check_live(&copy.ledger, &truth);
        for (uint16_t track = 0; track < TRACKS; track++)
            ck_assert_uint_eq(mp_ledger_track(&copy.ledger, track)->bytes, sum(&truth, track));
        ck_assert_uint_ge(copy.ledger.next_block, ledger.next_block);
    }
    mp_ledger_free_all(&ledger);
    mp_state_close(&copy);
}

/* If nothing was lost, a base repeats known blocks: it ends none and begins none. */
START_TEST(a_base_of_what_is_known_changes_nothing)
{
    enum { LIVE = 30 };
    struct mp_state followed = {.events = 0};
    struct mp_error error;
    mp_state_open(&followed, "", NULL, NULL);
    for (uint64_t now = 1; now <= 2000; now++) {
        uint32_t index = chance(LIVE);
        struct mp_event event = {.time_ns = now,
                                 .address = address_of(index),
                                 .track = (uint16_t)chance(TRACKS),
                                 .bytes = 1 + chance(1000),
                                 .stack = chance(9)};
        event.type = mp_ledger_at(&followed.ledger, event.track, event.address) ? MP_EVENT_FREE : MP_EVENT_ALLOC;
        ck_assert(!mp_state_take(&followed, &event, NULL, NULL, &error));
        followed.ledger.step_now += chance(20) == 0;
        if (now % 37) continue;
        struct mp_ledger_track before[TRACKS];
        uint32_t births[LIVE * TRACKS];
        struct mp_base_block *blocks;
        size_t count;
        ck_assert(!mp_ledger_copy(&followed.ledger, &blocks, &count, &error));
        for (uint16_t track = 0; track < TRACKS; track++)
            before[track] = *mp_ledger_track(&followed.ledger, track);
        for (size_t i = 0; i < count; i++)
            births[i] =
                followed.ledger.births
                    .at[mp_ledger_at(&followed.ledger, blocks[i].track, blocks[i].address) - followed.ledger.blocks.at];
        bool whole = false;
        uint64_t next = followed.ledger.next_block, missed = followed.ledger.missed_frees;
        struct mp_chunk chunk = {.kind = MP_CHUNK_BASE,
                                 .count = count,
                                 .base_total = count,
                                 .as.base = blocks,
                                 .time_ns = now,
                                 .next_block = next};
        ck_assert(!mp_state_chunk(&followed, &chunk, &whole, &error));
        ck_assert(whole);
        for (uint16_t track = 0; track < TRACKS; track++)
            ck_assert_mem_eq(mp_ledger_track(&followed.ledger, track), &before[track], sizeof *before);
        for (size_t i = 0; i < count; i++) {
            const struct mp_base_block *block = mp_ledger_at(&followed.ledger, blocks[i].track, blocks[i].address);
            ck_assert_ptr_nonnull(block);
            ck_whole_eq(mp_base_block, block, &blocks[i]);
            ck_assert_uint_eq(followed.ledger.births.at[block - followed.ledger.blocks.at], births[i]);
        }
        ck_assert_uint_eq(followed.ledger.next_block, next);
        ck_assert_uint_eq(followed.ledger.missed_frees, missed);
        free(blocks);
    }
    mp_state_close(&followed);
}

/* During a pause blocks get no numbers of the file, and the end of a numbered block is reported. */
START_TEST(a_pause_leaves_no_holes)
{
    enum { BLOCKS = 200 };
    for (int round = 0; round < 50; round++) {
        struct mp_ledger ledger = {0};
        struct mp_error error;
        bool known, numbered[BLOCKS] = {0}, reported[BLOCKS] = {0};
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
            ck_assert(!numbered[number] && !reported[number]);
            reported[number] = true;
        }
        free(blocks);
        mp_ledger_free_all(&ledger);
    }
}

/* The allocator's totals, with neighbours in the wrong order now and then. */
static uint64_t wrong_totals(bool miss_one, bool miss_two)
{
    struct mp_ledger ledger = {0};
    struct mp_error error;
    uint64_t total = 1000000; /* bytes from before the recording */
    struct {
        struct mp_event event;
        uint64_t total;
    } reported[4000];
    for (uint32_t i = 0; i < 4000; i++) {
        reported[i].event = (struct mp_event){.address = 0x1000 + i, .bytes = 1 + chance(500), .time_ns = i};
        reported[i].total = total += reported[i].event.bytes;
    }
    for (uint32_t i = 0; i + 1 < 4000; i++)
        if (chance(10) == 0) {
            __typeof__(reported[0]) swapped = reported[i];
            reported[i] = reported[i + 1];
            reported[i + 1] = swapped;
        }
    for (uint32_t i = 0; i < 4000; i++) {
        if ((miss_one && i == 1000) || (miss_two && i == 2000)) continue;
        ck_assert(!mp_ledger_alloc(&ledger, &reported[i].event, NULL, &error));
        mp_ledger_check_total(&ledger, 0, (int64_t)reported[i].event.bytes, reported[i].total);
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
        ck_assert_uint_lt(one, 1000); /* from then on the allocator's total counts, and no more differences are
                                       * reported */
        ck_assert_uint_gt(two, 0);
        ck_assert_uint_lt(two, 1000);
    }
}

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

MP_SUITE("ledger", it_agrees_with_the_definition, restored_it_goes_on_as_before,
         a_base_of_what_is_known_changes_nothing, a_pause_leaves_no_holes, totals_are_checked_but_order_is_forgiven,
         track_numbers_have_an_end)
