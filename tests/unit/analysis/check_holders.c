#include "analysis/holders/holders.h"

#include <string.h>

#include "analysis/holders/pinned_cache.h"
#include "analysis/sites/peak.h"
#include "base/clock.h"
#include "base/words.h"
#include "leakbench/world.h"
#include "unit/suite.h"

#define BLOCKS 12

/* A program with one site whose blocks live to the end, and the holder found for each block. */
static struct mp_model *make(struct world *world)
{
    world_start(world, 5, 4);
    world->threads = 1;
    uint32_t site = world_path(world, "train.py:main:5", W_TORCH);
    for (size_t i = 0; i < BLOCKS; i++)
        world_alloc(world, site, 100 + i);
    world_begin_step(world);
    struct mp_model *model = world_build(world);
    ck_assert_uint_eq(model->blocks.count, BLOCKS);
    return model;
}

static void hold(struct mp_model *model, uint32_t block, const char *path, enum mp_holder_kind kind, bool certain)
{
    struct mp_model_holder holder = {.block = block,
                                     .look = (uint32_t)model->looks.count,
                                     .since = (uint32_t)model->looks.count,
                                     .path = mp_intern_text(&model->strings, path),
                                     .kind = (uint8_t)kind,
                                     .certain = certain};
    mp_vec_add(&model->holders, holder);
}

static void end_look(struct mp_model *model, bool complete)
{
    struct mp_model_look look = {.time_ns = UINT64_MAX, .complete = complete};
    mp_vec_add(&model->looks, look);
}

struct wanted {
    const char *path;
    uint64_t blocks;
};

/* The holders of the only site, by decreasing bytes. */
static void same(const struct mp_model *model, bool only_last, const struct wanted *wanted, size_t count)
{
    struct mp_holders holders;
    mp_holders_find(model, only_last, &holders);
    ck_assert_uint_eq(holders.sites.count, 1);
    ck_assert_uint_eq(holders.holders.count, count);
    uint64_t blocks = 0, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        ck_assert_str_eq(holders.holders.at[i].path, wanted[i].path);
        ck_assert_uint_eq(holders.holders.at[i].blocks, wanted[i].blocks);
        blocks += wanted[i].blocks;
        bytes += holders.holders.at[i].bytes;
    }
    ck_assert_uint_eq(holders.sites.at[0].blocks, blocks);
    ck_assert_uint_eq(holders.sites.at[0].bytes, bytes);
    mp_holders_free(&holders);
}

static void same_in_any_order(struct mp_model *model, const struct wanted *wanted, size_t count)
{
    struct mp_holders holders;
    mp_holders_find(model, false, &holders);
    ck_assert_uint_eq(holders.holders.count, count);
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < count && strcmp(holders.holders.at[at].path, wanted[i].path) != 0)
            at++;
        ck_assert_msg(at < count, "no %s", wanted[i].path);
        ck_assert_uint_eq(holders.holders.at[at].blocks, wanted[i].blocks);
    }
    mp_holders_free(&holders);
}

START_TEST(entries_of_one_container_are_one_holder)
{
    struct world world;
    struct mp_model *model = make(&world);
    static const char *const paths[BLOCKS] = {"a[0].x",       "a[1].x",       "a['it\\'s] odd'].x", "a[2].y",
                                              "b[0]['k'][1]", "b[0]['l'][2]", "a[0].x[3]",          "a[\"[\"].x",
                                              "c[",           "c[1]",         "b[0]['k'][5]",       "a[4].x"};
    for (uint32_t i = 0; i < BLOCKS; i++)
        hold(model, i, paths[i], MP_HOLDER_LIST, true);
    end_look(model, true);
    static const struct wanted wanted[] = {{"a[*].x", 5}, {"b[0][*][*]", 3}, {"c[1]", 1},
                                           {"c[", 1},     {"a[0].x[3]", 1},  {"a[2].y", 1}};
    same(model, false, wanted, 6);
    mp_model_free(model);
    world_free(&world);
}

START_TEST(other_kinds_and_doubts_stay_apart)
{
    struct world world;
    struct mp_model *model = make(&world);
    for (uint32_t i = 0; i < BLOCKS; i++)
        hold(model, i, i % 2 ? "a[1]" : "a[0]", i % 2 ? MP_HOLDER_DICT : MP_HOLDER_LIST, true);
    end_look(model, true);
    static const struct wanted wanted[] = {{"a[1]", 6}, {"a[0]", 6}};
    same(model, false, wanted, 2);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        model->holders.at[i].kind = MP_HOLDER_LIST;
        model->holders.at[i].certain = i % 2;
    }
    same(model, false, wanted, 2);
    mp_model_free(model);
    world_free(&world);
}

