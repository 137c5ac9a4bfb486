#include "format/column.h"
#include "format/recent.h"

#include <stdlib.h>
#include <string.h>

#include "unit/suite.h"

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

enum { MOST = 3000 };

static struct mp_column encoded(struct mp_buffer *bytes, const uint64_t *values, size_t count, enum mp_encoding wanted)
{
    mp_buffer_clear(bytes);
    struct mp_column column = {.count = count};
    column.encoding = mp_column_encode(bytes, values, count, wanted);
    column.bytes = bytes->size;
    column.data = bytes->data;
    ck_assert_uint_le(column.bytes, mp_column_bound(column.encoding, count));
    return column;
}

static const enum mp_encoding wants[] = {MP_ENCODING_CONSTANT, MP_ENCODING_VARINT, MP_ENCODING_DELTA, MP_ENCODING_RUN,
                                         MP_ENCODING_PLANES};

START_TEST(values_come_back_at_every_width)
{
    static uint64_t values[MOST], wide[MOST];
    static uint8_t narrow[MOST * 8];
    struct mp_buffer bytes = {0};
    for (int round = 0; round < 400; round++) {
        size_t count = 1 + next_random() % (round % 2 ? MOST : 20);
        unsigned bits = 8u << next_random() % 4, repeats = 1 + (unsigned)(next_random() % 40);
        for (size_t i = 0; i < count; i++)
            values[i] = i % repeats ? values[i - 1] : next_random() >> (64 - bits) >> next_random() % bits;
        for (size_t k = 1; k < sizeof wants / sizeof *wants; k++) {
            struct mp_column column = encoded(&bytes, values, count, wants[k]);
            memset(narrow, 0xee, sizeof narrow);
            ck_assert(mp_column_decode(&column, narrow, bits));
            size_t wrong = 0;
            for (size_t i = 0; i < count; i++) { /* little-endian machines only, as the program */
                uint64_t got = 0;
                memcpy(&got, narrow + i * bits / 8, bits / 8);
                wrong += got != values[i];
            }
            for (size_t i = count * bits / 8; i < sizeof narrow; i++)
                wrong += narrow[i] != 0xee;
            ck_assert_uint_eq(wrong, 0);
            ck_assert(mp_column_decode(&column, wide, 64));
            ck_assert_mem_eq(wide, values, count * sizeof *values);
        }
    }
    mp_buffer_free(&bytes);
}

START_TEST(values_too_wide_are_refused)
{
    uint64_t values[600] = {0}, out[600];
    struct mp_buffer bytes = {0};
    for (unsigned bits = 8; bits < 64; bits *= 2) {
        for (size_t k = 1; k < sizeof wants / sizeof *wants; k++) {
            values[599] = UINT64_C(1) << bits;
            struct mp_column column = encoded(&bytes, values, 600, wants[k]);
            ck_assert(!mp_column_decode(&column, out, bits));
            values[599]--;
            column = encoded(&bytes, values, 600, wants[k]);
            ck_assert(mp_column_decode(&column, out, bits));
        }
    }
    mp_buffer_free(&bytes);
}

START_TEST(bytes_too_few_or_too_many_are_refused)
{
    uint64_t values[100], out[102];
    struct mp_buffer bytes = {0};
    for (size_t i = 0; i < 100; i++)
        values[i] = next_random() >> 30;
    for (size_t k = 1; k < sizeof wants / sizeof *wants; k++) {
        struct mp_column column = encoded(&bytes, values, 100, wants[k]);
        struct mp_column other = column;
        for (other.bytes = 0; other.bytes < column.bytes; other.bytes++)
            if (column.encoding != MP_ENCODING_PLANES || other.bytes % column.count)
                ck_assert(!mp_column_decode(&other, out, 64));
        other = column;
        other.count++;
        ck_assert(!mp_column_decode(&other, out, 64));
        other.count = 99;
        ck_assert(!mp_column_decode(&other, out, 64));
    }
    mp_buffer_free(&bytes);
}

