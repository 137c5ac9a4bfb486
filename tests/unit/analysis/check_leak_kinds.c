#include <stdio.h>
#include <string.h>

#include "analysis/leaks/leaks.h"
#include "base/clock.h"
#include "leakbench/world.h"
#include "model/track.h"
#include "unit/suite.h"

#define MIB (UINT64_C(1) << 20)

static struct mp_leaks judge(struct world *world)
{
    struct mp_leaks leaks;
    struct mp_model *model = world_build(world);
    struct mp_leaks_query query = {.track = MP_TRACK_NONE,
                                   .window = {.last = (uint32_t)model->events.count, .whole = true},
                                   .grouping = {.by = MP_GROUP_STACK}};
    ck_assert_int_eq(mp_leaks_find(model, &query, &leaks, NULL), MP_OK);
    mp_model_free(model);
    world_free(world);
    return leaks;
}

static void start(struct world *world)
{
    world_start(world, 3, 400);
    world->marked = true;
    world->threads = 1;
}

enum hidden { GROWS, GROWS_SLOWLY, LEVEL, FILLS_UP, JUMPS, PEAKS, HIGHER_PEAKS, TRACKED };

/* The leaks by the process's memory, in a program of 400 steps that frees all its blocks. */
static struct mp_leaks judge_hidden(enum hidden how)
{
    struct world world;
    start(&world);
    uint32_t work = world_path(&world, "train.py:main:5", W_TORCH),
             kept = world_path(&world, "train.py:main:6", W_TORCH);
    uint64_t reserved = 1000 * MIB;
    for (uint32_t step = 0; step < 400; step++) {
        world_begin_step(&world);
        world_release(&world, world_alloc(&world, work, (1 + world_random(&world, 64)) * MIB));
        if (how == TRACKED) {
            world_leaks(&world, world_alloc(&world, kept, MIB));
            reserved += MIB;
        }
        if (how == PEAKS) reserved = (step == 200 ? 4000 : 1000) * MIB;
        if (how == HIGHER_PEAKS) world_reserved(&world, W_TORCH, (2000 + step) * MIB); /* returned before a sample */
        world_reserved(&world, W_TORCH, reserved);
        uint64_t rest = how == GROWS || how == PEAKS || how == HIGHER_PEAKS ? step * MIB / 4
                        : how == GROWS_SLOWLY                               ? step * MIB / 32
                        : how == FILLS_UP                                   ? (step < 100 ? step : 100) * MIB
                        : how == JUMPS                                      ? (step < 250 ? 0 : 300 * MIB)
                                                                            : 0;
        world_sample(&world, reserved + 400 * MIB + rest + world_random(&world, 2) * MIB);
    }
    return judge(&world);
}

START_TEST(hidden_growth_is_told)
{
    static const enum hidden told[] = {GROWS, PEAKS, HIGHER_PEAKS};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        struct mp_leaks leaks = judge_hidden(told[i]);
        ck_assert_int_eq(leaks.verdict, MP_VERDICT_LEAK);
        ck_assert_uint_eq(leaks.findings.count, 1);
        ck_assert_int_eq(leaks.findings.at[0].class, MP_LEAK_HIDDEN);
        ck_assert_double_eq_tol(leaks.findings.at[0].bytes_per_step, MIB / 4.0, MIB / 20.0);
        ck_assert_int_ne(leaks.findings.at[0].confidence, MP_LEAK_CERTAIN);
        mp_leaks_free(&leaks);
    }
}

/* 60 steps of so many milliseconds; the process grows by 1 MiB in each, and returns the large temporary blocks. */
static struct mp_leaks judge_host(uint64_t step_ms)
{
    struct world world;
    start(&world);
    world_move_to_host(&world);
    uint32_t work = world_path(&world, "train.py:main:5", W_APP);
    for (uint32_t step = 0; step < 60; step++) {
        world_begin_step(&world);
        for (uint32_t i = 0; i < 4; i++) {
            world_release(&world, world_alloc(&world, work, 1000 * MIB));
            world.now_ns += step_ms * MP_NS_PER_MS / 4;
            world_sample(&world, 400 * MIB + step * MIB);
        }
    }
    return judge(&world);
}

