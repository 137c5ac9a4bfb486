/* The table of nodes: a node is found as long as its entry is in the table, and never another node's entry. */
#include "capture/torch/creations.h"
#include "capture/torch/torch.h"

#include <pthread.h>

#include "unit/suite.h"

static struct mp_captured made(uint64_t thread, uint64_t number)
{
    return (struct mp_captured){.stack = (uint32_t)(number * 7 + thread), .module = (uint32_t)(number ^ thread << 20)};
}

/* True if the node is found. Aborts if the found one is not the right one. */
static bool finds(uint32_t generation, uint64_t thread, uint64_t number)
{
    struct mp_captured found, right = made(thread, number);
    if (!mp_creation_find(generation, thread, number, &found)) return false;
    if (found.stack != right.stack || found.module != right.module) ck_abort();
    return true;
}

START_TEST(a_node_is_found_by_its_thread_and_number)
{
    ck_assert(!finds(1, 1, 0));
    for (uint64_t thread = 1; thread <= 8; thread++)
        for (uint64_t number = 0; number < 1000; number++)
            mp_creation_put(1, thread, number, made(thread, number));
    uint32_t kept = 0;
    for (uint64_t thread = 1; thread <= 8; thread++)
        for (uint64_t number = 0; number < 1000; number++)
            kept += finds(1, thread, number);
    ck_assert_uint_eq(kept, 8000);
    ck_assert(!finds(1, 9, 0) && !finds(1, 1, 1000));
    ck_assert(!finds(2, 1, 0)); /* ids of another session */
}

START_TEST(the_oldest_give_way)
{
    const uint64_t count = MP_CREATIONS + 1000;
    for (uint64_t number = 0; number < count; number++)
        mp_creation_put(1, 5, number, made(5, number));
    uint64_t wrong = 0;
    for (uint64_t number = 0; number < count; number++)
        wrong += finds(1, 5, number) != (number >= count - MP_CREATIONS);
    ck_assert_uint_eq(wrong, 0);
}

/* A thread that adds as many nodes as the table has entries, so that the threads' nodes share entries. */
static void *give(void *context)
{
    uint64_t thread = (uint64_t)(uintptr_t)context;
    for (uint64_t number = 0; number < MP_CREATIONS; number++) {
        mp_creation_put(1, thread, number, made(thread, number));
        finds(1, thread, number);
    }
    return NULL;
}

START_TEST(threads_never_see_what_is_another_ones)
{
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert(!pthread_create(&threads[i], NULL, give, (void *)(i + 1)));
    for (uintptr_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (uint64_t thread = 1; thread <= 4; thread++)
        for (uint64_t number = 0; number < MP_CREATIONS; number++)
            finds(1, thread, number);
}

MP_SUITE("creations", a_node_is_found_by_its_thread_and_number, the_oldest_give_way,
         threads_never_see_what_is_another_ones)