/* The runs must have exactly the column's length, none may be empty, and a block of runs may end anywhere. */
START_TEST(runs_fill_their_column)
{
    static uint64_t values[1024], out[1025];
    struct mp_buffer bytes = {0};
    for (size_t length = 2; length < 700; length += length < 9 ? 1 : 61)
        for (size_t i = 0; i < 1024; i++) {
            values[i] = i / length;
            if (i + 1 < 1024) continue;
            struct mp_column column = encoded(&bytes, values, 1024, MP_ENCODING_RUN);
            ck_assert_int_eq(column.encoding, MP_ENCODING_RUN);
            for (column.count = 0; column.count < 1026; column.count++)
                if (column.count < 1024 || column.count > 1024)
                    ck_assert_msg(!column.count || !mp_column_decode(&column, out, 64), "%zu of runs of %zu",
                                  column.count, length);
        }
    static const unsigned char empty_run[] = {7, 0, 7, 4}, two[] = {7, 2, 7, 2};
    struct mp_column column = {.count = 4, .encoding = MP_ENCODING_RUN, .data = two, .bytes = sizeof two};
    bool is_value_first = mp_column_decode(&column, out, 64);
    static const unsigned char other_two[] = {2, 7, 2, 7}, other_empty[] = {0, 7, 4, 7};
    column.data = is_value_first ? two : other_two;
    ck_assert(mp_column_decode(&column, out, 64));
    ck_assert(out[0] == 7 && out[3] == 7);
    column.data = is_value_first ? empty_run : other_empty;
    ck_assert(!mp_column_decode(&column, out, 64));
    mp_buffer_free(&bytes);
}

START_TEST(what_repeats_is_written_once)
{
    uint64_t values[MOST];
    struct mp_buffer bytes = {0};
    for (size_t i = 0; i < MOST; i++)
        values[i] = 12345;
    ck_assert_int_eq(encoded(&bytes, values, MOST, MP_ENCODING_PLANES).encoding, MP_ENCODING_CONSTANT);
    ck_assert_uint_eq(bytes.size, 2);
    values[MOST - 1] = 7;
    ck_assert_int_eq(encoded(&bytes, values, MOST, MP_ENCODING_DELTA).encoding, MP_ENCODING_RUN);
    ck_assert_uint_le(bytes.size, 6);
    mp_buffer_free(&bytes);
}

START_TEST(names_and_encodings_agree)
{
    for (unsigned i = 0; i < MP_ENCODINGS; i++) {
        const char *name = mp_encoding_name((enum mp_encoding)i);
        ck_assert_int_eq(mp_encoding_find(name, strlen(name)), i);
    }
    ck_assert_int_eq(mp_encoding_find("plane", 5), MP_ENCODINGS);
    ck_assert_int_eq(mp_encoding_find("", 0), MP_ENCODINGS);
}

/* Against a plain list, newest first. */
START_TEST(recent_agrees_with_a_plain_list)
{
    struct mp_recent recent = {0};
    uint16_t list[MP_RECENT + 1];
    size_t count = 0;
    uint16_t next = 0;
    for (int i = 0; i < 100000; i++) {
        ck_assert_uint_eq(mp_recent_count(&recent), count);
        if (count && next_random() % 100 < (i / 2000 % 2 ? 30 : 60)) {
            size_t rank = next_random() % count;
            ck_assert_uint_eq(mp_recent_rank(&recent, list[rank]), rank);
            ck_assert_uint_eq(mp_recent_take(&recent, (uint32_t)rank), list[rank]);
            memmove(list + rank, list + rank + 1, (--count - rank) * sizeof *list);
        } else {
            int32_t out = mp_recent_push(&recent, next);
            memmove(list + 1, list, count * sizeof *list);
            list[0] = next++;
            ck_assert_int_eq(out, count == MP_RECENT ? list[MP_RECENT] : -1);
            count += count < MP_RECENT;
        }
    }
}

MP_SUITE("column", values_come_back_at_every_width, values_too_wide_are_refused, bytes_too_few_or_too_many_are_refused,
         runs_fill_their_column, what_repeats_is_written_once, names_and_encodings_agree,
         recent_agrees_with_a_plain_list)