/* 60 steps of a second. Each makes a temporary block and one of 256 KiB that stays; the process grows by 1 MiB more. */
static struct mp_leaks judge_holes(uint64_t temporary)
{
    struct world world;
    start(&world);
    world_move_to_host(&world);
    uint32_t work = world_path(&world, "train.py:main:5", W_TORCH),
             kept = world_path(&world, "train.py:main:6", W_TORCH);
    for (uint32_t step = 0; step < 60; step++) {
        world_begin_step(&world);
        world_leaks(&world, world_alloc(&world, kept, MIB / 4));
        for (uint32_t i = 0; i < 4; i++) {
            world_release(&world, world_alloc(&world, work, temporary));
            world.now_ns += MP_NS_PER_SECOND / 4;
            world_sample(&world, 400 * MIB + step * (MIB / 4 + MIB));
        }
    }
    return judge(&world);
}

START_TEST(holes_beside_what_stays_are_no_leak_of_their_own)
{
    for (unsigned fits = 0; fits < 2; fits++) {
        struct mp_leaks leaks = judge_holes(fits ? MIB / 4 : 2 * MIB);
        ck_assert_uint_eq(leaks.leaks, 2);
        ck_assert_uint_eq(leaks.causes, fits ? 2 : 1);
        ck_assert_int_eq(leaks.findings.at[1].class, MP_LEAK_HIDDEN);
        ck_assert_int_eq(leaks.findings.at[1].follows, !fits);
        ck_assert_int_eq(leaks.findings.at[1].confidence, fits ? MP_LEAK_PROBABLE : MP_LEAK_POSSIBLE);
        mp_leaks_free(&leaks);
    }
}

/* 60 steps of a second. In each, a temporary block of at least so many bytes and the process grow. */
static struct mp_leaks judge_growing_work(uint64_t least, uint64_t block_grows, uint64_t process_grows)
{
    struct world world;
    start(&world);
    world_move_to_host(&world);
    uint32_t work = world_path(&world, "train.py:main:5", W_TORCH);
    for (uint32_t step = 0; step < 60; step++) {
        world_begin_step(&world);
        for (uint32_t i = 0; i < 4; i++) {
            world_release(&world, world_alloc(&world, work, least + step * block_grows));
            world.now_ns += MP_NS_PER_SECOND / 4;
            world_sample(&world, 400 * MIB + step * process_grows);
        }
    }
    return judge(&world);
}

START_TEST(memory_that_the_heap_keeps_of_growing_work_is_not_hidden)
{
    struct mp_leaks leaks = judge_growing_work(MIB, MIB / 2, MIB / 2);
    ck_assert_int_ne(leaks.verdict, MP_VERDICT_LEAK);
    ck_assert_uint_eq(leaks.findings.count, 0);
    mp_leaks_free(&leaks);
    for (unsigned is_mapped = 0; is_mapped < 2; is_mapped++) { /* malloc() returns mapped blocks at once */
        leaks = is_mapped ? judge_growing_work(33 * MIB, 4 * MIB, 2 * MIB) : judge_growing_work(MIB, MIB / 2, 2 * MIB);
        ck_assert_int_eq(leaks.verdict, MP_VERDICT_LEAK);
        ck_assert_int_eq(leaks.findings.at[0].class, MP_LEAK_HIDDEN);
        mp_leaks_free(&leaks);
    }
}

/* A queue fills for 100 steps and drains for 300. The heap keeps its memory. */
START_TEST(memory_that_the_heap_keeps_of_a_queue_is_not_hidden)
{
    struct world world;
    uint32_t queue[400], count = 0;
    start(&world);
    world_move_to_host(&world);
    uint32_t work = world_path(&world, "train.py:main:5", W_TORCH);
    for (uint32_t step = 0; step < 400; step++) {
        world_begin_step(&world);
        for (uint32_t i = 0; step < 100 && i < 4; i++)
            queue[count++] = world_alloc(&world, work, MIB);
        if (step >= 100) world_release(&world, queue[--count]);
        world.now_ns += MP_NS_PER_SECOND / 4;
        world_sample(&world, (400 + 4 * (step < 100 ? step + 1 : 100)) * MIB);
    }
    struct mp_leaks leaks = judge(&world);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_CLEAN);
    mp_leaks_free(&leaks);
}

