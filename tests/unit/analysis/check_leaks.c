#include <math.h>
#include <string.h>

#include "analysis/leaks/leak_rule.h"
#include "analysis/leaks/leak_slope.h"
#include "analysis/leaks/suppress.h"
#include "base/vec.h"
#include "model/steps_infer.h"
#include "unit/model/scene.h"
#include "unit/suite.h"

#define FOR_EVER UINT32_MAX

struct lives {
    struct mp_leak_life *at;
    size_t count, room;
};

static void live(struct lives *lives, uint32_t birth, uint32_t death)
{
    struct mp_leak_life life = {birth, death, 1000, 1};
    ck_assert(mp_vec_push(lives, life));
}

static void live_of(struct lives *lives, uint32_t site, uint64_t bytes, uint32_t birth, uint32_t death)
{
    struct mp_leak_life life = {birth, death, bytes, site};
    ck_assert(mp_vec_push(lives, life));
}

static struct mp_leak_slope slope_of(const struct lives *lives, uint32_t last)
{
    struct mp_leak_slope slope;
    mp_leak_slope_find(lives->at, lives->count, last, &slope);
    return slope;
}

static struct mp_leak_evidence judge(struct lives *lives, uint32_t last)
{
    struct mp_leak_evidence evidence;
    mp_leak_judge(lives->at, lives->count, last, &evidence);
    mp_vec_free(lives);
    return evidence;
}

START_TEST(one_block_a_step_leaks)
{
    for (uint32_t births = 1; births < 100; births++) {
        struct lives lives = {0};
        for (uint32_t step = 0; step < births; step++)
            live(&lives, 10 + step, FOR_EVER);
        struct mp_leak_slope slope = slope_of(&lives, 10 + births);
        struct mp_leak_evidence evidence = judge(&lives, 10 + births);
        ck_assert_int_eq(evidence.growth == MP_GROWTH_LEAK, births >= MP_LEAK_BIRTHS);
        ck_assert_uint_eq(evidence.births, births);
        ck_assert_uint_eq(evidence.first, 10);
        ck_assert_uint_eq(slope.blocks, births);
        ck_assert_uint_eq(slope.bytes, births * 1000);
        if (births > 1) ck_assert_double_eq(slope.bytes_per_step, 1000);
    }
}

