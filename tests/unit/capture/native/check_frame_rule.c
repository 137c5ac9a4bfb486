/* Rules made from frame descriptions, compared with their meaning in DWARF 5 (sections 6.4.2 and 7.24). The code never
 * runs; its descriptions are written by hand in every form that an assembler knows. */
#include "capture/native/frame_rule.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "unit/suite.h"

#include "capture/native/loaded.h"

#if defined(__x86_64__)

/* Code whose second byte has `description`, with bytes without a description around. */
#    define DESCRIBED(name, description)                                                                               \
        __asm__(".pushsection .text\n.skip 32, 0x90\n" #name ":\n.cfi_startproc\nnop\n" description                    \
                "\nnop\nnop\n.cfi_endproc\n.skip 32, 0x90\n.popsection\n");                                            \
        extern const char name[]

DESCRIBED(plain, "");
DESCRIBED(pushed, ".cfi_def_cfa_offset 16\n.cfi_offset 6, -16");
DESCRIBED(by_bp, ".cfi_offset 6, -16\n.cfi_def_cfa 6, 16");
DESCRIBED(bp_follows, ".cfi_def_cfa_offset 16\n.cfi_offset 6, -16\n.cfi_def_cfa_register 6");
DESCRIBED(remembered, ".cfi_offset 6, -16\n.cfi_def_cfa 6, 16\n.cfi_remember_state\n.cfi_def_cfa 7, 8\n"
                      ".cfi_restore 6\n.cfi_restore_state");
DESCRIBED(restored, ".cfi_def_cfa_offset 16\n.cfi_offset 6, -16\n.cfi_restore 6");
DESCRIBED(restored_long, ".cfi_def_cfa_offset 16\n.cfi_offset 6, -16\n.cfi_escape 0x06, 6");
DESCRIBED(other_restored, ".cfi_def_cfa_offset 16\n.cfi_offset 6, -16\n.cfi_restore 3");
DESCRIBED(outermost, ".cfi_undefined 16");
DESCRIBED(inner_again, ".cfi_undefined 16\n.cfi_restore 16");
DESCRIBED(address_elsewhere, ".cfi_offset 16, -16");
DESCRIBED(address_in_register, ".cfi_register 16, 3");
DESCRIBED(address_same, ".cfi_same_value 16");
DESCRIBED(bp_same, ".cfi_offset 6, -16\n.cfi_same_value 6");
DESCRIBED(bp_lost, ".cfi_undefined 6");
DESCRIBED(bp_in_register, ".cfi_register 6, 3");
DESCRIBED(other_in_register, ".cfi_register 3, 6");
DESCRIBED(other_saved, ".cfi_offset 3, -24\n.cfi_offset 12, -32");
DESCRIBED(by_other, ".cfi_def_cfa 3, 16");

/* Numbers in each of the forms that instructions take; the data's unit is -8. */
DESCRIBED(extended, ".cfi_escape 0x05, 6, 2");
DESCRIBED(extended_signed, ".cfi_escape 0x11, 6, 0x7e");
DESCRIBED(base_signed, ".cfi_escape 0x12, 6, 0x7d");
DESCRIBED(offset_signed, ".cfi_escape 0x13, 0x7b");
DESCRIBED(two_bytes, ".cfi_escape 0x13, 0xb8, 0x7f\n.cfi_escape 0x05, 6, 0x80, 0x01");
DESCRIBED(widest, ".cfi_def_cfa_offset 0x7fffffff");
DESCRIBED(too_wide, ".cfi_def_cfa_offset 0x80000000");
DESCRIBED(too_far, ".cfi_escape 0x05, 6, 0x81, 0x80, 0x80, 0x80, 0x01");
DESCRIBED(arguments, ".cfi_escape 0x2e, 0x90, 0x01\n.cfi_def_cfa_offset 16");
DESCRIBED(value_offset, ".cfi_escape 0x14, 6, 2");
DESCRIBED(value_offset_signed, ".cfi_escape 0x15, 6, 2");
DESCRIBED(value_offset_of_other, ".cfi_escape 0x14, 3, 0x82, 0x01\n.cfi_escape 0x15, 3, 0x82, 0x01\n"
                                 ".cfi_def_cfa_offset 24");