START_TEST(a_second_s_growth_of_the_host_is_no_proof)
{
    struct mp_leaks leaks = judge_host(50);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_LEAK);
    mp_leaks_free(&leaks);
    leaks = judge_host(20);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_UNKNOWN);
    ck_assert_ptr_nonnull(strstr(leaks.reason, "the process grew by"));
    mp_leaks_free(&leaks);
}

START_TEST(a_little_hidden_growth_is_not_called_clean)
{
    struct mp_leaks leaks = judge_hidden(GROWS_SLOWLY);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_UNKNOWN);
    ck_assert_uint_eq(leaks.findings.count, 0);
    ck_assert_ptr_nonnull(strstr(leaks.reason, "--host"));
    mp_leaks_free(&leaks);
}

START_TEST(what_is_bounded_or_recorded_is_not_hidden)
{
    static const enum hidden silent[] = {LEVEL, FILLS_UP, JUMPS};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        struct mp_leaks leaks = judge_hidden(silent[i]);
        ck_assert_int_eq(leaks.verdict, MP_VERDICT_CLEAN);
        mp_leaks_free(&leaks);
    }
    struct mp_leaks leaks = judge_hidden(TRACKED);
    ck_assert_uint_eq(leaks.findings.count, 1);
    ck_assert_int_eq(leaks.findings.at[0].class, MP_LEAK_RETENTION);
    mp_leaks_free(&leaks);
}

/* A short program, whose process is sampled only in a few of its 60 steps. The bytes that no block explains, by sample,
 * are in `rest`. */
static struct mp_leaks judge_read_in(size_t count, const unsigned char *read_in, const uint64_t *rest)
{
    struct world world;
    size_t next = 0;
    world_start(&world, 3, 60);
    world.marked = true;
    world.threads = 1;
    uint32_t work = world_path(&world, "train.py:main:5", W_TORCH);
    for (uint32_t step = 0; step < 60; step++) {
        world_begin_step(&world);
        world_release(&world, world_alloc(&world, work, MIB));
        world_reserved(&world, W_TORCH, 10 * MIB);
        if (next == count || step != read_in[next]) continue;
        world_sample(&world, 200 * MIB + rest[next++]);
    }
    return judge(&world);
}

/* Sampled eight times, first after nearly half of the steps, at uneven distances; with `grows` 1 MiB more per step. */
static struct mp_leaks judge_brief(bool grows)
{
    static const unsigned char read_in[] = {26, 29, 33, 37, 44, 47, 54, 57};
    uint64_t rest[sizeof read_in];
    for (size_t i = 0; i < sizeof read_in; i++)
        rest[i] = (grows ? read_in[i] * MIB : 0) + i * 1000;
    return judge_read_in(sizeof read_in, read_in, rest);
}

START_TEST(brief_growth_is_not_called_clean)
{
    struct mp_leaks leaks = judge_brief(true);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_UNKNOWN);
    ck_assert_double_eq_tol(leaks.unsure_growth.bytes_per_step, MIB, MIB / 20.0);
    ck_assert_ptr_nonnull(strstr(leaks.reason, "the process grew by"));
    mp_leaks_free(&leaks);
    leaks = judge_brief(false);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_CLEAN);
    mp_leaks_free(&leaks);
}

/* Four samples show no trend, so the process gets no verdict. */
START_TEST(four_readings_tell_nothing)
{
    static const unsigned char read_in[] = {5, 20, 40, 55};
    static const uint64_t rest[] = {10 * MIB, 40 * MIB, 80 * MIB, 110 * MIB};
    struct mp_leaks leaks = judge_read_in(4, read_in, rest);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_CLEAN);
    mp_leaks_free(&leaks);
}

enum joined { ALONE, EVERY_THIRD, EVERY_TENTH, JOINED_WITH_ALL, WITH_ALL, FREED_FIRST, BOUNDED };