/* The rate is the growth from the first birth to the last, even if the site also has blocks for a step or two. */
START_TEST(rate_of_a_rarer_leak_among_others)
{
    struct lives lives = {0};
    for (uint32_t step = 0; step < 140; step++) {
        if (step % 7 == 0) live(&lives, step, FOR_EVER);
        live(&lives, step, step + 1);
        live(&lives, step, step + 2);
    }
    ck_assert_double_eq_tol(slope_of(&lives, 140).bytes_per_step, 1000.0 / 7, 1e-9);
    struct mp_leak_evidence evidence = judge(&lives, 140);
    ck_assert_int_eq(evidence.growth, MP_GROWTH_LEAK);
    ck_assert_uint_eq(evidence.births, 20);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

/* The rate is the bytes that the program keeps per step, and "by now" their sum. Single blocks of the same line do not
 * change the rate, whatever their size and stack, nor do blocks that live for some steps. */
START_TEST(rate_is_the_slope)
{
    static const uint32_t runs[] = {12, 16, 17, 60, 61, 200, 600, 1000};
    uint64_t random = 77;
    for (unsigned round = 0; round < 400; round++) {
        struct lives lives = {0};
        uint32_t last = runs[round % 8] - 1, every = last < 40 || round % 3 ? 1 : 1 + round % 4;
        uint32_t others = round % 2 ? 2 : 1, births = 0, final = 0;
        uint64_t bytes = 512u << next_random(&random) % 12, kept = 0, before = 0;
        bool any_size = round % 5 == 4;
        uint32_t age =
            round % 7
                ? 0
                : 2; /* age in steps of temporary blocks of the site; a block that is not older may still be freed */
        for (uint32_t step = 0; step < last; step++) {
            for (uint32_t i = 0; !step && i < 24; i++) /* blocks of the first step */
                live_of(&lives, others, next_random(&random) % 2 ? bytes : bytes * (i + 2), 0, FOR_EVER);
            if (step == last / 2 / every * every && last > 16) live_of(&lives, others, 300 * bytes, step, FOR_EVER);
            if (age) live_of(&lives, 1, 48, step, step + age);
            if (step % every) continue;
            uint64_t now = any_size ? bytes + next_random(&random) % bytes * 2 : bytes;
            live_of(&lives, 1, now, step, FOR_EVER);
            before = kept; /* without the last step's bytes, whose duration is unknown */
            kept += now;
            final = step;
            births++;
        }
        struct mp_leak_slope slope = slope_of(&lives, last);
        ck_assert_uint_eq(slope.site, 1); /* the stack that leaks, not the one with most bytes */
        ck_assert_uint_ge(slope.last + (age ? age + every - 1 : 0), final);
        ck_assert_uint_ge(slope.births + age, births);
        if (any_size)
            ck_assert_double_eq_tol(slope.bytes_per_step, (double)before / final, 0.25 * (double)before / final);
        else
            ck_assert_double_eq_tol(slope.bytes_per_step, (double)bytes / every, 1e-6 * (double)bytes);
        ck_assert_uint_le(slope.bytes, kept + (any_size ? 3 * bytes : 0)); /* the first block, and the large one counted
                                                                            * as the median */
        ck_assert_uint_ge(slope.bytes + (any_size ? kept / 3 : (age + 1) * bytes), kept);
        mp_vec_free(&lives);
    }
}

static double amount(size_t shape, uint32_t k)
{
    const double amounts[] = {4096,
                              100.0 * (k + 1),
                              4096 + 64.0 * k,
                              k % 3 ? 0 : 8192 + 500.0 * k,
                              k < 30 ? 4096 : 12288,
                              4.0 * (k + 1) * (k + 1),
                              20000 * sqrt(k + 1),
                              40000 / pow(k + 1, 0.3),
                              400000 / (k + 1.0),
                              k % 2 ? 5000 : 15000};
    return shape < sizeof amounts / sizeof *amounts ? amounts[shape] : 0;
}

/* Brute force makes the same growth for twice as many steps. The forecast is within a tenth, or there is none. */
START_TEST(a_forecast_holds_or_there_is_none)
{
    static const bool even[] = {true, true, true, true, false, false, false, false, false, true};
    for (size_t shape = 0; amount(shape, 0) > 0; shape++)
        for (uint32_t steps = 60; steps <= 240; steps *= 2) {
            struct lives lives = {0};
            double twice = 0;
            for (uint32_t k = 0; k < 2 * steps; k++) {
                uint64_t bytes = (uint64_t)amount(shape, shape == 4 ? k * 60 / steps : k);
                twice += (double)bytes;
                if (k < steps && bytes) live_of(&lives, 1, bytes, k, FOR_EVER);
            }
            struct mp_leak_slope slope = slope_of(&lives, steps);
            double off = fabs(mp_leak_slope_at(&slope, steps) / twice - 1);
            ck_assert_msg(slope.uneven ? !even[shape] : off < 0.1, "shape %zu, %u steps: %g", shape, steps, off);
            mp_vec_free(&lives);
        }
}

/* An amount that is exceptional, in a few steps only, counts as the median. A smaller or a frequent amount counts as it
 * is.
 */
START_TEST(exceptional_amounts_count_as_the_median)
{
    static const struct {
        uint32_t times; /* how many of 40 steps have another amount, evenly spread */
        uint64_t bytes; /* that amount */
        double rate;    /* 1000 bytes in the other steps; the last of the 40 does not count */
    } cases[] = {
        {1, 300000, 1000},
        {3, 2000, 1000},
        {3, 1999, (36 * 1000.0 + 3 * 1999) / 39},
        {4, 2000, (35 * 1000.0 + 4 * 2000) / 39}, /* twice the usual amount now counts as usual, too */
        {3, 700, (36 * 1000.0 + 3 * 700) / 39},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lives lives = {0};
        for (uint32_t step = 0; step < 40; step++) {
            bool other = step % 9 == 3 && step / 9 < cases[i].times;
            live_of(&lives, 1, other ? cases[i].bytes : 1000, step, FOR_EVER);
        }
        ck_assert_double_eq_tol(slope_of(&lives, 40).bytes_per_step, cases[i].rate, 1e-9);
        mp_vec_free(&lives);
    }
}

/* A cache that fills up is no leak, however late it is full. It may fill in turn, at random, several at a time or until
 * it stops. Until then it looks like a leak; shortly afterwards the verdict is open. */
START_TEST(plateaus_do_not_leak)
{
    uint64_t random = 4711;
    for (uint32_t steps = 40; steps <= 1000; steps = steps * 5 / 2)
        for (uint32_t full = steps / 2; full <= steps; full += 1 + full / 50)
            for (unsigned kind = 0; kind < 4; kind++) {
                struct lives lives = {0};
                uint32_t each = kind == 2 ? 3 : 1, holds[3000], count = 0;
                for (uint32_t step = 0; step < steps; step++)
                    for (uint32_t i = 0; i < each; i++) {
                        if (count == full * each && kind == 3) continue;
                        uint32_t at = kind ? (uint32_t)(next_random(&random) % (full * each)) : (step * each) % full;
                        if (count < full * each)
                            at = count++;
                        else
                            lives.at[holds[at]].death = step;
                        holds[at] = (uint32_t)lives.count;
                        live(&lives, step, FOR_EVER);
                    }
                size_t kept = 0; /* blocks that outlived a step */
                for (size_t i = 0; i < lives.count; i++)
                    if (lives.at[i].death > lives.at[i].birth) lives.at[kept++] = lives.at[i];
                lives.count = kept;
                enum mp_leak_growth growth = judge(&lives, steps).growth;
                if (full + 5 <= steps) ck_assert_int_eq(growth, MP_GROWTH_NONE);
                if (full + 3 <= steps) ck_assert_int_ne(growth, MP_GROWTH_LEAK);
                if (full == steps) ck_assert_int_eq(growth, MP_GROWTH_LEAK);
            }
}

START_TEST(bounded_things_do_not_leak)
{
    struct lives ring = {0}, filled = {0}, once = {0}, sawtooth = {0}, few = {0}, stopped = {0};
    for (uint32_t step = 0; step < 200; step++) {
        live(&ring, step, step + 60);
        if (step < 50) live(&filled, step, FOR_EVER);
        live(&sawtooth, step, step / 40 * 40 + 40);
        if (step % 40 == 10) live(&few, step, FOR_EVER);
        if (step % 10 == 0 && step < 100) live(&stopped, step, FOR_EVER);
    }
    live(&once, 90, FOR_EVER);
    live(&once, 90, FOR_EVER);
    struct lives failed = {0}, again = {0}, best = {0};
    uint32_t kept[] = {1, 13, 35}, late[] = {25, 28, 31, 34};
    for (size_t i = 0; i < 3; i++)
        live(&failed, kept[i], FOR_EVER);
    for (size_t i = 0; i < 4; i++)
        live(&again, late[i], FOR_EVER);
    for (uint32_t step = 9; step < 39; step += 10)
        live(&best, step, step < 29 ? step + 20 : FOR_EVER);
    ck_assert_int_eq(judge(&failed, 39).growth, MP_GROWTH_ONCE);
    ck_assert_int_eq(judge(&again, 39).growth, MP_GROWTH_ONCE);
    /* Two steps late in the recording, one after the other. */
    ck_assert_int_eq(judge(&best, 37).growth, MP_GROWTH_NONE);
    ck_assert_int_eq(judge(&ring, 199).growth, MP_GROWTH_NONE);
    ck_assert_int_eq(judge(&filled, 199).growth, MP_GROWTH_NONE);
    ck_assert_int_eq(judge(&sawtooth, 199).growth, MP_GROWTH_NONE);
    ck_assert_int_eq(judge(&stopped, 199).growth, MP_GROWTH_NONE);
    ck_assert_int_eq(judge(&once, 199).growth, MP_GROWTH_ONCE);
    ck_assert_int_eq(judge(&few, 199).growth, MP_GROWTH_FEW);
    struct lives nothing = {0};
    ck_assert_int_eq(judge(&nothing, 199).growth, MP_GROWTH_NONE);
}

START_TEST(a_sawtooth_that_climbs_leaks)
{
    struct lives lives = {0};
    uint32_t first = 0;
    for (uint32_t size = 10; size <= 80; first += size, size *= 2)
        for (uint32_t step = first; step < first + size; step++)
            live(&lives, step, size < 80 ? first + size : FOR_EVER);
    struct mp_leak_evidence evidence = judge(&lives, first);
    ck_assert_int_eq(evidence.growth, MP_GROWTH_LEAK);
    ck_assert(evidence.sawtooth);
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* The trend equals the Mann-Kendall test, without the correction for ties, since this series has no ties. The slope is
 * the median slope. */
START_TEST(trend_equals_its_definition)
{
    uint64_t state = 12345;
    for (int round = 0; round < 50; round++) {
        uint32_t at[40], count = 8 + (uint32_t)(next_random(&state) % 32), pairs = 0;
        double slopes[800], rises = 0;
        for (uint32_t i = 0; i < count; i++)
            at[i] = (uint32_t)(next_random(&state) % 100000 + i * (uint32_t)round * 100) * 64 + i;
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t k = i + 1; k < count; k++) {
                rises += at[k] > at[i] ? 1 : -1;
                slopes[pairs++] = ((double)at[k] - at[i]) / (k - i);
            }
        }
        qsort(slopes, pairs, sizeof *slopes, ascending);
        double n = count, spread = n * (n - 1) * (2 * n + 5) / 18;
        struct mp_trend trend;
        mp_trend_find(at, count, &trend);
        double z = rises > 0 ? (rises - 1) / sqrt(spread) : rises < 0 ? (rises + 1) / sqrt(spread) : 0;
        ck_assert_double_eq_tol(trend.z, z, 1e-9);
        ck_assert_double_eq_tol(trend.slope, slopes[pairs / 2], 1e-9);
    }
    static const uint32_t flat[20];
    struct mp_trend trend;
    mp_trend_find(flat, 20, &trend);
    ck_assert_double_eq(trend.z, 0);
    ck_assert_double_eq(trend.slope, 0);
}