/* Expressions: as compilers write them, and variants of these. */
#    define ALIGNED ".cfi_escape 0x10, 6, 2, 0x76, 0\n.cfi_escape 0x0f, 3, 0x76, 0x78, 6\n"
DESCRIBED(aligned, ALIGNED);
DESCRIBED(aligned_at_once, ".cfi_escape 0x10, 6, 2, 0x76, 0\n.cfi_escape 0x0f, 3, 0x76, 0, 6");
DESCRIBED(base_above, ".cfi_escape 0x10, 6, 2, 0x76, 0\n.cfi_escape 0x0f, 3, 0x76, 1, 6");
DESCRIBED(base_longer, ".cfi_escape 0x10, 6, 2, 0x76, 0\n.cfi_escape 0x0f, 4, 0x76, 0x78, 6, 0x96");
DESCRIBED(base_shorter, ".cfi_escape 0x10, 6, 2, 0x76, 0\n.cfi_escape 0x0f, 2, 0x76, 0x78");
DESCRIBED(base_not_read, ".cfi_escape 0x10, 6, 2, 0x76, 0\n.cfi_escape 0x0f, 3, 0x76, 0x78, 0x96");
DESCRIBED(base_by_other, ".cfi_escape 0x10, 6, 2, 0x76, 0\n.cfi_escape 0x0f, 3, 0x77, 0x78, 6");
DESCRIBED(bp_longer, ".cfi_escape 0x10, 6, 3, 0x76, 0, 0x96\n.cfi_escape 0x0f, 3, 0x76, 0x78, 6");
DESCRIBED(bp_shorter, ".cfi_escape 0x10, 6, 1, 0x76\n.cfi_escape 0x0f, 3, 0x76, 0x78, 6");
DESCRIBED(bp_beside, ".cfi_escape 0x10, 6, 2, 0x76, 8\n.cfi_escape 0x0f, 3, 0x76, 0x78, 6");
DESCRIBED(bp_by_other, ".cfi_escape 0x10, 6, 2, 0x77, 0\n.cfi_escape 0x0f, 3, 0x76, 0x78, 6");
DESCRIBED(bp_is_value, ".cfi_escape 0x16, 6, 2, 0x76, 0\n.cfi_escape 0x0f, 3, 0x76, 0x78, 6");
DESCRIBED(bp_at_offset, ".cfi_offset 6, -16\n.cfi_escape 0x0f, 3, 0x76, 0x78, 6");
DESCRIBED(bp_at_bp, ".cfi_escape 0x10, 6, 2, 0x76, 0");
DESCRIBED(no_more_aligned, ALIGNED ".cfi_def_cfa 7, 8\n.cfi_restore 6");
DESCRIBED(aligned_with_register, ALIGNED ".cfi_def_cfa_register 6");
DESCRIBED(aligned_with_offset, ALIGNED ".cfi_def_cfa_offset 16");
DESCRIBED(aligned_with_signed, ALIGNED ".cfi_escape 0x13, 0x7e");
DESCRIBED(other_by_expression, ".cfi_escape 0x10, 3, 3, 0x76, 0x70, 6\n.cfi_def_cfa_offset 32");

/* Descriptions that the walk does not know. */
DESCRIBED(unknown_instruction, ".cfi_window_save");
#    define REMEMBER_FOUR ".cfi_escape 0x0a, 0x0a, 0x0a, 0x0a\n"
#    define RETURN_FOUR   ".cfi_escape 0x0b, 0x0b, 0x0b, 0x0b\n"
DESCRIBED(deep,
          ".cfi_def_cfa_offset 40\n" REMEMBER_FOUR REMEMBER_FOUR ".cfi_def_cfa_offset 8\n" RETURN_FOUR RETURN_FOUR);
DESCRIBED(too_deep, REMEMBER_FOUR REMEMBER_FOUR ".cfi_escape 0x0a\n" RETURN_FOUR);
DESCRIBED(nothing_remembered, ".cfi_escape 0x0b");
DESCRIBED(signal_frame, ".cfi_signal_frame");
DESCRIBED(other_return_column, ".cfi_return_column 3");
DESCRIBED(with_a_handler, ".cfi_personality 0x1b, plain\n.cfi_lsda 0x1b, pushed\n.cfi_def_cfa_offset 48");

static struct mp_frame_rule by_sp(int32_t base, int32_t bp)
{
    return (struct mp_frame_rule){base, bp, MP_FRAME_BY_SP};
}

static struct mp_frame_rule by_bp_rule(int32_t base, int32_t bp)
{
    return (struct mp_frame_rule){base, bp, MP_FRAME_BY_BP};
}

static struct mp_frame_rule at_bp(int32_t base)
{
    return (struct mp_frame_rule){base, 0, MP_FRAME_AT_BP};
}

static struct mp_frame_rule only(uint8_t base)
{
    return (struct mp_frame_rule){.base = base};
}

static bool same(struct mp_frame_rule rule, struct mp_frame_rule wanted)
{
    bool has_offsets = wanted.base != MP_FRAME_UNKNOWN && wanted.base != MP_FRAME_OUTERMOST;
    return rule.base == wanted.base &&
           (!has_offsets || (rule.base_offset == wanted.base_offset && rule.bp_offset == wanted.bp_offset));
}