static struct mp_leaks judge_joined(enum joined how)
{
    struct world world;
    char path[64];
    uint32_t sites[20], buffer = MP_NONE, before;
    start(&world);
    uint32_t joined = world_path(&world, "train.py:main:90 cat.py:cat:1", W_TORCH);
    if (how == JOINED_WITH_ALL) joined = world_variant(&world, joined, "at::_ops::cat::call");
    for (uint32_t i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "train.py:main:%u", 10 + i);
        sites[i] = world_path(&world, path, W_TORCH);
    }
    uint32_t every = how == EVERY_THIRD ? 3 : how == EVERY_TENTH ? 10 : 1;
    bool with_all = how == WITH_ALL || how == JOINED_WITH_ALL;
    for (uint32_t step = 0; step < 100; step++) {
        world_begin_step(&world);
        for (uint32_t i = 0; i < 20; i++)
            world_release(&world, world_alloc(&world, sites[i], with_all && i < 8 ? 1000 + 10 * step : 1000));
        if (step % every) continue;
        before = buffer;
        if (how == FREED_FIRST && before != MP_NONE) world_release(&world, before);
        buffer = world_alloc(&world, joined, 4096ull * (how == BOUNDED && step > 40 ? 40 : step + 1));
        if (how != FREED_FIRST && before != MP_NONE) world_release(&world, before);
    }
    return judge(&world);
}

enum grouped { ONE_MORE, BOUNDED_GROUP, SAME_NUMBER, GROUP_FREED_FIRST };

/* Each step makes a group of blocks anew, for instance one for each hook of a module. */
static struct mp_leaks judge_group(enum grouped how)
{
    enum { STEPS = 60 };
    struct world world;
    uint32_t group[STEPS], count = 0;
    start(&world);
    uint32_t hook = world_path(&world, "train.py:main:90 train.py:hook:20", W_TORCH);
    for (uint32_t step = 0; step < STEPS; step++) {
        world_begin_step(&world);
        uint32_t wanted = how == SAME_NUMBER ? 20 : how == BOUNDED_GROUP && step > 20 ? 20 : step + 1;
        for (uint32_t i = 0; how == GROUP_FREED_FIRST && i < count; i++)
            world_release(&world, group[i]);
        for (uint32_t i = 0; i < wanted; i++) {
            uint32_t before = how != GROUP_FREED_FIRST && i < count ? group[i] : MP_NONE;
            group[i] = world_alloc(&world, hook, 4096);
            if (before != MP_NONE) world_release(&world, before);
        }
        count = wanted;
    }
    return judge(&world);
}

START_TEST(a_group_made_anew_with_one_more_is_told)
{
    struct mp_leaks leaks = judge_group(ONE_MORE);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_LEAK);
    ck_assert_uint_eq(leaks.findings.count, 1);
    ck_assert(leaks.findings.at[0].regrown);
    ck_assert_double_eq_tol(leaks.findings.at[0].bytes_per_step, 4096, 1);
    mp_leaks_free(&leaks);
    for (enum grouped how = BOUNDED_GROUP; how <= GROUP_FREED_FIRST; how++) {
        leaks = judge_group(how);
        ck_assert_int_ne(leaks.verdict, MP_VERDICT_LEAK);
        mp_leaks_free(&leaks);
    }
}

START_TEST(a_buffer_made_anew_and_larger_is_told)
{
    struct mp_leaks leaks = judge_joined(ALONE);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_LEAK);
    ck_assert_uint_eq(leaks.findings.count, 1);
    ck_assert(leaks.findings.at[0].regrown);
    ck_assert_double_eq_tol(leaks.findings.at[0].bytes_per_step, 4096, 1);
    mp_leaks_free(&leaks);
    leaks = judge_joined(EVERY_THIRD);
    ck_assert_int_eq(leaks.verdict, MP_VERDICT_LEAK);
    ck_assert(leaks.findings.at[0].regrown);
    mp_leaks_free(&leaks);
    for (enum joined how = EVERY_TENTH; how <= JOINED_WITH_ALL; how++) {
        leaks = judge_joined(how);
        ck_assert_int_eq(leaks.verdict, MP_VERDICT_UNKNOWN);
        ck_assert_ptr_nonnull(strstr(leaks.reason, how == EVERY_TENTH ? "cat.py:1" : "train.py:90"));
        mp_leaks_free(&leaks);
    }
    for (enum joined how = WITH_ALL; how <= BOUNDED; how++) {
        leaks = judge_joined(how);
        ck_assert_int_eq(leaks.verdict, MP_VERDICT_CLEAN);
        mp_leaks_free(&leaks);
    }
}