START_TEST(suppressions_match_as_lsan_does)
{
    static const struct {
        const char *pattern;
        bool matches; /* a stack of functions "f" and "g" in file "gpu" */
    } cases[] = {{"leak:gpu", true},  {"leak:^gpu$", true}, {"leak:^pu", false},
                 {"leak:gp$", false}, {"leak:g*u", true},   {"leak:g**u$", true},
                 {"leak:*", true},    {"leak:G", false},    {"leak:gpux", false}};
    struct scene scene;
    scene_make(&scene, 5, 50);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mp_suppressions suppressions = {0};
        ck_assert(!mp_suppressions_parse(cases[i].pattern, "s", &suppressions, NULL));
        ck_assert_int_eq(mp_suppressions_find(&suppressions, scene.model, 5) != NULL, cases[i].matches);
        mp_suppressions_free(&suppressions);
    }
    struct mp_suppressions suppressions = {0};
    ck_assert(!mp_suppressions_parse("# no\n\n  leak:a \r\nleak:b", "s", &suppressions, NULL));
    ck_assert_uint_eq(suppressions.at.count, 2);
    ck_assert_str_eq(suppressions.at.at[0].pattern, "a");
    ck_assert_int_eq(mp_suppressions_parse("leak:", "s", &suppressions, NULL), MP_INVALID);
    mp_suppressions_free(&suppressions);
    scene_free(&scene);
}

START_TEST(marks_come_before_inference)
{
    struct scene scene;
    struct mp_steps marked = {0}, steps = {0};
    scene_make(&scene, 3, 300);
    mp_steps_marked(scene.model, &marked);
    mp_steps_find(scene.model, &steps);
    ck_assert_uint_gt(marked.count, 0);
    ck_assert_uint_eq(steps.count, marked.count);
    ck_assert_str_eq(mp_steps_source(&steps), "api");
    mp_steps_free(&marked);
    mp_steps_free(&steps);
    scene_free(&scene);
}

MP_SUITE("leaks", one_block_a_step_leaks, rate_of_a_rarer_leak_among_others, rate_is_the_slope,
         a_forecast_holds_or_there_is_none, exceptional_amounts_count_as_the_median, plateaus_do_not_leak,
         bounded_things_do_not_leak, a_sawtooth_that_climbs_leaks, trend_equals_its_definition,
         suppressions_match_as_lsan_does, marks_come_before_inference)
