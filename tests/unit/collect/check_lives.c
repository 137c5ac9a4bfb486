/* Lives that outlived a step, against a plain list of all lives. Exactly the lives that cross a border between units
 * are known, however coarse the units have become. */
#include "collect/recording/lives.h"

#include <stdlib.h>
#include <string.h>

#include "unit/suite.h"

enum { PLACES = 400, STEPS = 3 * MP_LIVES_UNITS, MANY = 400000 };

static uint64_t state = 5;

static uint32_t chance(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)((state >> 33) % below);
}

struct life {
    uint64_t bytes;
    uint32_t stack, birth, death; /* steps */
    uint8_t kind;
    uint16_t track;
};

struct world {
    struct mp_ledger ledger;
    struct mp_lives lives;
    struct life at[PLACES]; /* bytes 0: nothing */
    struct life *ended;
    size_t ended_count;
    uint64_t *begun_ns;
    uint32_t steps;
};

static void change(struct world *world)
{
    uint32_t place = chance(PLACES);
    struct life *life = &world->at[place];
    struct mp_event event = {.address = 4096 * (place + 1), .track = (uint16_t)(place % 3)};
    struct mp_error error;
    bool known;
    if (life->bytes) {
        ck_assert(!mp_ledger_free(&world->ledger, &event, &known, &error) && known);
        mp_lives_end(&world->lives, &world->ledger);
        life->death = world->steps;
        if (life->birth && world->ended_count < MANY) world->ended[world->ended_count++] = *life;
        life->bytes = 0;
        return;
    }
    *life = (struct life){1 + chance(5000), chance(90), world->steps, 0, (uint8_t)chance(5), event.track};
    event.bytes = life->bytes;
    event.stack = life->stack;
    event.kind = life->kind;
    ck_assert(!mp_ledger_alloc(&world->ledger, &event, NULL, &error));
}

static int by_all(const void *left, const void *right)
{
    return memcmp(left, right, sizeof(struct mp_life));
}

/* Steps from 1, in units of `each`, which are counted from 0. */
static void check(const struct world *world)
{
    const struct mp_lives *lives = &world->lives;
    uint32_t each = 1u << lives->shift;
    size_t count = 0;
    struct mp_life *wanted = calloc(world->ended_count + 1, sizeof *wanted),
                   *got = calloc(lives->ended.count + 1, sizeof *got);
    for (size_t i = 0; i < world->ended_count; i++) {
        const struct life *from = &world->ended[i];
        uint32_t birth = (from->birth - 1) / each, death = (from->death - 1) / each;
        if (birth == death) continue;
        wanted[count].bytes = from->bytes;
        wanted[count].stack = from->stack;
        wanted[count].birth = (uint16_t)birth;
        wanted[count].death = (uint16_t)death;
        wanted[count].track = from->track;
        wanted[count++].kind = from->kind;
    }
    ck_assert_uint_eq(lives->ended.count, count);
    for (size_t i = 0; i < count; i++) { /* without the padding between members */
        const struct mp_life *from = &lives->ended.at[i];
        got[i].bytes = from->bytes;
        got[i].stack = from->stack;
        got[i].birth = from->birth;
        got[i].death = from->death;
        got[i].track = from->track;
        got[i].kind = from->kind;
    }
    qsort(wanted, count, sizeof *wanted, by_all);
    qsort(got, count, sizeof *got, by_all);
    ck_assert(!memcmp(wanted, got, count * sizeof *got));
    free(wanted);
    free(got);
    ck_assert_uint_eq(lives->begun_ns.count, (world->steps + each - 1) / each);
    for (size_t i = 0; i < lives->begun_ns.count; i++)
        ck_assert_uint_eq(lives->begun_ns.at[i], world->begun_ns[i * each + 1]);
    ck_assert_uint_eq(lives->steps, world->steps);
    ck_assert_uint_lt(lives->begun_ns.count, MP_LIVES_UNITS + 1);
}

static struct world *new_world(void)
{
    struct world *world = calloc(1, sizeof *world);
    world->ended = calloc(MANY, sizeof *world->ended);
    world->begun_ns = calloc(STEPS + 10, sizeof *world->begun_ns);
    return world;
}

static void step(struct world *world, enum mp_lives_source source)
{
    world->steps++;
    world->begun_ns[world->steps] = 1000 * world->steps + chance(900);
    mp_lives_step(&world->lives, &world->ledger, source, world->begun_ns[world->steps]);
}

static void free_world(struct world *world)
{
    mp_lives_free(&world->lives);
    mp_ledger_free_all(&world->ledger);
    free(world->ended);
    free(world->begun_ns);
    free(world);
}

START_TEST(lives_that_cross_a_border_are_kept)
{
    struct world *world = new_world();
    for (int i = 0; i < 300; i++)
        change(world); /* before the first step: of no birth that is known */
    for (int i = 0; i < STEPS; i++) {
        step(world, MP_LIVES_MARKED);
        for (uint32_t k = chance(12); k--;)
            change(world);
        if (i % 256 == 7) check(world);
    }
    check(world);
    ck_assert_uint_eq(world->lives.shift, 2);
    free_world(world);
}

/* Better steps discard worse ones, and later worse ones are ignored. */
START_TEST(the_best_steps_count)
{
    struct world *world = new_world();
    for (int source = MP_LIVES_OPTIMIZER; source <= MP_LIVES_MARKED; source++) {
        world->steps = 0;
        world->ended_count = 0;
        for (size_t i = 0; i < PLACES; i++)
            world->at[i].birth = 0; /* live blocks were born before the first of these steps */
        for (int i = 0; i < 50; i++) {
            step(world, (enum mp_lives_source)source);
            for (int worse = MP_LIVES_OPTIMIZER; worse < source; worse++)
                mp_lives_step(&world->lives, &world->ledger, (enum mp_lives_source)worse, 1);
            for (uint32_t k = chance(20); k--;)
                change(world);
        }
        check(world);
        ck_assert_int_eq(world->lives.source, source);
    }
    free_world(world);
}

/* With more lives than room, units become coarser, and then the oldest lives are forgotten. */
START_TEST(there_is_an_end_to_them)
{
    struct world *world = new_world();
    uint64_t most = 0, last_death = 0;
    for (int i = 0; i < 1200; i++) {
        step(world, MP_LIVES_MARKED);
        for (int k = 0; k < 1500; k++)
            change(world);
        if (world->lives.ended.count > most) most = world->lives.ended.count;
    }
    ck_assert_uint_le(most, MP_LIVES_ENDED);
    ck_assert_uint_gt(most, MP_LIVES_ENDED / 2);
    mp_vec_each (const struct mp_life, life, &world->lives.ended) {
        ck_assert_uint_lt(life->birth, life->death);
        ck_assert_uint_ge(life->death, last_death);
        last_death = life->death;
    }
    ck_assert_uint_eq(last_death, mp_lives_unit(&world->lives, world->lives.steps)); /* the newest are there */
    free_world(world);
}

MP_SUITE("lives", lives_that_cross_a_border_are_kept, the_best_steps_count, there_is_an_end_to_them)