/* Handles have no bytes: they are counted. */
START_TEST(handles_are_counted)
{
    struct world world;
    start(&world);
    uint32_t work = world_path(&world, "train.py:main:5", W_TORCH);
    uint32_t handle = world_site(&world, "make_event", true, W_DRIVER, MP_KIND_HANDLE);
    for (uint32_t step = 0; step < 60; step++) {
        world_begin_step(&world);
        world_release(&world, world_alloc(&world, work, MIB));
        world_leaks(&world, world_alloc(&world, handle, 0));
        world_leaks(&world, world_alloc(&world, handle, 0));
    }
    struct mp_leaks leaks = judge(&world);
    ck_assert_uint_eq(leaks.findings.count, 1);
    ck_assert_int_eq(leaks.findings.at[0].class, MP_LEAK_HANDLE);
    ck_assert_double_eq_tol(leaks.findings.at[0].blocks_per_step, 2, 0.01);
    ck_assert_uint_eq(leaks.findings.at[0].bytes, 0);
    mp_leaks_free(&leaks);
}

/* Requests of four threads, any of which may wait for a processor while the others answer fifty. Each makes three
 * temporary blocks and an answer, which lives for ever, or until `keep` further answers were made. `seldom`: one thread
 * gets few requests, and another a single one, which it answers late. */
static struct mp_leaks judge_server(uint64_t seed, uint32_t keep, bool seldom)
{
    enum { REQUESTS = 400, THREADS = 4, CALLS = 4 };
    struct world world;
    world_start(&world, seed, REQUESTS);
    world.marked = true;
    world.threads = THREADS;
    uint32_t path[CALLS], done[THREADS] = {0}, held[THREADS] = {0}, asleep[THREADS] = {0}, answers[REQUESTS];
    uint32_t begun = 0, answered = 0;
    for (uint32_t call = 0; call < CALLS; call++) {
        char text[64];
        snprintf(text, sizeof text, "serve.py:work:3 net.py:f:%u", call);
        path[call] = world_path(&world, text, W_TORCH);
    }
    for (uint32_t pick = 0; answered < REQUESTS; pick++) {
        uint32_t thread = world_random(&world, THREADS), call = done[thread] % (CALLS + 1);
        if (asleep[thread] > pick && begun < REQUESTS) continue;
        if (!call && begun == REQUESTS) continue;
        if (!call && seldom && (thread == 2 ? world_random(&world, 400) : thread == 3 && done[thread])) continue;
        done[thread]++;
        begun += !call;
        if (!call) world_begin_step(&world);
        world.thread = thread;
        if (!call) world.events.at[world.events.count - 1].thread = world.thread;
        if (!call) continue;
        uint32_t block = world_alloc(&world, path[call - 1], call == CALLS ? 1024 : 512);
        if (call > 1 && call < CALLS) world_release(&world, block);
        if (call == 1) held[thread] = block; /* until the answer is there */
        if (!world_random(&world, 80) || (seldom && thread == 3)) asleep[thread] = pick + 1000;
        if (call < CALLS) continue;
        world_release(&world, held[thread]);
        if (keep == UINT32_MAX) world_leaks(&world, block);
        if (keep != UINT32_MAX && answered >= keep) world_release(&world, answers[answered - keep]);
        answers[answered++] = block;
    }
    return judge(&world);
}

