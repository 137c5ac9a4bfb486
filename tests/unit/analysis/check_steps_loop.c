#include <stdio.h>
#include <string.h>

#include "analysis/leaks/leaks.h"
#include "analysis/sites/peak.h"
#include "leakbench/world.h"
#include "model/steps_infer.h"
#include "model/steps_period.h"
#include "model/track.h"
#include "unit/suite.h"

/* Programs as texts: a letter for each allocation, in order; and a stack for each letter. */
#define MAIN    "train.py:<module>:99 train.py:main:"
#define STEP    MAIN "10 train.py:train_step:"
#define MODULE  "/torch/nn/modules/module.py:_call_impl:1190 "
#define ADAM    "/torch/optim/optimizer.py:wrapper:140 /torch/optim/adam.py:adam:"
#define LETTERS 128

struct paths {
    const char *of[LETTERS];
};

static const struct paths training = {{
    ['d'] = MAIN "9 data.py:make:3",
    ['r'] = MAIN "9 data.py:make:4",
    ['x'] = STEP "20 " MODULE "model.py:forward:50",
    ['y'] = STEP "20 " MODULE "model.py:forward:51",
    ['l'] = STEP "21 /torch/nn/functional.py:mse_loss:3000",
    ['b'] = STEP "22 /torch/_tensor.py:backward:396",
    ['B'] = STEP "22 /torch/_tensor.py:backward:396 /torch/autograd/__init__.py:backward:173",
    ['o'] = STEP "23 " ADAM "250",
    ['p'] = STEP "23 " ADAM "251",
    ['c'] = MAIN "12 train.py:clip:70",
    ['e'] = MAIN "30 train.py:evaluate:60 " MODULE "model.py:forward:50",
    ['f'] = MAIN "30 train.py:evaluate:61",
    ['t'] = "/threading.py:_bootstrap:900 data.py:fetch:80",
    ['u'] = "/threading.py:_bootstrap:900 data.py:fetch:81",
}};

static struct mp_model *play(struct world *world, const struct paths *paths, const char *text)
{
    uint32_t stack[LETTERS];
    world_start(world, 1, 1);
    world->frees_all = true;
    for (unsigned letter = 0; letter < LETTERS; letter++)
        if (paths->of[letter]) stack[letter] = world_path(world, paths->of[letter], W_TORCH);
    for (; *text; text++) {
        ck_assert_msg(paths->of[(unsigned char)*text] != NULL, "no path for %c", *text);
        world_release(world, world_alloc(world, stack[(unsigned char)*text], 1000));
    }
    return world_build(world);
}

static char *repeat(char *to, const char *what, unsigned times)
{
    while (times--)
        to = stpcpy(to, what);
    return to;
}

static uint32_t steps_of(const struct paths *paths, const char *text)
{
    struct world world;
    struct mp_steps steps = {0};
    struct mp_model *model = play(&world, paths, text);
    mp_steps_find(model, &steps);
    uint32_t count = (uint32_t)steps.count;
    ck_assert(!steps.guessed || !count);
    mp_steps_free(&steps);
    mp_model_free(model);
    world_free(&world);
    return count;
}

/* Rows of a batch, layers of a model and parameters in an optimizer repeat more often than the step. */
START_TEST(what_repeats_inside_a_step_is_no_step)
{
    char text[8192];
    for (unsigned steps = 3; steps < 40; steps++) {
        repeat(text, "drdrdrdrdrxyxyxylbBbBbBopopopopop", steps);
        ck_assert_uint_eq(steps_of(&training, text), steps);
    }
    repeat(text, "drdrdrdrdrxyxyxylbBbBbBopopopopop", 2);
    ck_assert_uint_eq(steps_of(&training, text), 0);
}

START_TEST(evaluation_and_epochs_are_no_steps)
{
    char text[8192], *at = text;
    for (unsigned epoch = 0; epoch < 6; epoch++)
        at = repeat(repeat(at, "drxylbBopop", 15), "ef", 20);
    ck_assert_uint_eq(steps_of(&training, text), 90);
}

