/* The table of live blocks, compared with a plain array over random operations. */
#include "capture/cuda/live.h"

#include <string.h>

#include "unit/suite.h"

#define ENTRIES 3000

static struct mp_live known[ENTRIES];
static size_t count;

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static struct mp_live *find(unsigned class, uint64_t value)
{
    for (size_t i = 0; i < count; i++)
        if (known[i].class == class && known[i].value == value) return &known[i];
    return NULL;
}

static void drop(struct mp_live *entry)
{
    *entry = known[--count];
}

static bool same(const struct mp_live *a, const struct mp_live *b)
{
    return a->value == b->value && a->bytes == b->bytes && a->other == b->other && a->refs == b->refs &&
           a->class == b->class && a->context == b->context;
}

static void put(unsigned class, uint64_t value)
{
    struct mp_live entry = {
        .value = value, .bytes = next_random(1000), .context = next_random(4), .refs = 1, .class = (uint8_t) class};
    struct mp_live before, *at = find(class, value);
    if (!at && count == ENTRIES) return;
    ck_assert_int_eq(mp_live_put(&entry, &before), at != NULL);
    if (at) ck_assert(same(&before, at));
    if (!at) at = &known[count++];
    *at = entry;
}

static void take(unsigned class, uint64_t value)
{
    struct mp_live taken, *at = find(class, value);
    ck_assert_int_eq(mp_live_take(class, value, &taken), at != NULL);
    if (at) ck_assert(same(&taken, at));
    if (at) drop(at);
}

static void change(unsigned class, uint64_t value)
{
    struct mp_live after, *at = find(class, value);
    int refs = (int)next_random(3) - 1, others = (int)next_random(3) - 1;
    ck_assert_int_eq(mp_live_count(class, value, refs, others, &after), at != NULL);
    if (!at) return;
    if (at->refs || refs > 0) at->refs += (uint32_t)refs;
    if (at->other || others > 0) at->other += (uint64_t)(int64_t)others;
    ck_assert(same(&after, at));
    if (!at->refs && !at->other) drop(at);
}

static bool is_of(const struct mp_live *entry, uint64_t context)
{
    return entry->context == context;
}

static void take_all_of(uint64_t context)
{
    struct mp_live taken[MP_LIVE_TAKEN];
    for (unsigned found; (found = mp_live_take_some(is_of, context, taken));)
        for (unsigned i = 0; i < found; i++) {
            struct mp_live *at = find(taken[i].class, taken[i].value);
            ck_assert_ptr_nonnull(at);
            ck_assert(same(at, &taken[i]));
            drop(at);
        }
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_ne(known[i].context, context);
}

START_TEST(random_operations_agree_with_an_array)
{
    struct mp_live found;
    for (int i = 0; i < 300000; i++) {
        /* Few values, so that most occur again; neighbouring ones, as from allocators. */
        unsigned class = 1 + (unsigned)next_random(3);
        uint64_t value = 0x7f0000000000 + next_random(1500) * 512;
        switch (next_random(4)) {
        case 0:
        case 1:
            put(class, value);
            break;
        case 2:
            take(class, value);
            break;
        default:
            change(class, value);
        }
        if (i % 20000 == 19999) take_all_of(next_random(4));
    }
    for (size_t i = 0; i < count; i++)
        ck_assert(mp_live_find(known[i].class, known[i].value, &found) && same(&found, &known[i]));
    mp_live_reset();
    ck_assert(!mp_live_find(known[0].class, known[0].value, &found));
}

START_TEST(an_older_size_changes_nothing)
{
    struct mp_live entry = {.value = 5, .refs = 1, .class = MP_LIVE_HELD}, before;
    mp_live_put(&entry, &before);
    ck_assert(mp_live_set_bytes(MP_LIVE_HELD, 5, 100, 20, &before));
    ck_assert_uint_eq(before.bytes, 0);
    ck_assert(!mp_live_set_bytes(MP_LIVE_HELD, 5, 300, 10, &before));
    ck_assert(mp_live_set_bytes(MP_LIVE_HELD, 5, 50, 20, &before));
    ck_assert_uint_eq(before.bytes, 100);
    ck_assert(!mp_live_set_bytes(MP_LIVE_HELD, 6, 50, 20, &before));
}

MP_SUITE("live", random_operations_agree_with_an_array, an_older_size_changes_nothing)