/* Read in place, and through the kernel. */
static bool is(const char *at, struct mp_frame_rule wanted)
{
    return same(mp_frame_rule_find((uintptr_t)at, false), wanted) &&
           same(mp_frame_rule_find((uintptr_t)at, true), wanted);
}

#    define MEANS(name, wanted) ck_assert_msg(is((name) + 2, wanted), #    name)

START_TEST(plain_descriptions_mean_what_they_say)
{
    MEANS(plain, by_sp(8, 0));
    MEANS(pushed, by_sp(16, -16));
    MEANS(by_bp, by_bp_rule(16, -16));
    MEANS(bp_follows, by_bp_rule(16, -16));
    MEANS(remembered, by_bp_rule(16, -16));
    MEANS(restored, by_sp(16, 0));
    MEANS(restored_long, by_sp(16, 0));
    MEANS(other_restored, by_sp(16, -16));
    MEANS(outermost, only(MP_FRAME_OUTERMOST));
    MEANS(inner_again, by_sp(8, 0));
    MEANS(address_elsewhere, only(MP_FRAME_UNKNOWN));
    MEANS(address_in_register, only(MP_FRAME_UNKNOWN));
    MEANS(address_same, only(MP_FRAME_UNKNOWN));
    MEANS(bp_same, by_sp(8, 0));
    MEANS(bp_lost, by_sp(8, 0));
    MEANS(bp_in_register, only(MP_FRAME_UNKNOWN));
    MEANS(other_in_register, by_sp(8, 0));
    MEANS(other_saved, by_sp(8, 0));
    MEANS(by_other, only(MP_FRAME_UNKNOWN));
}

START_TEST(numbers_are_read_in_each_form)
{
    MEANS(extended, by_sp(8, -16));
    MEANS(extended_signed, by_sp(8, 16));
    MEANS(base_signed, by_bp_rule(24, 0));
    MEANS(offset_signed, by_sp(40, 0));
    MEANS(two_bytes, by_sp(576, -1024));
    MEANS(widest, by_sp(0x7fffffff, 0));
    MEANS(too_wide, only(MP_FRAME_UNKNOWN));
    MEANS(too_far, only(MP_FRAME_UNKNOWN));
    MEANS(arguments, by_sp(16, 0));
    MEANS(value_offset, only(MP_FRAME_UNKNOWN));
    MEANS(value_offset_signed, only(MP_FRAME_UNKNOWN));
    MEANS(value_offset_of_other, by_sp(24, 0));
}

START_TEST(expressions_are_known_as_compilers_write_them)
{
    MEANS(aligned, at_bp(-8));
    MEANS(aligned_at_once, at_bp(0));
    MEANS(base_above, only(MP_FRAME_UNKNOWN));
    MEANS(base_longer, only(MP_FRAME_UNKNOWN));
    MEANS(base_shorter, only(MP_FRAME_UNKNOWN));
    MEANS(base_not_read, only(MP_FRAME_UNKNOWN));
    MEANS(base_by_other, only(MP_FRAME_UNKNOWN));
    MEANS(bp_longer, only(MP_FRAME_UNKNOWN));
    MEANS(bp_shorter, only(MP_FRAME_UNKNOWN));
    MEANS(bp_beside, only(MP_FRAME_UNKNOWN));
    MEANS(bp_by_other, only(MP_FRAME_UNKNOWN));
    MEANS(bp_is_value, only(MP_FRAME_UNKNOWN));
    MEANS(bp_at_offset, only(MP_FRAME_UNKNOWN));
    MEANS(bp_at_bp, only(MP_FRAME_UNKNOWN));
    MEANS(no_more_aligned, by_sp(8, 0));
    MEANS(aligned_with_register, only(MP_FRAME_UNKNOWN));
    MEANS(aligned_with_offset, only(MP_FRAME_UNKNOWN));
    MEANS(aligned_with_signed, only(MP_FRAME_UNKNOWN));
    MEANS(other_by_expression, by_sp(32, 0));
}

START_TEST(what_is_not_known_is_left_to_others)
{
    MEANS(unknown_instruction, only(MP_FRAME_UNKNOWN));
    MEANS(deep, by_sp(40, 0));
    MEANS(too_deep, only(MP_FRAME_UNKNOWN));
    MEANS(nothing_remembered, only(MP_FRAME_UNKNOWN));
    MEANS(signal_frame, only(MP_FRAME_UNKNOWN));
    MEANS(other_return_column, only(MP_FRAME_UNKNOWN));
    MEANS(with_a_handler, by_sp(48, 0));
}