START_TEST(what_no_path_leads_to)
{
    for (int complete = 0; complete < 2; complete++) {
        struct world world;
        struct mp_model *model = make(&world);
        for (uint32_t i = 0; i < 4; i++)
            hold(model, i, "kept[0]", MP_HOLDER_LIST, true);
        end_look(model, complete);
        struct wanted wanted[] = {{complete ? "native code" : "not found", BLOCKS - 4}, {"kept[0]", 4}};
        same(model, false, wanted, 2);
        mp_model_free(model);
        world_free(&world);
    }
}

/* Blocks of the cache stay live when no tensor uses them. An incomplete look cannot tell. */
START_TEST(pinned_memory_that_no_tensor_uses)
{
    for (int complete = 0; complete < 2; complete++) {
        struct world world;
        struct mp_pinned_cache cache;
        world_start(&world, 5, 4);
        world.threads = 1;
        uint32_t cached = world_path(&world, "pin.py:CachingHostAllocatorImpl:5", W_TORCH);
        uint32_t other = world_path(&world, "pin.py:main:6", W_TORCH);
        for (size_t i = 0; i < 4; i++)
            world_alloc(&world, i < 3 ? cached : other, 100 << i);
        world_begin_step(&world);
        struct mp_model *model = world_build(&world);
        for (uint32_t i = 0; i < 4; i++)
            model->blocks.kind[i] = MP_KIND_PINNED;
        hold(model, 1, "buffer", MP_HOLDER_LIST, true);
        end_look(model, complete);
        mp_pinned_cache_find(model, &cache);
        ck_assert_uint_eq(cache.blocks, 3);
        ck_assert_uint_eq(cache.bytes, 700);
        ck_assert_uint_eq(cache.unused, complete ? 500 : MP_BYTES_UNKNOWN);
        mp_model_free(model);
        world_free(&world);
    }
}

/* The site's note of blocks that a look left out, if it has a block whose holder was not found. */
START_TEST(why_a_holder_is_missing)
{
    static const char note[] = "the look was out of time (200 ms): 5 of some 9 objects";
    for (uint32_t found = BLOCKS - 1; found <= BLOCKS; found++) {
        struct world world;
        struct mp_holders holders;
        struct mp_model *model = make(&world);
        for (uint32_t i = 0; i < found; i++)
            hold(model, i, "kept[0]", MP_HOLDER_LIST, true);
        end_look(model, false);
        model->looks.at[0].note = mp_intern_text(&model->strings, note);
        mp_holders_find(model, false, &holders);
        ck_assert_uint_eq(holders.sites.count, 1);
        const char *said = holders.sites.at[0].note;
        ck_assert_str_eq(holders.note, note);
        if (found == BLOCKS)
            ck_assert_ptr_null(said);
        else
            ck_assert_str_eq(said, note);
        mp_holders_free(&holders);
        mp_model_free(model);
        world_free(&world);
    }
    ck_assert_ptr_nonnull(strstr(mp_holders_remedy(note), "--budget 2s"));
    ck_assert_ptr_nonnull(mp_holders_remedy("3 of 5 holders were found and not named in time"));
    ck_assert_ptr_null(mp_holders_remedy("the look was out of time (2000 ms): 5 of some 9 objects"));
    ck_assert_ptr_null(mp_holders_remedy("a backward pass is running, so graphs were not looked at"));
}

START_TEST(what_is_known_of_blocks_that_no_path_leads_to)
{
    struct world world;
    struct mp_model *model = make(&world);
    for (uint32_t i = 0; i < 4; i++)
        hold(model, i, "kept[0]", MP_HOLDER_LIST, true);
    for (uint32_t i = 2; i < BLOCKS; i++) {
        uint64_t stream = i % 2 ? 0 : 0x5500, pool = i < 8 ? UINT64_C(3) << 32 : 0;
        struct mp_model_request known = {.block = i, .request = {.bytes = 5, .stream = stream, .pool = pool}};
        mp_vec_add(&model->requests, known);
    }
    end_look(model, true);
    static const struct wanted wanted[] = {{"kept[0]", 4},
                                           {"native code, stream 0x5500", 2},
                                           {"native code", 2},
                                           {"native code, private pool 3,0", 2},
                                           {"native code, private pool 3,0, stream 0x5500", 2}};
    same_in_any_order(model, wanted, 5);
    mp_model_free(model);
    world_free(&world);
}