/* A call that runs a node has the lines that made the node; these lines do not run. */
START_TEST(lines_beyond_backward_do_not_run)
{
    static const struct paths called_deeper = {{
        ['r'] = MAIN "48 data.py:make:3",
        ['x'] = MAIN "48 train.py:train_step:26 train.py:loss:21 " MODULE "model.py:forward:50",
        ['b'] = MAIN "48 train.py:train_step:26 train.py:loss:21 " MODULE "model.py:forward:50 |",
        ['o'] = MAIN "48 train.py:train_step:27 " ADAM "250",
        ['v'] = MAIN "49 train.py:validate:31 train.py:loss:21 " MODULE "model.py:forward:50",
    }};
    struct paths all = training;
    all.of['b'] = STEP "20 " MODULE "model.py:forward:51 |";
    all.of['B'] = STEP "20 " MODULE "model.py:forward:50 |";
    char text[8192];
    for (unsigned steps = 3; steps < 40; steps += 9) {
        repeat(text, "drdrdrdrdrxyxyxylbBbBbBopopopopop", steps);
        ck_assert_uint_eq(steps_of(&all, text), steps);
        repeat(text, "rxxbbov", steps);
        ck_assert_uint_eq(steps_of(&called_deeper, text), steps);
    }
}

/* The optimizer's work ends a step, even if only every fourth round has it. */
START_TEST(accumulation_ends_with_the_optimizer)
{
    static const struct paths paths = {{
        ['x'] = MAIN "10 " MODULE "model.py:forward:50",
        ['l'] = MAIN "11 loss.py:loss:5",
        ['b'] = MAIN "12 /torch/_tensor.py:backward:396",
        ['o'] = MAIN "14 " ADAM "250",
    }};
    char text[8192];
    repeat(text, "xlbxlbxlbxlbooo", 25);
    ck_assert_uint_eq(steps_of(&paths, text), 25);
}

/* No steps: while each runs alone, both loops of lines look like rounds of the same work. */
START_TEST(one_forward_has_no_steps)
{
    ck_assert_uint_eq(steps_of(&training, "xyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyl"), 0);
    ck_assert_uint_eq(steps_of(&training, "drdrdrdrdrdrdrdrxyxyxyxylbBbBbBbBopopopopopopopopopopop"), 0);
    ck_assert_uint_eq(steps_of(&training, "d"), 0);
}

/* The lines of a one-line loop show no steps; its rhythm allows a guess. */
START_TEST(a_loop_of_one_line_is_guessed)
{
    static const struct paths paths = {{['a'] = "toy.py:<module>:3"}};
    struct world world;
    struct mp_steps steps = {0};
    char text[128];
    repeat(text, "a", 60);
    struct mp_model *model = play(&world, &paths, text);
    mp_steps_find(model, &steps);
    ck_assert(steps.guessed);
    ck_assert_uint_ge(steps.count, 59);
    mp_steps_free(&steps);
    mp_model_free(model);
    world_free(&world);
}

/* Lines that allocate more than once, each as often as the others. */
START_TEST(rounds_whose_lines_all_allocate_twice_are_one_step_each)
{
    static const struct paths paths = {{
        ['a'] = "toy.py:<module>:3 net.py:f:1",
        ['b'] = "toy.py:<module>:3 net.py:f:2",
        ['c'] = "toy.py:<module>:3 net.py:f:3",
        ['d'] = "toy.py:<module>:3 net.py:f:4",
    }};
    static const char *const rounds[] = {"aabbccdd", "aaabbbcccddd", "aabbcc", "aabbccd"};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        struct world world;
        struct mp_steps steps = {0};
        char text[1024];
        repeat(text, rounds[i], 60);
        struct mp_model *model = play(&world, &paths, text);
        mp_steps_find(model, &steps);
        ck_assert_msg(steps.count == 60, "%s: %zu", rounds[i], steps.count);
        mp_steps_free(&steps);
        mp_model_free(model);
        world_free(&world);
    }
}