START_TEST(a_server_s_threads_overlap)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        bool seldom = seed % 2 == 0;
        struct mp_leaks leaks = judge_server(seed, UINT32_MAX, seldom);
        ck_assert_int_eq(leaks.verdict, MP_VERDICT_LEAK);
        ck_assert_uint_eq(leaks.findings.count, 1);
        ck_assert_double_eq(leaks.findings.at[0].bytes_per_step, 1024);
        mp_leaks_free(&leaks);
        leaks = judge_server(seed, 30, seldom);
        ck_assert_uint_eq(leaks.findings.count, 0);
        mp_leaks_free(&leaks);
    }
}

/* Two workers begin a step for each request. The main thread allocates their answers, keeps them or not, and begins
 * `epochs` steps. */
static struct mp_leaks judge_gathered(uint32_t epochs, bool keeps)
{
    enum { REQUESTS = 400 };
    struct world world;
    start(&world);
    uint32_t work = world_path(&world, "serve.py:work:3", W_TORCH),
             gather = world_path(&world, "serve.py:main:9", W_TORCH);
    for (uint32_t i = 0; i < REQUESTS + epochs; i++) {
        bool is_epoch = i % (REQUESTS / epochs + 1) == 0;
        world_begin_step(&world);
        world.thread = is_epoch ? 0 : 1 + i % 2;
        world.events.at[world.events.count - 1].thread = world.thread;
        if (is_epoch) continue;
        world_release(&world, world_alloc(&world, work, 4096));
        world.thread = 0;
        uint32_t answer = world_alloc(&world, gather, 1024);
        if (keeps)
            world_leaks(&world, answer);
        else
            world_release(&world, answer);
    }
    return judge(&world);
}

START_TEST(a_thread_of_few_long_steps_leaks_in_those_of_others)
{
    static const uint32_t epochs[] = {2, 4, 8, 16};
    for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
        struct mp_leaks leaks = judge_gathered(epochs[i], true);
        ck_assert_int_eq(leaks.verdict, MP_VERDICT_LEAK);
        ck_assert_uint_eq(leaks.findings.count, 1);
        ck_assert_double_eq_tol(leaks.findings.at[0].bytes_per_step, 1024.0 * 400 / (400 + epochs[i]), 10);
        mp_leaks_free(&leaks);
        leaks = judge_gathered(epochs[i], false);
        ck_assert_int_eq(leaks.verdict, MP_VERDICT_CLEAN);
        mp_leaks_free(&leaks);
    }
}

/* Hidden growth of 8 MiB a step, read four times a step. */
static enum mp_verdict verdict_of_start(uint32_t steps)
{
    struct world world;
    world_start(&world, 3, steps);
    world.marked = true;
    world.threads = 1;
    uint32_t work = world_path(&world, "train.py:main:5", W_TORCH);
    for (uint32_t read = 0; read < 4 * steps; read++) {
        if (read % 4 == 0) world_begin_step(&world);
        world_release(&world, world_alloc(&world, work, MIB));
        world_reserved(&world, W_TORCH, 10 * MIB);
        world_sample(&world, 200 * MIB + read * 2 * MIB);
    }
    struct mp_leaks leaks = judge(&world);
    mp_leaks_free(&leaks);
    return leaks.verdict;
}

START_TEST(a_start_is_no_leak)
{
    for (uint32_t steps = 5; steps <= 16; steps++)
        ck_assert_int_eq(verdict_of_start(steps), steps < MP_LEAK_STEPS ? MP_VERDICT_UNKNOWN : MP_VERDICT_LEAK);
}

enum left { THE_SAME, FIRST_DIFFERS, LAST_IS_CUT, UNEVEN, IRREGULAR, ONE_FREED, CLEARED, STOPPED, EACH_STEP };