START_TEST(the_last_look_alone)
{
    struct world world;
    struct mp_model *model = make(&world);
    for (uint32_t i = 0; i < BLOCKS; i++)
        hold(model, i, "before", MP_HOLDER_ATTRIBUTE, true);
    end_look(model, true);
    same(model, false, (struct wanted[]){{"before", BLOCKS}}, 1);
    same(model, true, (struct wanted[]){{"before", BLOCKS}}, 1);
    for (uint32_t i = 0; i < 3; i++)
        model->holders.at[i].look = 1;
    end_look(model, true);
    same(model, true, (struct wanted[]){{"before", 3}}, 1);
    mp_model_free(model);
    world_free(&world);
}

START_TEST(advice_only_where_the_path_shows_it)
{
    static const struct {
        const char *path;
        enum mp_holder_kind kind;
        bool gradients;
        const char *says; /* NULL: nothing */
    } cases[] = {
        {"trainer.losses[*].grad_fn → AddmmBackward0._saved_mat1", MP_HOLDER_GRAPH, false, ".detach()"},
        {"weight.grad.grad_fn → MulBackward0._saved_self", MP_HOLDER_GRAPH, false, "create_graph=True"},
        {"node → MulBackward0._saved_self", MP_HOLDER_GRAPH, false, NULL},
        {"model.fc._forward_hooks[5].seen[*]", MP_HOLDER_HOOK, false, "remove()"},
        {"embedding[*]", MP_HOLDER_CACHE, false, "maxsize"},
        {"errors[*].__traceback__ → work().batch", MP_HOLDER_TRACEBACK, false, "clear_frames"},
        {"the exception being handled.__traceback__ → work().batch", MP_HOLDER_TRACEBACK, false, NULL},
        {"add.into", MP_HOLDER_DEFAULT, false, "None"},
        {"main().batch", MP_HOLDER_LOCAL, false, "del it before the next iteration"},
        {"main().losses[*]", MP_HOLDER_LOCAL, false, NULL},
        {"main().trainer.batch", MP_HOLDER_LOCAL, false, NULL},
        {"model.weight.grad", MP_HOLDER_ATTRIBUTE, true, "set_to_none=True"},
        {"cam.grad", MP_HOLDER_ATTRIBUTE, false, NULL},
        {"history[*]", MP_HOLDER_LIST, true, NULL},
        {"rows[*].base (8 of 256 KiB used)", MP_HOLDER_LIST, false, ".clone()"},
        {"native code", MP_HOLDER_NATIVE, false, NULL},
        {"native code → hooks of autograd → [*].z.grad_fn", MP_HOLDER_NATIVE, false, "cannot see the cycle"},
        {"native code → grad_fn.variable.grad", MP_HOLDER_NATIVE, false, "create_graph=True"},
        {"native code → grad_fn → ReluBackward0._saved_result", MP_HOLDER_NATIVE, false, NULL},
        {"not found", MP_HOLDER_UNKNOWN, false, NULL},
        {"a cycle of ClampBackward that gc has not collected yet → ClampBackward.kept[0]", MP_HOLDER_UNKNOWN, false,
         "save_for_backward"},
        {"a cycle of Box that gc has not collected yet → Box.kept[*]", MP_HOLDER_UNKNOWN, false, "weakref"},
        {"a cycle of TooLong that gc has not collected yet → __traceback__ → handle().batch", MP_HOLDER_UNKNOWN, false,
         "the error whose traceback keeps the frame"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mp_holder holder = {
            .path = cases[i].path, .kind = cases[i].kind, .certain = true, .gradients = cases[i].gradients};
        const char *advice = mp_holder_advice(&holder);
        ck_assert_msg(cases[i].says ? advice && strstr(advice, cases[i].says) : !advice, "%s: %s", holder.path,
                      advice ? advice : "nothing");
        holder.certain = false; /* native code never is */
        if (holder.kind != MP_HOLDER_NATIVE) ck_assert_ptr_null(mp_holder_advice(&holder));
    }
}

/* Two sites that keep a block in each of 20 steps, and the paths that hold them. */
static void judge(const char *one, const char *other, uint64_t total_bytes, struct mp_leaks *leaks,
                  struct mp_leak_finding *first)
{
    struct world world;
    struct mp_error error;
    world_start(&world, 5, 20);
    world.threads = 1;
    world.marked = true;
    uint32_t sites[] = {world_path(&world, "train.py:main:5", W_TORCH), world_path(&world, "train.py:main:6", W_TORCH)};
    for (uint32_t step = 0; step < 20; step++) {
        world_begin_step(&world);
        world_alloc(&world, sites[0], 2000);
        world_alloc(&world, sites[1], 1000);
    }
    world_begin_step(&world);
    struct mp_model *model = world_build(&world);
    model->devices.at[model->tracks.at[W_TORCH].device].total_bytes = total_bytes;
    for (uint32_t i = 0; i < 40; i++) {
        bool native = !strncmp(i % 2 ? other : one, "native", strlen("native"));
        bool cycle = !strncmp(i % 2 ? other : one, "a cycle", strlen("a cycle"));
        enum mp_holder_kind kind = native ? MP_HOLDER_NATIVE : cycle ? MP_HOLDER_UNKNOWN : MP_HOLDER_LIST;
        hold(model, i, i % 2 ? other : one, kind, !native);
    }
    end_look(model, true);
    const struct mp_leaks_query query = {.track = MP_TRACK_NONE, .window = mp_window_all(model)};
    ck_assert_int_eq(mp_leaks_find(model, &query, leaks, &error), MP_OK);
    ck_assert_uint_eq(leaks->findings.count, 2);
    *first = leaks->findings.at[0];
    mp_leaks_free(leaks);
    mp_model_free(model);
    world_free(&world);
}

START_TEST(one_holder_is_one_cause)
{
    struct mp_leaks leaks;
    struct mp_leak_finding first;
    judge("seen[*].x", "seen[*].y.grad_fn → MulBackward0._saved_self", 1 << 30, &leaks, &first);
    ck_assert_uint_eq(leaks.leaks, 2);
    ck_assert_uint_eq(leaks.causes, 1);
    ck_assert_uint_eq(first.sum.sites, 2);
    ck_assert(first.sum.bytes_per_step > 2900 && first.sum.bytes_per_step < 3100);
    judge("native code → hooks of autograd → [*].z.grad_fn", "native code → hooks of autograd → [*].z", 1 << 30, &leaks,
          &first);
    ck_assert_uint_eq(leaks.causes, 1);
    judge("native code → grad_fn.variable.grad", "native code → grad_fn.variable", 1 << 30, &leaks, &first);
    ck_assert_uint_eq(leaks.causes, 1);
    judge("a cycle of Box that gc has not collected yet → Box.one",
          "a cycle of Box that gc has not collected yet → Box.two", 1 << 30, &leaks, &first);
    ck_assert_uint_eq(leaks.leaks, 0);
    ck_assert_int_eq(first.class, MP_LEAK_GARBAGE);
    judge("a cycle of Box that gc has not collected yet, as it is off → Box.one",
          "a cycle of Box that gc has not collected yet, as it is off → Box.two", 1 << 30, &leaks, &first);
    ck_assert_int_eq(first.class, MP_LEAK_CYCLE);
    ck_assert_uint_eq(leaks.causes, 1);
    judge("native code", "native code", 1 << 30, &leaks, &first);
    ck_assert_uint_eq(leaks.causes, 2);
    judge("native code → grad_fn → ExpBackward0._saved_result", "native code → grad_fn", 1 << 30, &leaks, &first);
    ck_assert_uint_eq(leaks.causes, 1);
    judge("seen[*]", "other[*]", 1 << 30, &leaks, &first);
    ck_assert_uint_eq(leaks.causes, 2);
    ck_assert_uint_eq(first.sum.sites, 1);
}

/* The leaks of a program that keeps a block in each of 20 steps, then frees all, then allocates at another site, with
 * or without lines of Python. */
static size_t leaks_cleared_before(bool python)
{
    struct world world;
    struct mp_error error;
    struct mp_leaks leaks;
    uint32_t kept[20];
    world_start(&world, 5, 20);
    world.threads = 1;
    world.marked = true;
    uint32_t site = world_path(&world, "train.py:main:5", W_TORCH);
    uint32_t end = world_site(&world, "end", python, W_TORCH, MP_KIND_DEVICE);
    for (uint32_t step = 0; step < 20; step++) {
        world_begin_step(&world);
        kept[step] = world_alloc(&world, site, 2000);
    }
    world_begin_step(&world);
    for (uint32_t step = 0; step < 20; step++)
        world_release(&world, kept[step]);
    for (uint32_t i = 0; i < 30; i++)
        world_release(&world, world_alloc(&world, end, 100));
    struct mp_model *model = world_build(&world);
    model->how.known = true;
    const struct mp_leaks_query query = {.track = MP_TRACK_NONE, .window = mp_window_all(model)};
    ck_assert_int_eq(mp_leaks_find(model, &query, &leaks, &error), MP_OK);
    size_t found = leaks.leaks;
    mp_leaks_free(&leaks);
    mp_model_free(model);
    world_free(&world);
    return found;
}

START_TEST(python_that_ends_does_not_work_on)
{
    ck_assert_uint_eq(leaks_cleared_before(false), 1);
    ck_assert_uint_eq(leaks_cleared_before(true), 0);
}

/* 60 steps of a second leave garbage, and temporary blocks between. The process grows by 1 MiB more in each, or not. */
START_TEST(holes_beside_garbage_are_no_leak)
{
    static const uint64_t mib = 1 << 20;
    for (unsigned grows = 0; grows < 2; grows++) {
        struct world world;
        struct mp_error error;
        struct mp_leaks leaks;
        world_start(&world, 3, 400);
        world.marked = true;
        world.threads = 1;
        world_move_to_host(&world);
        uint32_t work = world_path(&world, "train.py:main:5", W_TORCH),
                 kept = world_path(&world, "train.py:main:6", W_TORCH);
        for (uint32_t step = 0; step < 60; step++) {
            world_begin_step(&world);
            world_alloc(&world, kept, mib / 4);
            for (uint32_t i = 0; i < 4; i++) {
                world_release(&world, world_alloc(&world, work, 2 * mib));
                world.now_ns += MP_NS_PER_SECOND / 4;
                world_sample(&world, 400 * mib + step * (mib / 4 + grows * mib));
            }
        }
        struct mp_model *model = world_build(&world);
        for (uint32_t step = 0; step < 60; step++)
            hold(model, step * 5, "a cycle of Box that gc has not collected yet → Box.one", MP_HOLDER_UNKNOWN, true);
        end_look(model, true);
        const struct mp_leaks_query query = {.track = MP_TRACK_NONE, .window = mp_window_all(model)};
        ck_assert_int_eq(mp_leaks_find(model, &query, &leaks, &error), MP_OK);
        ck_assert_int_eq(leaks.verdict, MP_VERDICT_UNKNOWN);
        ck_assert_uint_eq(leaks.findings.count, 1);
        ck_assert_int_eq(leaks.findings.at[0].class, MP_LEAK_GARBAGE);
        ck_assert_int_eq(leaks.unsure_growth.bytes > 0, grows);
        mp_leaks_free(&leaks);
        mp_model_free(model);
        world_free(&world);
    }
}

START_TEST(a_bound_ends_growth_unless_memory_ends_before)
{
    struct mp_leaks leaks;
    struct mp_leak_finding first;
    static const char one[] = "ring[*].x (20 of at most 50 entries)", other[] = "ring[*].y (20 of at most 50 entries)";
    judge(one, other, 1 << 30, &leaks, &first);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_CLEAN);
    ck_assert_int_eq(first.class, MP_LEAK_BOUNDED);
    ck_assert_uint_eq(first.most, 50);
    ck_assert_uint_eq(first.to_come, (50 - first.entries) * 2000);
    ck_assert_uint_eq(first.sum.sites, 2);
    judge(one, other, 80000, &leaks, &first); /* of 150 000 bytes that both have when full */
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_LEAK);
    judge("ring[*][*] (3 of at most 50 entries)", other, 1 << 30, &leaks, &first); /* three entries that grow */
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_LEAK);
}

