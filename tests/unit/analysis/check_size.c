#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/sizing/size.h"
#include "leakbench/world.h"
#include "unit/suite.h"

/* ---- one size --------------------------------------------------------------------------------------------------- */

static const struct mp_size_batches batches = {{4, 8, 12}, 3, 3};

static struct mp_size_seen exactly(double one, double two, double three)
{
    return (struct mp_size_seen){{one, two, three}, {one, two, three}};
}

START_TEST(sizes_of_whole_factors_are_solved)
{
    struct mp_size_solution solution;
    for (int constant = -300; constant < 3000; constant += 37)
        for (int slope = 0; slope < 4000; slope += 41) {
            struct mp_size_seen seen = exactly(constant + slope * 4.0, constant + slope * 8.0, constant + slope * 12.0);
            mp_size_solve(&batches, &seen, &solution);
            ck_assert(solution.proved);
            ck_assert_double_eq(mp_size_sum_at(&solution.likely, 1000), constant + slope * 1000.0);
            ck_assert_mem_eq(&solution.low, &solution.high, sizeof solution.low);
        }
}

START_TEST(squares_and_triangles_are_solved)
{
    struct mp_size_solution solution;
    struct mp_size_seen squares = exactly(64, 256, 576), triangles = exactly(40, 144, 312);
    mp_size_solve(&batches, &squares, &solution);
    ck_assert(solution.proved);
    ck_assert_double_eq(mp_size_sum_at(&solution.likely, 500), 4 * 500 * 500);
    mp_size_solve(&batches, &triangles, &solution); /* 4 * B * (B + 1) / 2 */
    ck_assert(solution.proved);
    ck_assert_double_eq(mp_size_sum_at(&solution.likely, 500), 2 * 500 * 501);
}

START_TEST(sizes_that_follow_no_rule_are_not_proved)
{
    static const double sizes[][3] = {{100, 900, 300}, {64, 127, 191}, {1000, 1001, 1009}, {900, 500, 100}};
    for (size_t which = 0; which < sizeof sizes / sizeof *sizes; which++) {
        struct mp_size_solution solution;
        struct mp_size_seen seen = exactly(sizes[which][0], sizes[which][1], sizes[which][2]);
        mp_size_solve(&batches, &seen, &solution);
        ck_assert(!solution.proved);
        double near = mp_size_sum_at(&solution.likely, 12), far = mp_size_sum_at(&solution.likely, 120);
        ck_assert_double_ge(near, 0);
        ck_assert_double_ge(far, near);
    }
}

/* Two batches prove sizes with a single factor. Repeating one of the batches proves no more. */
START_TEST(as_many_batches_as_factors_prove_nothing)
{
    static const struct mp_size_batches two = {{4, 8}, 2, 2}, again = {{4, 8, 8}, 3, 2};
    struct mp_size_solution solution;
    struct mp_size_seen one_factor = exactly(40, 80, 80), two_factors = exactly(50, 90, 90);
    mp_size_solve(&two, &one_factor, &solution);
    ck_assert(solution.proved);
    for (size_t i = 0; i < 2; i++) {
        mp_size_solve(i ? &again : &two, &two_factors, &solution);
        ck_assert(!solution.proved);
        ck_assert_double_eq(mp_size_sum_at(&solution.likely, 100), 1010);
    }
}

/* Sizes that are known only as blocks, rounded up to 512 bytes: the bounds hold the true size. */
START_TEST(rounded_sizes_are_bounded)
{
    for (uint64_t slope = 1; slope < 30000; slope += 113) {
        struct mp_size_solution solution;
        struct mp_size_seen seen;
        for (size_t i = 0; i < 3; i++) {
            seen.high[i] = ceil((double)slope * batches.at[i] / 512) * 512;
            seen.low[i] = seen.high[i] - 511;
        }
        mp_size_solve(&batches, &seen, &solution);
        ck_assert(solution.proved);
        double low = mp_size_sum_at(&solution.low, 192), high = mp_size_sum_at(&solution.high, 192);
        if (slope * 12 <= 512) continue; /* equal in every probe, so taken as constant */
        ck_assert_double_le(low, (double)slope * 192 + 1e-3);
        ck_assert_double_ge(high, (double)slope * 192 - 1e-3);
        ck_assert_double_le(high - low, 512.0 * 192 / 12 + 1);
    }
}

