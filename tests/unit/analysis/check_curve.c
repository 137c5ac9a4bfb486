#include "unit/suite.h"

#include "analysis/advise/curve.h"

#define STEPS 100000

static uint64_t seed = 7;

static uint64_t chance(uint64_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % below;
}

/* Makes steps, some of them at events of other tracks, and some at no event, like those that a change adds. */
static void make(struct mp_torch_history *history, struct mp_model *model, size_t steps)
{
    uint32_t event = 0;
    for (size_t i = 0; i < steps; i++) {
        struct mp_torch_step step = {.event = MP_NONE};
        event += (uint32_t)chance(2);
        if (chance(4)) step.event = event++;
        mp_vec_add(&history->steps, step);
    }
    model->events.count = event + chance(3);
}

/* The event before which a step has happened, by a plain search. */
static uint32_t before(const struct mp_torch_history *history, const struct mp_model *model, size_t step)
{
    if (history->steps.at[step].event != MP_NONE) return history->steps.at[step].event + 1;
    for (size_t i = step; i < history->steps.count; i++)
        if (history->steps.at[i].event != MP_NONE) return history->steps.at[i].event;
    return (uint32_t)model->events.count;
}

struct level {
    uint32_t event;
    uint64_t allocated, reserved;
};

/* The curve's highest level until `event`; `at`: the level at its last point not after the event. */
static uint64_t highest_until(const struct mp_curve *curve, uint32_t event)
{
    uint64_t most = 0;
    for (size_t i = 0; i < curve->count && curve->at[i].event <= event; i++)
        if (curve->at[i].allocated > most) most = curve->at[i].allocated;
    return most;
}

static void check(size_t steps)
{
    struct mp_torch_history history = {0};
    struct mp_model model = {0};
    struct mp_curve curve = {0};
    struct mp_curve_maker maker;
    struct level *levels = calloc(steps + 1, sizeof *levels), last = {0};
    uint64_t most = 1000, most_reserved = 2000;
    make(&history, &model, steps);
    mp_curve_start(&maker, &model, &history, &curve);
    mp_curve_watch(&maker, MP_TORCH_BEFORE_STEPS, 1000, 2000);
    for (size_t i = 0; i < steps; i++) {
        levels[i] = (struct level){before(&history, &model, i), chance(1 << 20), chance(1 << 20)};
        if (levels[i].allocated > most) most = levels[i].allocated;
        if (levels[i].reserved > most_reserved) most_reserved = levels[i].reserved;
        mp_curve_watch(&maker, i, levels[i].allocated, levels[i].reserved);
        last = levels[i];
    }
    mp_curve_end(&maker);
    ck_assert_uint_le(curve.count, MP_CURVE_POINTS);
    ck_assert_uint_eq(curve.at[0].event, 0);
    ck_assert_uint_eq(curve.at[0].allocated, 1000);
    ck_assert_uint_eq(curve.at[0].reserved, 2000);
    uint64_t found = 0, found_reserved = 0;
    for (size_t i = 0; i < curve.count; i++) {
        if (curve.at[i].allocated > found) found = curve.at[i].allocated;
        if (curve.at[i].reserved > found_reserved) found_reserved = curve.at[i].reserved;
        if (i) ck_assert_uint_ge(curve.at[i].event, curve.at[i - 1].event);
    }
    ck_assert_uint_eq(found, most);
    ck_assert_uint_eq(found_reserved, most_reserved);
    ck_assert_uint_eq(curve.at[curve.count - 1].allocated, last.allocated);
    /* Each new highest level is in the curve at the end of its group of points, and not earlier. */
    uint64_t so_far = 1000;
    size_t group = steps < MP_CURVE_POINTS ? 1 : steps / (MP_CURVE_POINTS / 2 - 1) + 1;
    for (size_t i = 0; i < steps; i += 1 + steps / 500) {
        so_far = 1000;
        for (size_t k = 0; k < steps && levels[k].event <= levels[i].event; k++)
            if (levels[k].allocated > so_far) so_far = levels[k].allocated;
        ck_assert_uint_le(highest_until(&curve, levels[i].event), so_far);
        size_t later = i + 2 * group < steps ? i + 2 * group : steps - 1;
        ck_assert_uint_ge(highest_until(&curve, levels[later].event), so_far);
    }
    mp_vec_free(&curve);
    mp_vec_free(&history.steps);
    free(levels);
}

START_TEST(test_few_steps_are_all_there)
{
    check(1);
    check(40);
    check(MP_CURVE_POINTS - 1);
}

START_TEST(test_many_steps_are_a_bounded_envelope)
{
    check(MP_CURVE_POINTS);
    check(MP_CURVE_POINTS + 1);
    check(STEPS);
    check(STEPS + 17);
}

MP_SUITE("curve", test_few_steps_are_all_there, test_many_steps_are_a_bounded_envelope)