START_TEST(a_list_that_is_read_later_is_no_leak)
{
    struct mp_leaks leaks;
    struct mp_leak_finding first;
    static const char one[] = "main().kept[*].x (read later, line 9)",
                      other[] = "main().kept[*].y (read later, line 9)";
    judge(one, other, UINT64_C(1) << 40, &leaks, &first);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_CLEAN);
    ck_assert_int_eq(first.class, MP_LEAK_KEPT);
    ck_assert_uint_eq(first.read_line, 9);
    judge(one, other, 1 << 30, &leaks, &first); /* full in fewer than a million steps */
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_UNKNOWN);
    judge(one, "main().kept[*].grad_fn → X", UINT64_C(1) << 40, &leaks, &first); /* graphs */
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_LEAK);
    ck_assert_uint_eq(leaks.leaks, 2);
    judge("kept[*].x (counted later, line 9)", "kept[*].y", UINT64_C(1) << 40, &leaks, &first);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_LEAK);
    ck_assert_int_eq(first.confidence, MP_LEAK_PROBABLE);
}

/* How an evaluation keeps its outputs: until the program ends, not, or until the next step. Or each step makes such an
 * output by the same line, and drops it; the evaluation keeps them. */
enum keeping { KEEPS, DROPS, CLEARS, KEEPS_FROM_NOW };