/* The example in size_solve.h. */
START_TEST(the_example_is_right)
{
    struct mp_size_solution solution;
    struct mp_size_seen blocks = {{1537, 3073, 4609}, {2048, 3584, 5120}};
    mp_size_solve(&batches, &blocks, &solution);
    ck_assert_double_eq_tol(mp_size_sum_at(&solution.low, 16), 6148, 0.01);
    ck_assert_double_eq_tol(mp_size_sum_at(&solution.high, 16), 6826.67, 0.01);
}

/* ---- whole programs --------------------------------------------------------------------------------------------- */

#define LAYERS 12

/* A made-up training: each layer's output is kept until backward. Live bytes are summed up separately. */
struct program {
    double constant[LAYERS], first[LAYERS], square[LAYERS]; /* factors of each layer's size */
    uint64_t parameters, seed;
    uint32_t steps;
    bool per_sample, marked, noisy, other;
    uint32_t queue; /* at most this many batches wait; the number is random */
    bool fetcher;   /* another thread makes them */
    bool rounded;   /* on a GPU, recorded as blocks of 512 bytes */
};

#define WAIT_MOST 6

struct run {
    struct world world;
    bool rounded;
    uint64_t live, peak;
    MP_VEC(uint64_t) bytes;
    uint32_t waiting[WAIT_MOST + 1];
    size_t count;
};

static uint32_t take(struct run *run, uint32_t site, double bytes)
{
    double recorded = run->rounded ? ceil(fmax(bytes, 1) / 512) * 512 : bytes;
    uint32_t block = world_alloc(&run->world, site, (uint64_t)recorded);
    ck_assert(mp_vec_push(&run->bytes, (uint64_t)bytes));
    run->live += (uint64_t)bytes;
    if (run->live > run->peak) run->peak = run->live;
    return block;
}

static void give(struct run *run, uint32_t block)
{
    run->live -= run->bytes.at[block];
    world_release(&run->world, block);
}

static double layer_bytes(const struct program *program, struct run *run, size_t layer, uint64_t x)
{
    double bytes =
        program->constant[layer] + program->first[layer] * (double)x + program->square[layer] * (double)(x * x);
    if (program->noisy) bytes *= 1 + 0.1 * world_random(&run->world, 100) / 100;
    return bytes;
}

/* Receives the next batch, and by chance some later ones early. */
static void receive(const struct program *program, struct run *run, uint32_t site, uint64_t x)
{
    run->world.thread = program->fetcher;
    while (!run->count || (run->count <= program->queue && world_random(&run->world, 2)))
        run->waiting[run->count++] = take(run, site, (double)(x * 12288));
    run->world.thread = 0;
}

static void drop_first(struct run *run)
{
    give(run, run->waiting[0]);
    run->count--;
    memmove(run->waiting, run->waiting + 1, run->count * sizeof *run->waiting);
}

static void one_step(const struct program *program, struct run *run, const uint32_t *sites, uint64_t x)
{
    uint32_t kept[LAYERS], samples[4096];
    world_begin_step(&run->world);
    for (uint64_t i = 0; program->per_sample && i < x; i++)
        samples[i] = take(run, sites[LAYERS], 1024);
    if (program->queue) receive(program, run, sites[LAYERS + 5], x);
    uint32_t input = take(run, sites[LAYERS + 1], (double)(x * 1024));
    for (uint64_t i = 0; program->per_sample && i < x; i++)
        give(run, samples[i]);
    for (size_t layer = 0; layer < LAYERS; layer++)
        kept[layer] = take(run, sites[layer], layer_bytes(program, run, layer, x));
    for (size_t layer = LAYERS; layer--;) {
        uint32_t gradient = take(run, sites[LAYERS + 2], layer_bytes(program, run, layer, x));
        give(run, kept[layer]);
        give(run, gradient);
    }
    give(run, input);
    if (program->queue) drop_first(run);
    if (run->world.step == 1) take(run, sites[LAYERS + 3], 2.0 * (double)program->parameters);
}

