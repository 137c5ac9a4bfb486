/* Temporaries of an optimizer that ranks divide, against numbers worked out by hand. */
#include "analysis/advise/passes.h"
#include "base/memory.h"
#include "leakbench/world.h"
#include "unit/suite.h"

/* What one rank of `ranks` is said to take, where `places` allocate and free one block for each of four parameters. */
static uint64_t divided(const uint64_t (*bytes)[4], unsigned places, bool at_once, unsigned ranks)
{
    struct world world;
    uint32_t stacks[2], temporaries[8];
    unsigned count = 0;
    world_start(&world, 1, 1);
    world.threads = 1;
    uint32_t state = world_alloc(&world, world_path(&world, "/home/ada/made.py:init:1", W_TORCH), 1000);
    for (unsigned i = 0; i < places; i++)
        stacks[i] = world_path(&world, i ? "/home/ada/sgd.py:step:2" : "/home/ada/sgd.py:step:1", W_TORCH);
    for (unsigned parameter = 0; parameter < 4; parameter++) {
        unsigned first = count;
        for (unsigned i = 0; i < places; i++) {
            temporaries[count++] = world_alloc(&world, stacks[i], bytes[i][parameter]);
            if (!at_once) world_release(&world, temporaries[count - 1]);
        }
        for (unsigned i = first; at_once && i < count; i++)
            world_release(&world, temporaries[i]);
    }
    struct mp_model *model = world_build(&world);
    struct mp_torch_history history = {.track = model->blocks.track[state]};
    struct mp_changes changes = {0};
    struct mp_passes passes = {0};
    struct mp_estimator e = {.model = model,
                             .history = &history,
                             .changes = &changes,
                             .category = mp_alloc_zeroed(model->blocks.count, 1),
                             .births = mp_alloc_zeroed(model->blocks.count, sizeof *e.births),
                             .ranks = ranks};
    const uint32_t first = model->blocks.alloc_event[temporaries[0]];
    const struct mp_phase_turn turn = {.first = first, .backward = MP_NONE, .phase = MP_PHASE_OPTIMIZER};
    mp_vec_add(&e.phases.turns, turn);
    for (unsigned i = 0; i < 4; i++)
        mp_vec_add(&e.sizes, (uint64_t)1000);
    e.category[state] = MP_CATEGORY_OPTIMIZER_STATE;
    for (unsigned i = 0; i < count; i++)
        e.category[temporaries[i]] = MP_CATEGORY_TEMPORARY;

    mp_sharding_find(&e, &passes);
    ck_assert_uint_ge(changes.count, 1);
    ck_assert_int_eq(changes.at[0].what, MP_CHANGE_ZERO_1);
    uint64_t found = 0;
    for (size_t i = 0; i < changes.at[0].edits.extras.count; i++)
        if (changes.at[0].edits.extras.at[i].made == first) found += changes.at[0].edits.extras.at[i].bytes;

    for (size_t i = 0; i < changes.count; i++)
        mp_edits_free(&changes.at[i].edits);
    mp_vec_free(&changes);
    mp_vec_free(&e.phases.turns);
    mp_vec_free(&e.sizes);
    free(e.category);
    free(e.births);
    mp_model_free(model);
    world_free(&world);
    return found;
}

/* Of two ranks one takes 100, the other 50 + 30 + 25: it has more in all, and needs 50 + 30 at a time. */
START_TEST(the_rank_counts_that_needs_most_at_a_time)
{
    const uint64_t bytes[1][4] = {{100, 50, 30, 25}};
    ck_assert_uint_eq(divided(bytes, 1, false, 2), 100);
}
END_TEST

/* Each parameter takes 60 and then 40, never both: no rank needs more than 60. Where it takes both, it needs 100. */
START_TEST(no_rank_needs_more_than_all_did_at_a_time)
{
    const uint64_t bytes[2][4] = {{60, 60, 60, 60}, {40, 40, 40, 40}};
    ck_assert_uint_eq(divided(bytes, 2, false, 2), 60);
    ck_assert_uint_eq(divided(bytes, 2, false, 4), 60);
    ck_assert_uint_eq(divided(bytes, 2, true, 2), 100);
}
END_TEST

START_TEST(ranks_without_a_parameter_change_nothing)
{
    const uint64_t bytes[1][4] = {{100, 50, 30, 25}};
    ck_assert_uint_eq(divided(bytes, 1, false, 4), 100);
    ck_assert_uint_eq(divided(bytes, 1, false, 100000), 100);
}
END_TEST

MP_SUITE("sharding", the_rank_counts_that_needs_most_at_a_time, no_rank_needs_more_than_all_did_at_a_time,
         ranks_without_a_parameter_change_nothing)