/* Epochs of six steps, each with an evaluation that keeps eight outputs of 10 MiB. */
static struct mp_leaks judge_epochs(uint32_t epochs, enum left how)
{
    struct world world;
    uint32_t each = how == EACH_STEP ? 1 : 6, kept[8], count = 0, freed = MP_NONE;
    world_start(&world, 3, epochs * each);
    world.marked = true;
    world.threads = 1;
    uint32_t work = world_path(&world, "train.py:main:5", W_TORCH),
             output = world_path(&world, "train.py:validate:9", W_TORCH);
    for (uint32_t epoch = 0; epoch < epochs + 3 * (how == STOPPED); epoch++) {
        for (uint32_t step = 0; step < each + 2 * (how == IRREGULAR && epoch % 2 ? each : 0); step++) {
            world_begin_step(&world);
            for (uint32_t i = 0; i < 40; i++)
                world_release(&world, world_alloc(&world, work, MIB));
        }
        if (epoch >= epochs) continue;
        uint32_t outputs = (how == FIRST_DIFFERS && !epoch) || (how == LAST_IS_CUT && epoch + 1 == epochs) ? 2 : 8;
        if (how == UNEVEN && epoch == 3) outputs = 7;
        for (count = 0; count < outputs; count++)
            kept[count] = world_alloc(&world, output, 10 * MIB);
        while (how == CLEARED && count)
            world_release(&world, kept[--count]);
        if (how == ONE_FREED && epoch == 0) freed = kept[0];
        if (how == ONE_FREED && epoch == 4) world_release(&world, freed);
    }
    return judge(&world);
}

START_TEST(whole_repetitions_are_enough)
{
    static const struct {
        uint32_t epochs;
        enum left how;
        enum mp_verdict verdict;
        uint32_t whole, of;
    } cases[] = {{6, THE_SAME, MP_VERDICT_LEAK, 6, 6},     {5, THE_SAME, MP_VERDICT_LEAK, 5, 5},
                 {4, THE_SAME, MP_VERDICT_UNKNOWN, 0, 0},  {6, FIRST_DIFFERS, MP_VERDICT_LEAK, 5, 6},
                 {6, LAST_IS_CUT, MP_VERDICT_LEAK, 5, 6},  {5, LAST_IS_CUT, MP_VERDICT_UNKNOWN, 0, 0},
                 {6, UNEVEN, MP_VERDICT_UNKNOWN, 0, 0},    {6, IRREGULAR, MP_VERDICT_UNKNOWN, 0, 0},
                 {6, ONE_FREED, MP_VERDICT_UNKNOWN, 0, 0}, {6, CLEARED, MP_VERDICT_CLEAN, 0, 0},
                 {6, EACH_STEP, MP_VERDICT_UNKNOWN, 0, 0}, {6, STOPPED, MP_VERDICT_UNKNOWN, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mp_leaks leaks = judge_epochs(cases[i].epochs, cases[i].how);
        ck_assert_msg(leaks.verdict == cases[i].verdict, "case %zu: %s: %s", i, mp_verdict_name(leaks.verdict),
                      leaks.reason);
        if (cases[i].whole) {
            const struct mp_leak_finding *finding = &leaks.findings.at[0];
            ck_assert_uint_eq(leaks.findings.count, 1);
            ck_assert_uint_eq(finding->twins.whole, cases[i].whole);
            ck_assert_uint_eq(finding->twins.of, cases[i].of);
            ck_assert_uint_eq(finding->twins.bytes, 80 * MIB);
            ck_assert_double_eq(finding->twins.apart, 6);
            ck_assert_double_eq_tol(finding->bytes_per_step, 80 * MIB / 6.0, 1);
            ck_assert_int_eq(finding->confidence, MP_LEAK_POSSIBLE); /* nobody looked for holders */
        }
        mp_leaks_free(&leaks);
    }
}

MP_SUITE("leak_kinds", a_start_is_no_leak, whole_repetitions_are_enough, hidden_growth_is_told,
         holes_beside_what_stays_are_no_leak_of_their_own, a_second_s_growth_of_the_host_is_no_proof,
         memory_that_the_heap_keeps_of_growing_work_is_not_hidden, memory_that_the_heap_keeps_of_a_queue_is_not_hidden,
         a_little_hidden_growth_is_not_called_clean, brief_growth_is_not_called_clean, four_readings_tell_nothing,
         what_is_bounded_or_recorded_is_not_hidden, a_buffer_made_anew_and_larger_is_told,
         a_group_made_anew_with_one_more_is_told, handles_are_counted, a_server_s_threads_overlap,
         a_thread_of_few_long_steps_leaks_in_those_of_others)