static struct mp_model *execute(const struct program *program, uint64_t x, uint64_t *peak)
{
    static const char *const names[] = {"sample", "input", "backward", "optimizer", "parameters", "queue"};
    struct run run = {.rounded = program->rounded};
    uint32_t sites[LAYERS + 6];
    world_start(&run.world, program->seed + x * 1000, program->steps);
    run.world.marked = program->marked;
    run.world.threads = 1;
    for (size_t i = 0; i < LAYERS + 6; i++) {
        char name[32];
        snprintf(name, sizeof name, i < LAYERS ? "%slayer%zu" : "%.0s%zu", program->other ? "other " : "", i);
        sites[i] = world_site(&run.world, i < LAYERS || program->other ? name : names[i - LAYERS], true,
                              program->rounded ? W_TORCH : W_APP, MP_KIND_DEVICE);
    }
    take(&run, sites[LAYERS + 4], (double)program->parameters);
    for (uint32_t step = 0; step < program->steps; step++)
        one_step(program, &run, sites, x);
    *peak = run.peak;
    struct mp_model *model = world_build(&run.world);
    if (program->rounded) model->tracks.at[W_TORCH].size_basis = MP_BASIS_BLOCK;
    world_free(&run.world);
    mp_vec_free(&run.bytes);
    return model;
}

static struct program some_program(uint64_t seed)
{
    struct world dice;
    world_start(&dice, seed, 1);
    struct program program = {.parameters = 100000 + world_random(&dice, 1000000), .seed = seed, .steps = 3};
    for (size_t i = 0; i < LAYERS; i++) {
        unsigned kind = world_random(&dice, 4);
        program.constant[i] = kind == 0 ? 4.0 * world_random(&dice, 10000) : 0;
        program.first[i] = kind == 1 || kind == 3 ? 4.0 * (1 + world_random(&dice, 4000)) : 0;
        program.square[i] = kind == 2 ? 4.0 * (1 + world_random(&dice, 20)) : 0;
    }
    program.per_sample = world_random(&dice, 2);
    program.marked = world_random(&dice, 2);
    world_free(&dice);
    return program;
}

struct asked {
    struct mp_size_probe probes[MP_SIZE_PROBES_MAX];
    struct mp_model *models[MP_SIZE_PROBES_MAX];
    struct mp_size_question question;
    struct mp_size_answer answer;
    struct mp_error error;
};

static void probe(struct asked *asked, const struct program *program, uint64_t x)
{
    uint64_t peak;
    struct mp_model *model = execute(program, x, &peak);
    struct mp_size_probe probe = {.model = model, .name = "some.mp", .batch = x};
    asked->models[asked->question.count] = model;
    asked->probes[asked->question.count++] = probe;
}

static void probe_all(struct asked *asked, const struct program *program, size_t count)
{
    for (size_t i = 0; i < count; i++)
        probe(asked, program, (uint64_t)batches.at[i]);
}

static uint64_t peak_of(const struct program *program, uint64_t x)
{
    uint64_t peak;
    mp_model_free(execute(program, x, &peak));
    return peak;
}

static enum mp_status ask(struct asked *asked, uint64_t capacity, const uint64_t *predict, size_t count)
{
    asked->question.probes = asked->probes;
    asked->question.capacity = capacity;
    asked->question.predict = predict;
    asked->question.predict_count = count;
    return mp_size_find(&asked->question, &asked->answer, &asked->error);
}

static void end(struct asked *asked)
{
    for (size_t i = 0; i < asked->question.count; i++)
        mp_model_free(asked->models[i]);
}

static struct mp_size_need need_at(const struct asked *asked, uint64_t x)
{
    for (size_t i = 0; i < asked->answer.needs.count; i++)
        if (asked->answer.needs.at[i].batch == x) return asked->answer.needs.at[i];
    ck_abort_msg("there is no answer for %llu", (unsigned long long)x);
}

static const uint64_t far[] = {16, 50, 192, 1000};

/* For every batch the answer is exactly what the program really allocates. */
START_TEST(programs_are_predicted)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct program program = some_program(seed);
        struct asked asked = {0};
        probe_all(&asked, &program, 3);
        ck_assert_msg(ask(&asked, UINT64_C(1) << 40, far, 4) == MP_OK, "seed %u: %s", (unsigned)seed, asked.error.text);
        ck_assert(asked.answer.proved);
        for (size_t i = 0; i < 4; i++) {
            uint64_t peak = peak_of(&program, far[i]);
            const struct mp_size_need *need = &asked.answer.needs.at[i];
            ck_assert_uint_eq(need->batch, far[i]);
            ck_assert_uint_eq(need->allocated, peak);
            ck_assert_uint_eq(need->low, peak);
            ck_assert_uint_eq(need->high, peak);
        }
        mp_size_answer_free(&asked.answer);
        end(&asked);
    }
}

