/* Lack of memory ends the program through a hook, except inside of mp_memory_try(). */
#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/map.h"
#include "base/vec.h"
#include "unit/suite.h"

static volatile size_t far_too_much = PTRDIFF_MAX; /* volatile: compilers warn of such sizes */

/* Otherwise AddressSanitizer reports the huge request as an error. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void end(size_t bytes)
{
    _Exit(bytes >= far_too_much ? 7 : 8);
}

START_TEST(the_hook_ends_the_program)
{
    mp_memory_on_lack(end);
    free(mp_alloc(far_too_much));
    _Exit(1);
}

START_TEST(a_vector_ends_it_too)
{
    MP_VEC(uint64_t) numbers = {0};
    mp_memory_on_lack(end);
    mp_vec_room_for(&numbers, far_too_much / 4);
    _Exit(1);
}

START_TEST(a_buffer_ends_it_where_there_is_a_hook)
{
    struct mp_buffer buffer = {0};
    ck_assert_ptr_null(mp_buffer_room(&buffer, far_too_much));
    ck_assert(buffer.failed);
    mp_buffer_clear(&buffer);
    mp_memory_on_lack(end);
    mp_buffer_room(&buffer, far_too_much);
    _Exit(1);
}

START_TEST(a_part_of_a_text_may_be_nothing)
{
    struct mp_buffer empty = {0};
    char *nothing = mp_text_copy_part((const char *)empty.data, empty.size), *some = mp_text_copy_part("abc", 2),
         *all = mp_text_copy_part("abc", 9);
    ck_assert_str_eq(nothing, ""); /* the sanitizer of undefined behaviour reports strndup(NULL, 0) */
    ck_assert_str_eq(some, "ab");
    ck_assert_str_eq(all, "abc");
    free(nothing);
    free(some);
    free(all);
}

static void ask_for_too_much(void *context)
{
    int *reached = context;
    *reached = 1;
    free(mp_alloc_zeroed(far_too_much, 4));
    *reached = 2;
}

static void ask_for_little(void *context)
{
    char **text = context;
    *text = mp_text_make("%d of %s", 3, "them");
}

/* An attempt inside another: lack of memory ends only the inner one. */
static void try_inside(void *context)
{
    int *reached = context;
    int inner = 0;
    bool done = mp_memory_try(ask_for_too_much, &inner);
    *reached = done || inner != 1 ? -1 : 5;
}

START_TEST(an_attempt_goes_on)
{
    int reached = 0;
    mp_memory_on_lack(end);
    ck_assert(!mp_memory_try(ask_for_too_much, &reached));
    ck_assert_int_eq(reached, 1);
    char *text = NULL;
    ck_assert(mp_memory_try(ask_for_little, &text));
    ck_assert_str_eq(text, "3 of them");
    free(text);
    ck_assert(mp_memory_try(try_inside, &reached));
    ck_assert_int_eq(reached, 5);
    ck_assert_ptr_eq(mp_memory_on_lack(NULL), end);
    ck_assert(!mp_memory_can_end());
}

START_TEST(what_there_is_is_given)
{
    MP_VEC(uint32_t) numbers = {0};
    struct mp_map map = {0};
    bool added;
    for (uint32_t i = 0; i < 1000; i++) {
        mp_vec_add(&numbers, i * 3);
        *mp_map_at(&map, i + 1, &added) = i;
        ck_assert(added);
    }
    mp_vec_grow_to(&numbers, 1500);
    static const uint32_t more[] = {7, 8};
    mp_vec_add_all(&numbers, more, 2);
    ck_assert_uint_eq(numbers.count, 1502);
    ck_assert_uint_eq(numbers.at[999], 2997);
    ck_assert_uint_eq(numbers.at[1000], 0);
    ck_assert_uint_eq(numbers.at[1501], 8);
    ck_assert_uint_eq(*mp_map_at(&map, 500, &added), 499);
    ck_assert(!added);
    void *nothing = mp_alloc(0);
    ck_assert_ptr_nonnull(nothing);
    free(nothing);
    mp_vec_free(&numbers);
    mp_map_free(&map);
}

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *tcase = tcase_create("memory");
    tcase_add_exit_test(tcase, the_hook_ends_the_program, 7);
    tcase_add_exit_test(tcase, a_vector_ends_it_too, 7);
    tcase_add_exit_test(tcase, a_buffer_ends_it_where_there_is_a_hook, 7);
    tcase_add_test(tcase, a_part_of_a_text_may_be_nothing);
    tcase_add_test(tcase, an_attempt_goes_on);
    tcase_add_test(tcase, what_there_is_is_given);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