/* Allocations of other threads, with Python or without, are part of the step in which they happen. */
START_TEST(other_threads_do_not_count)
{
    static const char main_thread[] = "drxylop", other[] = "tutut";
    uint32_t stack[LETTERS];
    struct world world;
    struct mp_steps steps = {0};
    world_start(&world, 7, 1);
    for (unsigned letter = 0; letter < LETTERS; letter++)
        if (training.of[letter]) stack[letter] = world_path(&world, training.of[letter], W_TORCH);
    for (unsigned step = 0; step < 30; step++) {
        unsigned here = 0, there = 0;
        while (here < sizeof main_thread - 1 || there < sizeof other - 1) {
            world.thread = there == sizeof other - 1 || (here < sizeof main_thread - 1 && world_random(&world, 2));
            char letter = world.thread ? main_thread[here++] : other[there++];
            world_release(&world, world_alloc(&world, stack[(unsigned char)letter], 1000));
        }
    }
    struct mp_model *model = world_build(&world);
    mp_steps_find(model, &steps);
    ck_assert_uint_eq(steps.count, 30);
    mp_steps_free(&steps);
    mp_model_free(model);
    world_free(&world);
}

static void ask(struct mp_model *model, enum mp_verdict verdict, const char *reason)
{
    struct mp_leaks leaks;
    struct mp_leaks_query query = {.track = MP_TRACK_NONE,
                                   .window = {.last = (uint32_t)model->events.count, .whole = true},
                                   .grouping = {.by = MP_GROUP_STACK}};
    ck_assert_int_eq(mp_leaks_find(model, &query, &leaks, NULL), MP_OK);
    ck_assert_int_eq(leaks.verdict, verdict);
    if (reason) ck_assert_msg(strstr(leaks.reason, reason) != NULL, "%s", leaks.reason);
    mp_leaks_free(&leaks);
}

/* Too little was seen: unknown, and why. */
#define POOL "/threading.py:_bootstrap:900 pool.py:work:10 "

/* Each thread of a pool makes its rounds in one line, while others are in the middle of theirs. A loop of one line also
 * fills the queue, but its rounds are over before the work begins. */
START_TEST(threads_of_a_pool_make_rounds_of_one_line)
{
    static const struct paths paths = {{
        ['q'] = "pool.py:<module>:20 pool.py:main:5",
        ['a'] = POOL "a.py:a:3",
        ['b'] = POOL "b.py:b:4",
        ['c'] = POOL "c.py:c:5",
    }};
    static const char round[] = "abcbc";
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct world world;
        struct mp_steps steps = {0};
        uint32_t stack[LETTERS], done[3] = {0}, rounds = 0;
        world_start(&world, threads, 1);
        for (unsigned letter = 0; letter < LETTERS; letter++)
            if (paths.of[letter]) stack[letter] = world_path(&world, paths.of[letter], W_TORCH);
        for (unsigned i = 0; i < 90; i++)
            world_alloc(&world, stack['q'], 100);
        while (rounds < 90) {
            unsigned thread = world_random(&world, threads);
            world.thread = thread + 1;
            world_release(&world, world_alloc(&world, stack[(unsigned char)round[done[thread]++ % 5]], 1000));
            rounds += done[thread] % 5 == 0;
        }
        for (unsigned thread = 0; thread < threads; thread++)
            rounds += done[thread] % 5 > 0; /* begun, not ended */
        struct mp_model *model = world_build(&world);
        mp_steps_find(model, &steps);
        ck_assert_uint_eq(steps.count, rounds);
        mp_steps_free(&steps);
        mp_model_free(model), world_free(&world);
    }
}

/* Each thread's first calls come before the modules have names. The callers keep the answers, so the fewest bytes are
 * live in the middle of a call. Threads begin one after the other. */