/* If only blocks are known, the bounds contain the requested bytes, and are narrow. */
START_TEST(blocks_are_bounded)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct program program = some_program(seed);
        struct asked asked = {0};
        program.rounded = true;
        for (size_t i = 0; i < LAYERS; i++) /* too small a square may be any form within 512 bytes */
            program.first[i] *= 16, program.square[i] *= 100;
        probe_all(&asked, &program, 3);
        ck_assert_int_eq(ask(&asked, UINT64_C(1) << 40, far, 3), MP_OK);
        for (size_t i = 0; i < 3; i++) {
            uint64_t peak = peak_of(&program, far[i]);
            struct mp_size_need need = need_at(&asked, far[i]);
            ck_assert_msg(need.low <= peak && peak <= need.high, "seed %u", (unsigned)seed);
            ck_assert_double_le((double)need.high, 1.25 * (double)peak);
        }
        mp_size_answer_free(&asked.answer);
        end(&asked);
    }
}

START_TEST(the_largest_batch_is_the_largest)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct program program = some_program(seed);
        for (uint64_t batch = 30; batch < 300; batch = batch * 3 / 2) {
            uint64_t peak = peak_of(&program, batch), next = peak_of(&program, batch + 1);
            if (next <= peak) continue;
            struct asked asked = {0};
            probe_all(&asked, &program, 3);
            for (uint64_t capacity = peak; capacity <= next - 1; capacity += next - 1 > peak ? next - 1 - peak : 1) {
                ck_assert_int_eq(ask(&asked, capacity, NULL, 0), MP_OK);
                ck_assert_uint_eq(asked.answer.largest, batch);
                ck_assert_uint_eq(asked.answer.about, batch);
                ck_assert_int_eq(need_at(&asked, batch).fits, MP_FITS_YES);
                ck_assert_int_eq(need_at(&asked, batch + 1).fits, MP_FITS_NO);
                mp_size_answer_free(&asked.answer);
            }
            end(&asked);
        }
    }
}

/* The true value is between the bounds. No batch beyond the probes is said to fit. The answer is near, and no bound
 * jumps after the largest probe. */
static void check_doubt(const struct program *given, size_t count)
{
    static const uint64_t near[] = {11, 12, 13, 96};
    struct program program = *given;
    struct asked asked = {0};
    probe_all(&asked, &program, count);
    uint64_t capacity = peak_of(&program, 60);
    ck_assert_int_eq(ask(&asked, capacity, near, 4), MP_OK);
    ck_assert(!asked.answer.proved);
    ck_assert_uint_le(asked.answer.largest, (uint64_t)batches.at[count - 1]);
    ck_assert_uint_ge(asked.answer.about, 20);
    ck_assert_uint_le(asked.answer.about, 180);
    for (size_t i = 0; i < asked.answer.needs.count; i++)
        if ((double)asked.answer.needs.at[i].batch > batches.at[count - 1])
            ck_assert_int_ne(asked.answer.needs.at[i].fits, MP_FITS_YES);
    ck_assert_double_le((double)need_at(&asked, 13).high, 3 * (double)need_at(&asked, 12).high);
    for (uint64_t run = 1; run <= 10; run++) {
        program.seed = given->seed * 1000 + run;
        uint64_t peak = peak_of(&program, 96);
        ck_assert_uint_le(need_at(&asked, 96).low, peak);
        ck_assert_uint_ge(need_at(&asked, 96).high, peak);
    }
    mp_size_answer_free(&asked.answer);
    end(&asked);
}

START_TEST(sizes_at_random_are_bounded)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct program program = some_program(seed);
        program.noisy = true;
        check_doubt(&program, 3);
    }
}

/* The number of batches that wait at the peak is random, whether the main thread receives them or another one. */
START_TEST(numbers_at_random_are_bounded)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct program program = some_program(seed);
        program.queue = WAIT_MOST;
        program.fetcher = seed % 2;
        program.steps = 12;
        check_doubt(&program, 3);
    }
}

/* With a fetching thread the answer is never sure, even if exactly one batch was waiting in all probes. */
START_TEST(another_threads_batches_are_never_sure)
{
    struct program program = some_program(3);
    struct asked asked = {0};
    program.queue = 1;
    program.fetcher = true;
    program.steps = 1;
    probe_all(&asked, &program, 3);
    ck_assert_int_eq(ask(&asked, UINT64_C(1) << 30, NULL, 0), MP_OK);
    ck_assert(!asked.answer.proved);
    ck_assert_uint_eq(asked.answer.opaque_sites, 1);
    mp_size_answer_free(&asked.answer);
    end(&asked);
}

