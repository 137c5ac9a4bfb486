#include "capture/core/tag_cache.h"

#include <pthread.h>

#include "unit/suite.h"

static uint64_t hash_of(uint64_t number)
{
    uint64_t hash = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

START_TEST(what_was_put_is_found)
{
    struct mp_tag_cache cache = {0};
    ck_assert(mp_tag_cache_reset(&cache));
    for (uint32_t i = 0; i < 100000; i++) {
        ck_assert_uint_eq(mp_tag_cache_find(&cache, hash_of(i)), MP_TAG_NONE);
        mp_tag_cache_put(&cache, hash_of(i), i);
        ck_assert_uint_eq(mp_tag_cache_find(&cache, hash_of(i)), i);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        uint32_t id = mp_tag_cache_find(&cache, hash_of(i));
        ck_assert(id == i || id == MP_TAG_NONE);
        kept += id == i;
    }
    ck_assert_uint_gt(kept, 99000); /* a tenth full: hardly any entry is replaced */
    mp_tag_cache_reset(&cache);
    for (uint32_t i = 0; i < 100000; i++)
        ck_assert_uint_eq(mp_tag_cache_find(&cache, hash_of(i)), MP_TAG_NONE);
}

START_TEST(more_than_it_holds_gives_no_wrong_answer)
{
    struct mp_tag_cache cache = {0};
    ck_assert(mp_tag_cache_reset(&cache));
    for (uint32_t i = 0; i < 3u << 20; i++)
        mp_tag_cache_put(&cache, hash_of(i), i);
    for (uint32_t i = 0; i < 4u << 20; i++) {
        uint32_t id = mp_tag_cache_find(&cache, hash_of(i));
        if (id != MP_TAG_NONE && id != i) ck_abort_msg("%u instead of %u", id, i);
    }
    /* The cache always has the entry that was put last. */
    ck_assert_uint_eq(mp_tag_cache_find(&cache, hash_of((3u << 20) - 1)), (3u << 20) - 1);
}

START_TEST(ids_at_the_borders)
{
    struct mp_tag_cache cache = {0};
    ck_assert(mp_tag_cache_reset(&cache));
    mp_tag_cache_put(&cache, hash_of(1), (1u << MP_TAG_ID_BITS) - 1);
    ck_assert_uint_eq(mp_tag_cache_find(&cache, hash_of(1)), (1u << MP_TAG_ID_BITS) - 1);
    mp_tag_cache_put(&cache, hash_of(2), 1u << MP_TAG_ID_BITS); /* too large to be kept */
    ck_assert_uint_eq(mp_tag_cache_find(&cache, hash_of(2)), MP_TAG_NONE);
    mp_tag_cache_put(&cache, hash_of(3), 0);
    ck_assert_uint_eq(mp_tag_cache_find(&cache, hash_of(3)), 0);
    mp_tag_cache_put(&cache, 0, 0); /* looks like an empty slot */
    ck_assert_uint_eq(mp_tag_cache_find(&cache, 0), MP_TAG_NONE);
    ck_assert_uint_eq(mp_tag_cache_find(&cache, UINT64_MAX), MP_TAG_NONE);
}

static struct mp_tag_cache shared;
static _Atomic bool stop;

static void *look(void *context)
{
    uint64_t wrong = 0;
    while (!atomic_load(&stop))
        for (uint32_t i = 0; i < 1000; i++) {
            uint32_t id = mp_tag_cache_find(&shared, hash_of(i));
            wrong += id != i && id != MP_TAG_NONE;
        }
    *(uint64_t *)context = wrong;
    return NULL;
}

START_TEST(readers_need_no_lock)
{
    pthread_t readers[2];
    uint64_t wrong[2];
    ck_assert(mp_tag_cache_reset(&shared));
    for (int i = 0; i < 2; i++)
        ck_assert(!pthread_create(&readers[i], NULL, look, &wrong[i]));
    for (uint32_t round = 0; round < 300; round++)
        for (uint32_t i = 0; i < 1000; i++)
            mp_tag_cache_put(&shared, hash_of(i), i);
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(readers[i], NULL);
        ck_assert_uint_eq(wrong[i], 0);
    }
}

MP_SUITE("tag_cache", what_was_put_is_found, more_than_it_holds_gives_no_wrong_answer, ids_at_the_borders,
         readers_need_no_lock)