START_TEST(threads_begin_before_modules_have_names)
{
    static const struct paths paths = {{
        ['a'] = POOL "a.py:a:3",
        ['b'] = POOL "a.py:a:3 " MODULE "b.py:b:4",
        ['c'] = POOL "a.py:a:3 " MODULE "c.py:c:5",
        ['d'] = POOL "a.py:a:3 d.py:d:6",
    }};
    static const char round[] = "abcbcd";
    enum { LENGTH = sizeof round - 1, ROUNDS = 240 };
    for (unsigned threads = 2; threads <= 4; threads++)
        for (unsigned named_from = 0; named_from <= 40 * threads; named_from += 13) {
            struct world world;
            struct mp_steps steps = {0};
            uint32_t stack[LETTERS], done[4] = {0}, last[4] = {0}, rounds = 0;
            world_start(&world, threads + named_from, 1);
            for (unsigned letter = 0; letter < LETTERS; letter++)
                if (paths.of[letter]) stack[letter] = world_path(&world, paths.of[letter], W_TORCH);
            while (rounds < ROUNDS) {
                unsigned begun = 1 + rounds * threads * 3 / 2 / ROUNDS, thread;
                thread = world_random(&world, begun < threads ? begun : threads);
                world.thread = thread;
                unsigned at = done[thread]++ % LENGTH;
                if (at == 4 && done[thread] > LENGTH) world_release(&world, last[thread]);
                uint32_t block = world_alloc(&world, stack[(unsigned char)round[at]], 1000);
                struct mp_event *event = &world.events.at[world.events.count - 1];
                if (at && at < 5 && world.events.count > named_from) event->name = at;
                if (at < 4) world_release(&world, block);
                if (at == 4) last[thread] = block;
                rounds += at + 1 == LENGTH;
            }
            for (unsigned thread = 0; thread < threads; thread++)
                for (world.thread = thread; done[thread] % LENGTH; done[thread]++) {
                    unsigned at = done[thread] % LENGTH;
                    world_release(&world, world_alloc(&world, stack[(unsigned char)round[at]], 1000));
                    if (at && at < 5) world.events.at[world.events.count - 2].name = at;
                    rounds += at + 1 == LENGTH;
                }
            struct mp_model *model = world_build(&world);
            mp_steps_find(model, &steps);
            ck_assert_msg(steps.count == rounds, "%u threads, names from event %u on: %zu of %u", threads, named_from,
                          steps.count, rounds);
            mp_steps_free(&steps);
            mp_model_free(model), world_free(&world);
        }
}

/* Rounds that are over before most of the work is done are no steps. */
START_TEST(rounds_of_a_small_part_are_no_steps)
{
    static const struct paths paths = {{['q'] = "p.py:<module>:20 p.py:main:5",
                                        ['a'] = "/threading.py:_bootstrap:900 a.py:a:3",
                                        ['b'] = "/threading.py:_bootstrap:900 b.py:b:4",
                                        ['c'] = "/queue.py:run:70 c.py:c:5",
                                        ['d'] = "/queue.py:run:70 c.py:d:6"}};
    char text[4096], *at = repeat(text, "q", 100);
    uint32_t random = 1;
    for (unsigned i = 0; i < 180; i++) {
        random = random * 1664525 + 1013904223;
        *at++ = "abcd"[random >> 30];
    }
    *at = 0;
    struct world world;
    for (unsigned skip = 0; skip < 2; skip++) { /* complete, and with less of the rest */
        struct mp_steps steps = {0};
        text[190] = skip ? 0 : text[190];
        struct mp_model *model = play(&world, &paths, text);
        mp_period_find(model, true, &steps);
        ck_assert_uint_eq(steps.count, skip ? 100 : 0);
        mp_steps_free(&steps);
        mp_model_free(model), world_free(&world);
    }
}

