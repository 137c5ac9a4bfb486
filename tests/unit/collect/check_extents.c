#include "collect/symbols/extents.h"

#include "unit/suite.h"

#define SPACE  64
#define RANGES 12

/* The definition, word for word: of the extents that cover the address, the one that begins last. Ties go to the
 * shorter, then to the higher rank, then to the first added. */
static uint64_t by_definition(const struct mp_extent *ranges, size_t count, uint64_t address)
{
    const struct mp_extent *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct mp_extent *range = &ranges[i];
        if (address < range->start || address >= range->end) continue;
        if (!best || range->start > best->start ||
            (range->start == best->start &&
             (range->end < best->end || (range->end == best->end && range->rank > best->rank))))
            best = range;
    }
    return best ? best->value : 0;
}

START_TEST(every_address_finds_its_range)
{
    uint32_t random = 1;
    for (int round = 0; round < 4000; round++) {
        struct mp_extents extents = {0};
        struct mp_extent ranges[RANGES];
        size_t count = (size_t)round % (RANGES + 1);
        for (size_t i = 0; i < count; i++) {
            uint32_t numbers[3];
            for (int n = 0; n < 3; n++)
                numbers[n] = (random = random * 1664525 + 1013904223) >> 16;
            uint64_t start = numbers[0] % SPACE, end = start + numbers[1] % 20;
            ranges[i] = (struct mp_extent){start, end, i + 1, (int)(numbers[2] % 3)};
            ck_assert(mp_extents_add(&extents, start, end, ranges[i].value, ranges[i].rank));
        }
        ck_assert(mp_extents_seal(&extents));
        for (uint64_t address = 0; address < SPACE + 24; address++)
            ck_assert_uint_eq(mp_extents_find(&extents, address), by_definition(ranges, count, address));
        mp_extents_free(&extents);
    }
}

START_TEST(the_ends_of_the_address_space_are_addresses)
{
    struct mp_extents extents = {0};
    ck_assert_uint_eq(mp_extents_find(&extents, 0), 0);
    ck_assert(mp_extents_add(&extents, 0, 1, 7, 0));
    ck_assert(mp_extents_add(&extents, UINT64_MAX - 1, UINT64_MAX, 8, 0));
    ck_assert(mp_extents_add(&extents, 5, 5, 9, 0));
    ck_assert(mp_extents_seal(&extents));
    ck_assert_uint_eq(mp_extents_find(&extents, 0), 7);
    ck_assert_uint_eq(mp_extents_find(&extents, 1), 0);
    ck_assert_uint_eq(mp_extents_find(&extents, 5), 0);
    ck_assert_uint_eq(mp_extents_find(&extents, UINT64_MAX - 1), 8);
    ck_assert_uint_eq(mp_extents_find(&extents, UINT64_MAX), 0);
    mp_extents_free(&extents);
}

MP_SUITE("extents", every_address_finds_its_range, the_ends_of_the_address_space_are_addresses)