/* Sixteen steps, and then an evaluation; or 32, with one after the 11th and one after the 21st. One that clears its
 * outputs comes after the fifth step, too. */
static void evaluate(enum keeping keeping, bool between, struct mp_leaks *leaks)
{
    struct world world;
    struct mp_error error;
    world_start(&world, 5, 40);
    world.threads = 1;
    world.marked = true;
    uint32_t step = world_path(&world, "train.py:main:5", W_TORCH),
             output = world_path(&world, "train.py:main:9", W_TORCH);
    for (uint32_t i = 1; i <= (between ? 32 : 16); i++) {
        uint32_t outputs[30], count = 0;
        bool evaluates = between ? i == 11 || i == 21 : i == 16 || (keeping == CLEARS && i == 5);
        world_begin_step(&world);
        for (uint32_t k = 0; k < 4; k++)
            world_release(&world, world_alloc(&world, step, 2000));
        for (uint32_t k = 0; keeping == KEEPS_FROM_NOW && i < 16 && k < 4; k++)
            world_release(&world, world_alloc(&world, output, 1 << 20));
        while (evaluates && count < 30) {
            outputs[count++] = world_alloc(&world, output, 1 << 20);
            if (keeping == DROPS) world_release(&world, outputs[count - 1]);
        }
        while (keeping == CLEARS && i < 16 && count)
            world_release(&world, outputs[--count]);
    }
    struct mp_model *model = world_build(&world);
    for (size_t i = 0; i < model->notes.count; i++) /* ends of an optimizer's steps */
        model->notes.at[i].name = mp_intern_text(&model->strings, MP_TORCH_STEP);
    const struct mp_leaks_query query = {.track = MP_TRACK_NONE, .window = mp_window_all(model)};
    ck_assert_int_eq(mp_leaks_find(model, &query, leaks, &error), MP_OK);
    struct mp_peak peak;
    mp_peak_find(model, &(struct mp_peak_query){.track = 0, .window = query.window}, &peak);
    ck_assert_int_eq(peak.behind_step, !between && keeping != CLEARS);
    mp_peak_free(&peak);
    mp_leaks_free(leaks);
    mp_model_free(model);
    world_free(&world);
}

