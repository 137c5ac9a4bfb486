#include "capture/python/merge.h"

#include <stdlib.h>
#include <string.h>

#include "unit/suite.h"

/* Stacks as text. Native, innermost first: a letter for a native frame, '#' and '%' for calls of the loop from its two
 * ranges. Python, innermost first: a digit for a frame, '|' at the end of each group. Merged: the letters and digits. A
 * '~' at the end: cut. */
enum { ROOM = 64 };

static struct mp_interpreter_ranges ranges = {
    .count = 2,
    .range = {{.start = 0x10000, .end = 0x20000}, {.start = 0x30000, .end = 0x30010}},
};

struct stacks {
    struct mp_native_stack native;
    struct mp_python_stack python;
    void *addresses[ROOM];
    struct mp_python_frame frames[ROOM];
};

static void read_native(struct stacks *stacks, const char *text)
{
    stacks->native = (struct mp_native_stack){.addresses = stacks->addresses};
    for (; *text && *text != '~'; text++) {
        uintptr_t address = *text == '#' ? 0x12345 : *text == '%' ? 0x30001 : 0x100 + (uintptr_t)*text;
        stacks->addresses[stacks->native.count++] = (void *)address;
    }
    stacks->native.cut = *text == '~';
}

static void read_python(struct stacks *stacks, const char *text)
{
    stacks->python = (struct mp_python_stack){.frames = stacks->frames, .hash = 1};
    for (; *text && *text != '~'; text++) {
        stacks->python.hash = stacks->python.hash * 31 + (unsigned char)*text;
        if (*text == '|')
            stacks->python.group_count++;
        else
            stacks->frames[stacks->python.frame_count++] = (struct mp_python_frame){
                .group = stacks->python.group_count,
                .instruction = (uint32_t)*text,
            };
    }
    stacks->python.cut = *text == '~';
}

static struct mp_pairing merge_text(const char *native, const char *python, char *merged, uint32_t room)
{
    struct stacks stacks;
    struct mp_merged_frame frames[ROOM];
    read_native(&stacks, native);
    if (python) read_python(&stacks, python);
    const struct mp_python_stack *known = python ? &stacks.python : NULL;
    struct mp_pairing pairing = mp_merge_pair(&ranges, &stacks.native, known);
    uint32_t count = mp_merge(&ranges, &stacks.native, known, &pairing, frames, room);
    for (uint32_t i = 0; i < count; i++) {
        uintptr_t address = frames[i].address;
        if (frames[i].python != MP_MERGED_NATIVE)
            merged[i] = (char)stacks.frames[frames[i].python].instruction;
        else
            merged[i] = (char)(address == 0x12345 ? '#' : address == 0x30001 ? '%' : (int)(address - 0x100));
    }
    merged[count] = '\0';
    return pairing;
}

static const struct {
    const char *native, *python, *merged;
    bool unequal;
} cases[] = {
    {"", "", "", false},
    {"abc", "", "abc", false},
    {"ab#c", "12|", "ab12c", false},
    {"#", "1|", "1", false},
    {"ab#c%d#e", "12|3|45|", "ab12c3d45e", false},
    {"ab#c#d", "|1|", "abc1d", false}, /* the inner call runs no frame just now */
    {"##", "1|2|", "12", false},
    {"ab#c", NULL, "ab#c", false}, /* not known: nothing is replaced, nothing is wrong */
    {"ab#c", "", "ab#c", true},
    {"a#b#c#d", "1|2|", "a1b2c#d", true},   /* the outermost call belongs to another greenlet, or is unknown */
    {"a#b", "1|2|3|", "a1b23", true},       /* unwinding ended early */
    {"a#b~", "1|2|3|", "a1b23", false},     /* the native stack is cut: the rest is further out */
    {"a#b#c#d", "1|2|~", "a1b2c#d", false}, /* the Python stack is cut: so is this */
    {"ab", "12|", "ab12", true},
};

START_TEST(calls_of_the_loop_are_replaced_by_their_frames)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char merged[ROOM + 1];
        struct mp_pairing pairing = merge_text(cases[i].native, cases[i].python, merged, ROOM);
        ck_assert_msg(strcmp(merged, cases[i].merged) == 0, "case %zu: %s", i, merged);
        ck_assert_msg(pairing.unequal == cases[i].unequal, "case %zu", i);
    }
}

START_TEST(calls_further_out_are_no_mistake_once_seen)
{
    char merged[ROOM + 1];
    ck_assert(merge_text("a#b#c", "1|", merged, ROOM).unequal);
    ranges.outer_calls = true;
    ck_assert(!merge_text("a#b#c", "1|", merged, ROOM).unequal);
    ck_assert_str_eq(merged, "a1b#c");
    ck_assert(merge_text("a#c", "1|2|", merged, ROOM).unequal);
    ranges.outer_calls = false;
}

START_TEST(merging_stops_where_the_room_ends)
{
    char whole[ROOM + 1], part[ROOM + 1];
    merge_text("ab#c%d#e", "12|3|45|", whole, ROOM);
    for (uint32_t room = 0; room <= strlen(whole); room++) {
        merge_text("ab#c%d#e", "12|3|45|", part, room);
        ck_assert_uint_eq(strlen(part), room);
        ck_assert(strncmp(part, whole, room) == 0);
    }
}

START_TEST(the_ends_of_a_range)
{
    /* Addresses are return addresses: the end of a range belongs to the range, its start does not. */
    ck_assert(!mp_interpreter_range_contains(&ranges, 0x10000));
    ck_assert(mp_interpreter_range_contains(&ranges, 0x10001));
    ck_assert(mp_interpreter_range_contains(&ranges, 0x20000));
    ck_assert(!mp_interpreter_range_contains(&ranges, 0x20001));
    ck_assert(mp_interpreter_range_contains(&ranges, 0x30010));
    ck_assert(!mp_interpreter_range_contains(&ranges, 0));
}

/* Random small stacks: hashes are equal exactly if the merged stacks, and the Python stacks in them, are equal. */
START_TEST(hashes_tell_merged_stacks_apart)
{
    enum { COUNT = 400 };
    static struct {
        char merged[ROOM + 1], python[ROOM];
        uint64_t hash;
    } seen[COUNT];
    srand(1);
    for (size_t i = 0; i < COUNT; i++) {
        char native[8] = {0};
        for (int j = rand() % 5; j > 0; j--)
            native[j - 1] = "ab#%"[rand() % 4];
        char *python = seen[i].python;
        for (int j = rand() % 4; j > 0; j--)
            python[j - 1] = "12||"[rand() % 4];
        strcat(python, "|");
        seen[i].hash = merge_text(native, python, seen[i].merged, ROOM).hash;
        for (size_t j = 0; j < i; j++) {
            bool same = strcmp(seen[i].merged, seen[j].merged) == 0 && strcmp(python, seen[j].python) == 0;
            if (!same) ck_assert_msg(seen[i].hash != seen[j].hash, "%s and %s", seen[i].merged, seen[j].merged);
        }
    }
    char merged[ROOM + 1];
    ck_assert(merge_text("a#b", "1|", merged, ROOM).hash == merge_text("a%b", "1|", merged, ROOM).hash);
    ck_assert(merge_text("a#b", "", merged, ROOM).hash != merge_text("a%b", "", merged, ROOM).hash);
}

MP_SUITE("python merge", calls_of_the_loop_are_replaced_by_their_frames, calls_further_out_are_no_mistake_once_seen,
         merging_stops_where_the_room_ends, the_ends_of_a_range, hashes_tell_merged_stacks_apart)