/* Rows at distances of each encoding: 10 bytes, 100, 1000 and 70 000. */
__asm__(".pushsection .text\n.skip 32, 0x90\nrows:\n.cfi_startproc\n.skip 10, 0x90\nrow_1:\n.cfi_def_cfa_offset 16\n"
        ".skip 100, 0x90\nrow_2:\n.cfi_def_cfa_offset 24\n.skip 1000, 0x90\nrow_3:\n.cfi_def_cfa_offset 32\n"
        ".skip 70000, 0x90\nrow_4:\n.cfi_def_cfa_offset 40\n.skip 10, 0x90\n.cfi_endproc\nrows_end:\n"
        ".skip 32, 0x90\n.popsection\n");
extern const char rows[], row_1[], row_2[], row_3[], row_4[], rows_end[];

START_TEST(a_row_holds_from_its_first_byte_to_the_next_one)
{
    const char *const borders[] = {rows, row_1, row_2, row_3, row_4, rows_end};
    enum { BORDERS = sizeof borders / sizeof *borders };
    for (int i = 0; i < BORDERS; i++) {
        struct mp_frame_rule before = i ? by_sp(8 * i, 0) : only(MP_FRAME_UNKNOWN);
        struct mp_frame_rule after = i + 1 < BORDERS ? by_sp(8 * (i + 1), 0) : only(MP_FRAME_UNKNOWN);
        ck_assert_msg(is(borders[i], before), "before border %d", i);
        ck_assert_msg(is(borders[i] + 1, after), "after border %d", i);
    }
}

/* Functions of a large library, whose descriptions are at all offsets in their pages. */
START_TEST(the_kernel_reads_what_is_there)
{
    const char *function = (const char *)(uintptr_t)&printf;
    int found = 0;
    for (int i = 0; i < 200000; i += 7) {
        struct mp_frame_rule in_place = mp_frame_rule_find((uintptr_t)function + i, false);
        struct mp_frame_rule by_kernel = mp_frame_rule_find((uintptr_t)function + i, true);
        ck_assert_msg(!memcmp(&in_place, &by_kernel, sizeof in_place), "at +%d", i);
        found += in_place.base != MP_FRAME_UNKNOWN;
    }
    ck_assert_int_gt(found, 10000);
}

#    define LIBRARY "libthread_db.so.1" /* comes with the C library, and nobody uses it */
static _Atomic uintptr_t stale;
static _Atomic bool done;

static void *unload_again_and_again(void *unused)
{
    for (int i = 0; i < 2000 || !stale; i++) {
        void *library = dlopen(LIBRARY, RTLD_LAZY);
        if (!library) break;
        stale = (uintptr_t)dlsym(library, "td_init") + 1;
        dlclose(library);
    }
    done = true;
    return unused;
}

START_TEST(a_guess_may_lead_into_a_library_that_is_unloaded)
{
    pthread_t other;
    mp_module_start();
    ck_assert(!pthread_create(&other, NULL, unload_again_and_again, NULL));
    unsigned known = 0, unknown = 0;
    while (!done) {
        struct mp_module_facts facts;
        char path[256];
        struct mp_frame_rule rule = mp_frame_rule_find(stale, true);
        if (stale && mp_module_of(stale, &facts)) {
            mp_module_path(&facts, path, sizeof path);
            ck_assert_uint_lt(strlen(path), sizeof path);
        }
        *(rule.base == MP_FRAME_UNKNOWN ? &unknown : &known) += 1;
    }
    pthread_join(other, NULL);
    ck_assert_uint_gt(known, 0);
    ck_assert_uint_gt(unknown, 0);
}

START_TEST(a_path_is_read_whole_or_cut)
{
    struct mp_module_facts facts;
    char path[4096], small[8];
    Dl_info info;
    mp_module_start();
    ck_assert(mp_module_of((uintptr_t)&printf, &facts));
    ck_assert(dladdr((void *)(uintptr_t)&printf, &info));
    mp_module_path(&facts, path, sizeof path);
    ck_assert_str_eq(path, info.dli_fname);
    mp_module_path(&facts, small, sizeof small);
    ck_assert(!strncmp(small, path, sizeof small - 1) && strlen(small) == sizeof small - 1);
    ck_assert(mp_module_of((uintptr_t)&only, &facts)); /* the program: its name is "" */
    mp_module_path(&facts, path, sizeof path);
    ck_assert_ptr_nonnull(strstr(path, "check_frame_rule"));
}

MP_SUITE("frame rules", plain_descriptions_mean_what_they_say, numbers_are_read_in_each_form,
         expressions_are_known_as_compilers_write_them, what_is_not_known_is_left_to_others,
         a_row_holds_from_its_first_byte_to_the_next_one, the_kernel_reads_what_is_there,
         a_guess_may_lead_into_a_library_that_is_unloaded, a_path_is_read_whole_or_cut)
#else
int main(void)
{
    return 77; /* libunwind walks here */
}
#endif
