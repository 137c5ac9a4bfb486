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
END_TEST

START_TEST(durations_and_counts_read_well)
{
    char text[MP_UNIT_TEXT];
    ck_assert_str_eq(mp_format_duration(text, 850), "850 ns");
    ck_assert_str_eq(mp_format_duration(text, 12700000), "12.7 ms");
    ck_assert_str_eq(mp_format_duration(text, 38200000000), "38.2 s");
    ck_assert_str_eq(mp_format_duration(text, 12000000000000), "3 h 20 min");
    ck_assert_str_eq(mp_format_count(text, 412816), "412 816");
    ck_assert_str_eq(mp_format_count(text, 1000000), "1 000 000");
    ck_assert_str_eq(mp_format_count(text, 7), "7");
}
END_TEST

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
END_TEST

MP_SUITE("units", bytes_read_well, durations_and_counts_read_well, sizes_and_times_are_parsed)
