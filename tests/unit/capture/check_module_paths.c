/* Names of modules by address, over a spool in plain memory. */
#include "capture/python/module_paths.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/capture/memory_spool.h"

static const void *at(uint64_t number)
{
    return (const void *)(uintptr_t)(0x7f0000000000 + number * 48);
}

static void name(uint64_t number, const char *format, unsigned more)
{
    char text[64];
    snprintf(text, sizeof text, format, (unsigned long long)number, more);
    mp_module_name(at(number), text);
}

/* The spool's text that the recorder would write for a module; NULL: nothing. Copied. */
static const char *path_of(uint64_t number)
{
    static _Thread_local char text[MP_MODULE_PATH + 1];
    uint32_t id = mp_module_path_id(at(number), true), length;
    if (!id) return NULL;
    const char *strings = mp_view(MP_TABLE_STRINGS)->at;
    memcpy(&length, strings + (size_t)id * 4, sizeof length);
    if (length >= sizeof text) ck_abort();
    memcpy(text, strings + (size_t)id * 4 + sizeof length, length);
    text[length] = '\0';
    return text;
}

START_TEST(names_come_back_until_the_module_dies)
{
    start(true);
    char wanted[64];
    ck_assert_ptr_null(path_of(1));
    for (uint64_t i = 0; i < 5000; i++)
        name(i * i, "Net.%llu.x%u", 7);
    for (uint64_t i = 0; i < 5000; i++) {
        snprintf(wanted, sizeof wanted, "Net.%llu.x7", (unsigned long long)(i * i));
        const char *found = path_of(i * i);
        if (!found || strcmp(found, wanted)) ck_abort_msg("%s is %s", wanted, found);
    }
    ck_assert_ptr_null(path_of(5));
    name(9, "Net.%llu.renamed", 0);
    ck_assert_str_eq(path_of(9), "Net.9.renamed");
    mp_module_name(at(9), NULL);
    ck_assert_ptr_null(path_of(9));
    mp_module_name(at(9), "Other");
    ck_assert_str_eq(path_of(9), "Other");
    mp_module_name(at(10), NULL); /* never named */
    mp_module_name(at(10), "");
    mp_module_name(NULL, "x");
    ck_assert_ptr_null(path_of(10));
}

START_TEST(long_names_end_with_a_whole_character)
{
    char path[MP_MODULE_PATH + 64];
    start(true);
    for (size_t shift = 0; shift < 4; shift++) {
        memset(path, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof path; i += 3)
            memcpy(path + i, "\xe2\x82\xac", 4);
        mp_module_name(at(shift), path);
        const char *found = path_of(shift);
        size_t length = strlen(found);
        ck_assert_uint_le(length, MP_MODULE_PATH);
        ck_assert_uint_gt(length, MP_MODULE_PATH - 3);
        ck_assert_uint_eq((length - shift) % 3, 0);
        ck_assert(!memcmp(found, path, length));
    }
}

/* A new session's spool has no texts yet, as that of a forked child. */
START_TEST(names_outlive_sessions)
{
    struct mp_spool_header *spool = start(true);
    name(3, "Net.%llu", 0);
    ck_assert_str_eq(path_of(3), "Net.3");
    for (int again = 0; again < 3; again++) {
        spool->tables[MP_TABLE_STRINGS].count = sizeof(uint32_t);
        mp_tables_front.reset();
        atomic_fetch_add(&mp_session.page->generation, 1);
        ck_assert_uint_ne(mp_table_string("something else", again + 1u), 0);
        ck_assert_str_eq(path_of(3), "Net.3");
    }
}

/* With more modules than entries, some are unknown, but none is wrong, and ended modules make room. */
START_TEST(too_many_are_forgotten_not_mixed_up)
{
    start(true);
    enum { MANY = 150000 };
    size_t known[2] = {0};
    for (unsigned round = 0; round < 2; round++) {
        char wanted[32];
        for (uint64_t i = 0; i < MANY; i++) {
            snprintf(wanted, sizeof wanted, "m%llu", (unsigned long long)i);
            mp_module_name(at(i * 3 + round), wanted);
        }
        for (uint64_t i = 0; i < MANY; i++) {
            const char *found = path_of(i * 3 + round);
            snprintf(wanted, sizeof wanted, "m%llu", (unsigned long long)i);
            if (found && strcmp(found, wanted)) ck_abort_msg("%s is %s", wanted, found);
            known[round] += found != NULL;
        }
        for (uint64_t i = 0; i < MANY; i++)
            mp_module_name(at(i * 3 + round), NULL);
    }
    ck_assert_uint_gt(known[0], 20000);
    ck_assert_uint_gt(known[1], 20000);
}

#define PLACES 300
static _Atomic bool over;

static void *come_and_go(void *context)
{
    unsigned seed = (unsigned)(uintptr_t)context;
    for (unsigned i = 0; i < 60000; i++) {
        uint64_t place = (unsigned)rand_r(&seed) % PLACES;
        if (rand_r(&seed) % 3)
            name(place, "m%llu.%u", i % 50);
        else
            mp_module_name(at(place), NULL);
    }
    return NULL;
}

static void *look(void *context)
{
    unsigned seed = (unsigned)(uintptr_t)context;
    uintptr_t seen = 0;
    while (!atomic_load(&over)) {
        uint64_t place = (unsigned)rand_r(&seed) % PLACES;
        char wanted[32];
        const char *found = path_of(place);
        int length = snprintf(wanted, sizeof wanted, "m%llu.", (unsigned long long)place);
        if (found && strncmp(found, wanted, (size_t)length)) ck_abort_msg("%s is %s", wanted, found);
        seen += found != NULL;
    }
    return (void *)seen;
}

START_TEST(threads_never_see_a_name_of_another_module)
{
    start(true);
    pthread_t writers[2], readers[3];
    for (uintptr_t i = 0; i < 2; i++)
        ck_assert(!pthread_create(&writers[i], NULL, come_and_go, (void *)(i + 1)));
    for (uintptr_t i = 0; i < 3; i++)
        ck_assert(!pthread_create(&readers[i], NULL, look, (void *)(i + 100)));
    for (size_t i = 0; i < 2; i++)
        pthread_join(writers[i], NULL);
    atomic_store(&over, true);
    uintptr_t seen = 0;
    for (size_t i = 0; i < 3; i++) {
        void *result;
        pthread_join(readers[i], &result);
        seen += (uintptr_t)result;
    }
    ck_assert_uint_gt(seen, 0);
}

MP_SUITE("module_paths", names_come_back_until_the_module_dies, long_names_end_with_a_whole_character,
         names_outlive_sessions, too_many_are_forgotten_not_mixed_up, threads_never_see_a_name_of_another_module)
