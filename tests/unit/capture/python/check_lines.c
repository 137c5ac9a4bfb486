#include "capture/python/walk.h"

#include <stdlib.h>

#include "unit/suite.h"

/* One function as each version compiles it: calls over several lines, 150 empty ones, try, finally, loops, with. The
 * second list has runs of instructions with one line each. It comes from code.co_lines(), for 3.9 from
 * dis.findlinestarts(). */
struct run {
    uint32_t line, instructions;
};

static const unsigned char table_9[] =
    "\x00\x02\x06\x01\x06\xff\x06\x02\x04\x01\x02\x01\x02\xff\x04\x7f\x00\x1a\x04\x01\x02\x01\x02\xfe\x08\x03\x0e\x01"
    "\x10\x02\x08\xfe\x0e\x02\x14\x01\x04\x01\x06\x01\x06\x01\x06\x01";
static const struct run runs_9[] = {{3, 3},   {4, 3},    {3, 3},   {5, 2},   {6, 1},   {7, 1},   {6, 2},
                                    {159, 2}, {160, 1},  {161, 1}, {159, 4}, {162, 7}, {163, 8}, {165, 4},
                                    {163, 7}, {165, 10}, {166, 2}, {167, 3}, {168, 3}, {169, 3}, {170, 17}};

static const unsigned char table_10[] =
    "\x06\x02\x06\x01\x06\xff\x04\x02\x02\x01\x02\x01\x04\xff\x00\x7f\x04\x1a\x02\x01\x02\x01\x08\xfe\x0e\x03\x10\x01"
    "\x0a\x02\x08\x80\x02\xfd\x02\xfd\x14\x06\x04\x01\x06\x01\x04\x01\x04\xfe\x06\x03\x02\x01\x22\xff";
static const struct run runs_10[] = {{3, 3},   {4, 3},   {3, 3},   {5, 2},    {6, 1},   {7, 1},   {6, 2},
                                     {159, 2}, {160, 1}, {161, 1}, {159, 4},  {162, 7}, {163, 8}, {165, 5},
                                     {0, 4},   {162, 1}, {159, 1}, {165, 10}, {166, 2}, {167, 3}, {168, 2},
                                     {166, 2}, {169, 3}, {170, 1}, {169, 17}};

static const unsigned char table_13[] =
    "\x80\x00\xf4\x06\x00\x13\x18\x98\x01\x94\x28\xf3\x03\x01\x09\x1c\xd9\x12\x1a\x88\x51\xf3\x03\x00\x0a\x0b\xd9\x12"
    "\x1a\xf0\x03\x00\x05\x06\xf0\x00\x01\x09\x1c\xf0\x04\x60\x02\x05\x11\xd8\x0d\x0e\xd8\x0d\x0e\xf1\x03\x01\x0e\x0f"
    "\x88\x01\xf0\x72\x04\x00\x0d\x0e\x8f\x43\x89\x43\xd8\x0c\x0d\xd8\x0c\x0d\xf3\x05\x02\x0d\x0f\x89\x01\xf4\x0c\x00"
    "\x09\x0e\x88\x61\x8c\x08\xde\x0a\x0b\xde\x0b\x0c\x89\x68\xd8\x0c\x0d\x88\x01\xf7\x05\x00\x0b\x0c\x88\x21\xf1\x06"
    "\x00\x0a\x0b\x88\x61\xd8\x08\x0c\xf7\x03\x00\x0a\x0b\x88\x11\xf9\xf2\x4d\x05\x01\x09\x1c\xf8\xf4\x7e\x04\x00\x0c"
    "\x16\xf3\x00\x01\x05\x11\xd8\x0f\x10\x8c\x08\xe4\x08\x0d\x88\x61\x8d\x08\xfb\xf0\x07\x01\x05\x11\xfb\xf4\x06\x00"
    "\x09\x0e\x88\x61\x8d\x08\xfa\xf7\x08\x00\x0a\x0b\x8d\x11\xfa";
static const struct run runs_13[] = {
    {1, 1},   {4, 11},   {3, 4},    {4, 3},   {3, 4},   {4, 2},    {3, 2},    {5, 1},    {6, 1},
    {7, 1},   {6, 3},    {159, 11}, {160, 1}, {161, 1}, {159, 6},  {165, 11}, {166, 7},  {167, 9},
    {168, 2}, {166, 9},  {169, 3},  {170, 1}, {169, 9}, {0, 2},    {3, 3},    {0, 1},    {162, 9},
    {163, 6}, {165, 12}, {0, 4},    {162, 1}, {0, 4},   {165, 12}, {0, 3},    {169, 14}, {0, 3}};

static void check_runs(unsigned minor, const unsigned char *table, size_t size, const struct run *runs, size_t count)
{
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++)
        for (uint32_t end = at + 2 * runs[i].instructions; at < end; at += 2)
            ck_assert_msg(mp_python_line(minor, table, size, 1, at) == runs[i].line, "3.%u: line %u at %u is not %u",
                          minor, mp_python_line(minor, table, size, 1, at), at, runs[i].line);
}
#define CHECK_RUNS(minor, table, runs) check_runs(minor, table, sizeof table - 1, runs, sizeof runs / sizeof *runs)

START_TEST(tables_of_real_functions)
{
    CHECK_RUNS(9, table_9, runs_9);
    CHECK_RUNS(10, table_10, runs_10);
    CHECK_RUNS(13, table_13, runs_13);
}

START_TEST(without_an_instruction_or_a_table)
{
    const unsigned char empty[1] = {0};
    ck_assert_uint_eq(mp_python_line(9, empty, 0, 7, 0), 7);
    ck_assert_uint_eq(mp_python_line(9, table_9, sizeof table_9 - 1, 7, MP_PYTHON_INSTRUCTION_UNKNOWN), 7);
    ck_assert_uint_eq(mp_python_line(10, table_10, sizeof table_10 - 1, 7, MP_PYTHON_INSTRUCTION_UNKNOWN), 7);
    ck_assert_uint_eq(mp_python_line(13, table_13, sizeof table_13 - 1, 7, MP_PYTHON_INSTRUCTION_UNKNOWN), 0);
    ck_assert_uint_eq(mp_python_line(13, empty, 0, 7, 0), 0);
    ck_assert_uint_eq(mp_python_line(13, table_13, sizeof table_13 - 1, 7, 1 << 20), 0);
}

/* Random bytes are read only within their bounds: each table ends where its block ends, so AddressSanitizer notices
 * reads beyond. */
START_TEST(damaged_tables_are_read_within_bounds)
{
    srand(1);
    for (unsigned round = 0; round < 30000; round++) {
        size_t size = (size_t)rand() % 24;
        unsigned char *table = malloc(size);
        ck_assert(size == 0 || table);
        for (size_t i = 0; i < size; i++)
            table[i] = (unsigned char)(rand() >> 7);
        for (unsigned minor = 9; minor <= 14; minor++)
            mp_python_line(minor, table, size, 1, (uint32_t)rand() % 128);
        free(table);
    }
}

MP_SUITE("python lines", tables_of_real_functions, without_an_instruction_or_a_table,
         damaged_tables_are_read_within_bounds)