START_TEST(growth_over_evaluations_is_not_clean)
{
    for (unsigned between = 0; between < 2; between++) {
        struct mp_leaks leaks;
        evaluate(DROPS, between, &leaks);
        ck_assert_int_eq(leaks.verdict, MP_VERDICT_CLEAN);
        evaluate(KEEPS, between, &leaks);
        ck_assert_int_eq(leaks.verdict, MP_VERDICT_UNKNOWN);
        ck_assert_ptr_nonnull(strstr(leaks.reason, between ? "record longer" : "behind the last step"));
    }
    struct mp_leaks leaks;
    evaluate(CLEARS, false, &leaks);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_CLEAN);
    evaluate(KEEPS_FROM_NOW, false, &leaks);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_UNKNOWN);
}

MP_SUITE("holders", growth_over_evaluations_is_not_clean, holes_beside_garbage_are_no_leak, one_holder_is_one_cause,
         a_bound_ends_growth_unless_memory_ends_before, a_list_that_is_read_later_is_no_leak,
         entries_of_one_container_are_one_holder, other_kinds_and_doubts_stay_apart, what_no_path_leads_to,
         pinned_memory_that_no_tensor_uses, why_a_holder_is_missing, what_is_known_of_blocks_that_no_path_leads_to,
         the_last_look_alone, advice_only_where_the_path_shows_it, python_that_ends_does_not_work_on)
