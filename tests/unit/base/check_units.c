#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/units.h"
#include "unit/suite.h"

START_TEST(bytes_read_well)
{
    char text[MP_UNIT_TEXT];
    ck_assert_str_eq(mp_format_bytes(text, 0), "0 B");
    ck_assert_str_eq(mp_format_bytes(text, 1023), "1023 B");
    ck_assert_str_eq(mp_format_bytes(text, 1024), "1.00 KiB");
    ck_assert_str_eq(mp_format_bytes(text, 10372513792), "9.66 GiB");
    ck_assert_str_eq(mp_format_bytes(text, 65927746355), "61.4 GiB");
    ck_assert_str_eq(mp_format_bytes(text, (1 << 20) - 1), "1.00 MiB");
    ck_assert_str_eq(mp_format_bytes(text, UINT64_MAX), "16.0 EiB");
    ck_assert_str_eq(mp_format_signed_bytes(text, -3145728), "-3.00 MiB");
    ck_assert_str_eq(mp_format_signed_bytes(text, INT64_MIN), "-8.00 EiB");
}

START_TEST(durations_and_counts_read_well)
{
    char text[MP_UNIT_TEXT];
    ck_assert_str_eq(mp_format_duration(text, 850), "850 ns");
    ck_assert_str_eq(mp_format_duration(text, 12700000), "12.7 ms");
    ck_assert_str_eq(mp_format_duration(text, 38200000000), "38.2 s");
    ck_assert_str_eq(mp_format_duration(text, 12000000000000), "3 h 20 min");
    ck_assert_str_eq(mp_format_duration(text, 630000000000), "11 min");
    ck_assert_str_eq(mp_format_duration(text, 629999999999), "10 min");
    ck_assert_str_eq(mp_format_count(text, 412816), "412 816");
    ck_assert_str_eq(mp_format_count(text, 1000000), "1 000 000");
    ck_assert_str_eq(mp_format_count(text, 7), "7");
}

START_TEST(sizes_and_times_are_parsed)
{
    uint64_t value;
    ck_assert(mp_parse_bytes("80GiB", &value));
    ck_assert_uint_eq(value, UINT64_C(85899345920));
    ck_assert(mp_parse_bytes("1.5 k", &value));
    ck_assert_uint_eq(value, 1500);
    ck_assert(mp_parse_duration("200ms", &value));
    ck_assert_uint_eq(value, 200000000);
    ck_assert(mp_parse_duration("2", &value));
    ck_assert_uint_eq(value, UINT64_C(2000000000));
    ck_assert(!mp_parse_bytes("", &value));
    ck_assert(!mp_parse_bytes("-1", &value));
    ck_assert(!mp_parse_bytes("12 parsecs", &value));
    ck_assert(!mp_parse_bytes("1e40", &value));
    ck_assert(!mp_parse_duration("nan", &value));
}

/* A sentence that is too long is cut, with the system's reason, and nothing after its buffer is written. */
START_TEST(errors_keep_to_their_room)
{
    enum { BEHIND = 512 };
    struct {
        struct mp_error error;
        char behind[BEHIND];
    } place;
    const char *reason = ": No such file or directory";
    char words[sizeof place.error.text + 100], whole[sizeof words + 100];
    for (size_t length = 0; length < sizeof words; length++) {
        memset(words, 'w', length);
        words[length] = '\0';
        memset(&place, '#', sizeof place);
        errno = ENOENT;
        ck_assert_int_eq(mp_fail_errno(&place.error, "%s", words), MP_IO);
        ck_assert_int_eq(errno, ENOENT);
        snprintf(whole, sizeof whole, "%s%s", words, reason);
        whole[sizeof place.error.text - 1] = '\0';
        ck_assert_str_eq(place.error.text, whole);
        ck_assert_int_eq(place.error.sys_errno, ENOENT);
        ck_assert_int_eq(mp_fail(&place.error, MP_LIMIT, "%s", words), MP_LIMIT);
        words[sizeof place.error.text - 1 < length ? sizeof place.error.text - 1 : length] = '\0';
        ck_assert_str_eq(place.error.text, words);
        ck_assert(place.error.status == MP_LIMIT && !place.error.sys_errno);
        for (size_t i = 0; i < BEHIND; i++)
            ck_assert_int_eq(place.behind[i], '#');
    }
}

MP_SUITE("units", errors_keep_to_their_room, bytes_read_well, durations_and_counts_read_well,
         sizes_and_times_are_parsed)