/* Host blocks are sampled, so a round without one is a round. If there are no others, they show the loop. */
START_TEST(a_sample_of_the_host_does_not_decide)
{
    for (unsigned with_torch = 0; with_torch < 2; with_torch++) {
        struct world world;
        struct mp_steps steps = {0};
        world_start(&world, 1, 1);
        uint32_t host = world_path(&world, "serve.py:<module>:15 serve.py:main:13 serve.py:answer:8", W_APP);
        uint32_t other =
            world_path(&world, "serve.py:<module>:15 serve.py:main:13 serve.py:answer:9", with_torch ? W_TORCH : W_APP);
        for (uint32_t round = 0; round < 80; round++) {
            if (!with_torch || round % 5 < 3) world_alloc(&world, host, 1000);
            world_release(&world, world_alloc(&world, other, 1000));
        }
        struct mp_model *model = world_build(&world);
        for (size_t i = 0; i < model->tracks.count; i++)
            if (model->tracks.at[i].layer == MP_LAYER_APP) model->tracks.at[i].layer = MP_LAYER_MALLOC;
        model->host_bytes = 512 << 10;
        mp_steps_find(model, &steps);
        ck_assert_msg(steps.count >= 79 && steps.count <= 80, "%u: %zu steps", with_torch, steps.count);
        mp_steps_free(&steps);
        mp_model_free(model), world_free(&world);
    }
}

START_TEST(too_little_is_unknown)
{
    struct world world;
    char text[4096];
    repeat(text, "drxylbBopop", 3);
    struct mp_model *model = play(&world, &training, text);
    ask(model, MP_VERDICT_UNKNOWN, "too few steps: 3");
    mp_model_free(model), world_free(&world);
    model = play(&world, &training, "");
    ask(model, MP_VERDICT_UNKNOWN, "no steps");
    mp_model_free(model), world_free(&world);

    world_start(&world, 3, 1); /* one giant step that keeps everything */
    world.marked = true;
    world.threads = 1;
    uint32_t stack = world_path(&world, training.of['x'], W_TORCH);
    world_begin_step(&world);
    for (int i = 0; i < 5000; i++)
        world_alloc(&world, stack, 1000);
    model = world_build(&world);
    ask(model, MP_VERDICT_UNKNOWN, "too few steps: 1");
    mp_model_free(model), world_free(&world);
}

START_TEST(everybody_knows_the_same_steps)
{
    struct world world;
    char text[512] = "", step[16];
    repeat(text, "drxylbop", 20);
    struct mp_model *model = play(&world, &training, text);
    struct mp_steps steps = {0};
    mp_steps_find(model, &steps);
    ck_assert_uint_gt(steps.count, 10);
    ck_assert_str_eq(mp_steps_source(&steps), "inferred");
    for (uint32_t number = 1; number <= steps.count; number++) {
        const struct mp_step *of = &steps.at[number - 1];
        struct mp_window window;
        sprintf(step, "step:%u", number);
        ck_assert_int_eq(mp_window_make(model, step, step, &window, NULL), MP_OK);
        ck_assert_uint_eq(window.first, of->first);
        ck_assert_uint_eq(window.last, of->end);
        struct mp_filter *filter;
        sprintf(step, "step=%u", number);
        ck_assert_int_eq(mp_filter_make(model, step, NULL, &filter, NULL), MP_OK);
        for (uint32_t block = 0; block < model->blocks.count; block++)
            ck_assert_int_eq(mp_filter_picks(filter, block),
                             mp_step_of(&steps, model->blocks.alloc_event[block]) == number);
        mp_filter_free(filter);
        struct mp_peak peak;
        const struct mp_peak_query ask = {.window = window};
        mp_peak_find(model, &ask, &peak);
        ck_assert_uint_eq(peak.step, number);
        mp_peak_free(&peak);
    }
    mp_steps_free(&steps);
    mp_model_free(model);
    world_free(&world);
}

MP_SUITE("steps_loop", what_repeats_inside_a_step_is_no_step, lines_beyond_backward_do_not_run,
         evaluation_and_epochs_are_no_steps, accumulation_ends_with_the_optimizer, one_forward_has_no_steps,
         a_loop_of_one_line_is_guessed, rounds_whose_lines_all_allocate_twice_are_one_step_each,
         other_threads_do_not_count, threads_of_a_pool_make_rounds_of_one_line, threads_begin_before_modules_have_names,
         rounds_of_a_small_part_are_no_steps, too_little_is_unknown, a_sample_of_the_host_does_not_decide,
         everybody_knows_the_same_steps)