START_TEST(two_probes_give_about_an_answer)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct program program = some_program(seed);
        check_doubt(&program, 2);
    }
}

/* ---- batches that were recorded more than once ------------------------------------------------------------------- */

START_TEST(runs_of_one_batch_are_held_against_each_other)
{
    for (size_t unlike = 0; unlike < 2; unlike++) {
        struct program program = some_program(3), again = program;
        struct asked asked = {0};
        again.constant[0] += unlike ? 1e8 : 0;
        probe(&asked, &program, 4);
        probe(&asked, &again, 8);
        probe(&asked, &program, 8);
        probe(&asked, &program, 12);
        ck_assert_int_eq(ask(&asked, UINT64_C(1) << 40, far, 2), MP_OK);
        ck_assert_uint_eq(asked.answer.probes.count, 4);
        ck_assert_uint_eq(asked.answer.batches, 3);
        struct mp_size_need need = need_at(&asked, far[1]);
        uint64_t peak = peak_of(&program, far[1]);
        ck_assert_uint_eq(asked.answer.proved, !unlike);
        if (unlike)
            ck_assert_uint_ge(need.high, peak + (uint64_t)1e8);
        else
            ck_assert_uint_eq(need.high, peak);
        mp_size_answer_free(&asked.answer);
        end(&asked);
    }
}

/* ---- questions without an answer -------------------------------------------------------------------------------- */

static void expect_refusal(struct asked *asked, enum mp_status status, const char *words)
{
    enum mp_status got = ask(asked, UINT64_C(1) << 40, NULL, 0);
    ck_assert_int_eq(got, status);
    ck_assert_msg(strstr(asked->error.text, words), "%s", asked->error.text);
    end(asked);
}

START_TEST(bad_probes_are_refused)
{
    struct program program = some_program(3), other = program, flat = program;
    other.other = true;
    for (size_t i = 0; i < LAYERS; i++)
        flat.first[i] = flat.square[i] = 0;
    flat.constant[0] = 1e7;

    struct asked one = {0};
    probe(&one, &program, 4);
    expect_refusal(&one, MP_INVALID, "one recording does not show");

    struct asked same = {0};
    probe(&same, &program, 4);
    probe(&same, &program, 4);
    expect_refusal(&same, MP_INVALID, "all recordings are of batch 4");

    struct asked differ = {0};
    probe(&differ, &program, 4);
    probe(&differ, &other, 8);
    probe(&differ, &program, 12);
    expect_refusal(&differ, MP_UNSUPPORTED, "are not of one program");

    struct asked failed = {0};
    probe(&failed, &program, 4);
    probe(&failed, &program, 8);
    failed.models[1]->how.status = 1;
    expect_refusal(&failed, MP_UNSUPPORTED, "failed");

    struct asked cut = {0};
    probe(&cut, &program, 4);
    probe(&cut, &program, 8);
    cut.models[0]->file.damage.cut = true;
    expect_refusal(&cut, MP_UNSUPPORTED, "is cut or damaged, or lost events");

    struct asked track = {.question.track = "cuda:7/torch"};
    probe(&track, &program, 4);
    probe(&track, &program, 8);
    expect_refusal(&track, MP_UNSUPPORTED, "has no track cuda:7/torch");

    struct asked still = {0};
    flat.per_sample = false;
    probe(&still, &flat, 4);
    probe(&still, &flat, 4);
    still.probes[1].batch = 8;
    expect_refusal(&still, MP_UNSUPPORTED, "memory does not depend");
}

MP_SUITE("size", sizes_of_whole_factors_are_solved, squares_and_triangles_are_solved,
         sizes_that_follow_no_rule_are_not_proved, as_many_batches_as_factors_prove_nothing, rounded_sizes_are_bounded,
         the_example_is_right, programs_are_predicted, blocks_are_bounded, the_largest_batch_is_the_largest,
         sizes_at_random_are_bounded, numbers_at_random_are_bounded, another_threads_batches_are_never_sure,
         two_probes_give_about_an_answer, runs_of_one_batch_are_held_against_each_other, bad_probes_are_refused)
