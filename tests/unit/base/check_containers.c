#include "base/buffer.h"
#include "base/intern.h"
#include "base/map.h"
#include "base/varint.h"
#include "base/vec.h"
#include "unit/suite.h"

#include <stdio.h>
#include <string.h>

/* xorshift64: a fixed sequence, so that a failure repeats. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

START_TEST(map_agrees_with_a_plain_array)
{
    enum { KEYS = 512, ROUNDS = 200000 };
    static uint64_t truth[KEYS];
    struct mp_map map = {0};
    uint64_t state = 7;
    memset(truth, 0, sizeof truth);
    size_t live = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t key = next_random(&state) % KEYS;
        uint64_t value = 0;
        if (next_random(&state) & 1) {
            bool added;
            uint64_t *at = mp_map_insert(&map, (key + 1) << 12, &added);
            ck_assert_ptr_nonnull(at);
            ck_assert_int_eq(added, truth[key] == 0);
            live += added;
            *at = truth[key] = (uint64_t)i + 1;
        } else {
            ck_assert_int_eq(mp_map_remove(&map, (key + 1) << 12, &value), truth[key] != 0);
            if (truth[key]) {
                ck_assert_uint_eq(value, truth[key]);
                live--;
            }
            truth[key] = 0;
        }
        ck_assert_uint_eq(map.count, live);
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        uint64_t *at = mp_map_find(&map, (key + 1) << 12);
        ck_assert_int_eq(at != NULL, truth[key] != 0);
        if (at) ck_assert_uint_eq(*at, truth[key]);
    }
    mp_map_free(&map);
}

START_TEST(intern_gives_one_id_per_text_in_order)
{
    struct mp_intern intern = {0};
    char text[32];
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 5000; i++) {
            snprintf(text, sizeof text, "name %u", i);
            ck_assert_uint_eq(mp_intern_text(&intern, text), i + 1);
        }
    }
    ck_assert_uint_eq(mp_intern_text(&intern, ""), 0);
    size_t length;
    uint32_t id = mp_intern_bytes(&intern, "a\0b", 3);
    ck_assert_mem_eq(mp_intern_get(&intern, id, &length), "a\0b", 4);
    ck_assert_uint_eq(length, 3);
    ck_assert_uint_ne(mp_intern_text(&intern, "a"), id);
    ck_assert_str_eq(mp_intern_get(&intern, 4321, NULL), "name 4320");
    ck_assert_str_eq(mp_intern_get(&intern, 999999, NULL), "");
    mp_intern_free(&intern);
}

START_TEST(varints_come_back)
{
    static const uint64_t values[] = {0, 1, 127, 128, 300, UINT32_MAX, UINT64_C(1) << 63, UINT64_MAX};
    struct mp_buffer buffer = {0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        mp_varint_append(&buffer, values[i]);
    const unsigned char *at = buffer.data, *end = buffer.data + buffer.size;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        uint64_t value;
        ck_assert(mp_varint_get(&at, end, &value));
        ck_assert_uint_eq(value, values[i]);
    }
    uint64_t value;
    ck_assert(!mp_varint_get(&at, end, &value));
    at = buffer.data + buffer.size - 3;
    ck_assert(!mp_varint_get(&at, end - 1, &value)); /* cut inside an integer */
    ck_assert_int_eq(mp_unzigzag(mp_zigzag(INT64_MIN)), INT64_MIN);
    ck_assert_uint_eq(mp_zigzag(-1), 1);
    mp_buffer_free(&buffer);
}

START_TEST(vec_extends_with_zeroes)
{
    MP_VEC(uint32_t) vec = {0};
    ck_assert(mp_vec_push(&vec, 5));
    ck_assert(mp_vec_extend(&vec, 1000));
    ck_assert_uint_eq(vec.count, 1000);
    ck_assert_uint_eq(vec.at[0], 5);
    ck_assert_uint_eq(vec.at[999], 0);
    mp_vec_free(&vec);
}

MP_SUITE("containers", map_agrees_with_a_plain_array, intern_gives_one_id_per_text_in_order, varints_come_back,
         vec_extends_with_zeroes)
