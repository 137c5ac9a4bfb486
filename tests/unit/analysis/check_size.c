#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/sizing/size.h"
#include "leakbench/world.h"
#include "unit/suite.h"

/* ---- one size --------------------------------------------------------------------------------------------------- */

static struct mp_size_points points_at(const struct mp_size_point *at, size_t count, bool two)
{
    struct mp_size_points points = {.count = count, .two = two};
    for (size_t i = 0; i < count; i++) {
        points.at[i] = at[i];
        mp_size_monomials(at[i], points.monomials[i]);
    }
    return points;
}

static double value(const struct mp_size_sum *sum, uint64_t first, uint64_t second)
{
    double monomials[MP_SIZE_TERMS];
    mp_size_monomials((struct mp_size_point){first, second}, monomials);
    return mp_size_sum_at(sum, monomials);
}

static const struct mp_size_point batches[] = {{4, 1}, {8, 1}, {12, 1}};
static const struct mp_size_point grid[] = {{4, 16}, {8, 16}, {4, 32}, {8, 32}};

START_TEST(sizes_of_whole_factors_are_solved)
{
    struct mp_size_points points = points_at(batches, 3, false);
    struct mp_size_solution solution;
    for (int constant = -300; constant < 3000; constant += 37)
        for (int slope = 0; slope < 4000; slope += 41) {
            struct mp_size_seen seen;
            for (size_t i = 0; i < 3; i++)
                seen.low[i] = seen.high[i] = constant + slope * (double)batches[i].first;
            mp_size_solve(&points, &seen, &solution);
            ck_assert_int_eq(solution.kind, MP_SIZE_SOLVED);
            ck_assert_double_eq(value(&solution.likely, 1000, 1), constant + slope * 1000.0);
        }
}
END_TEST

START_TEST(squares_and_triangles_are_solved)
{
    struct mp_size_points points = points_at(batches, 3, false);
    struct mp_size_solution solution;
    struct mp_size_seen squares, triangles;
    for (size_t i = 0; i < 3; i++) {
        double x = (double)batches[i].first;
        squares.low[i] = squares.high[i] = 4 * x * x;
        triangles.low[i] = triangles.high[i] = 4 * x * (x + 1) / 2;
    }
    mp_size_solve(&points, &squares, &solution);
    ck_assert_int_eq(solution.kind, MP_SIZE_SOLVED);
    ck_assert_double_eq(value(&solution.likely, 500, 1), 4 * 500 * 500);
    mp_size_solve(&points, &triangles, &solution);
    ck_assert_int_eq(solution.kind, MP_SIZE_SOLVED);
    ck_assert_double_eq(value(&solution.likely, 500, 1), 2 * 500 * 501);
}
END_TEST

START_TEST(two_variables_are_solved)
{
    static const double factors[][4] = {{0, 0, 0, 256}, {0, 0, 512, 0}, {64, 0, 0, 12}, {0, 8, 0, 4}};
    struct mp_size_points points = points_at(grid, 4, true);
    for (size_t which = 0; which < 4; which++) {
        const double *factor = factors[which];
        struct mp_size_solution solution;
        struct mp_size_seen seen;
        for (size_t i = 0; i < 4; i++) {
            double x = (double)grid[i].first, y = (double)grid[i].second;
            seen.low[i] = seen.high[i] = factor[0] + factor[1] * x + factor[2] * x * y * y + factor[3] * x * y;
        }
        mp_size_solve(&points, &seen, &solution);
        ck_assert_int_eq(solution.kind, MP_SIZE_SOLVED);
        ck_assert_double_eq(value(&solution.likely, 64, 100),
                            factor[0] + factor[1] * 64 + factor[2] * 64 * 1e4 + factor[3] * 6400);
    }
}
END_TEST

START_TEST(what_follows_no_rule_is_opaque_and_bounded)
{
    static const double sizes[][3] = {{100, 900, 300}, {64, 127, 191}, {1000, 1001, 1009}};
    struct mp_size_points points = points_at(batches, 3, false);
    for (size_t which = 0; which < 3; which++) {
        struct mp_size_solution solution;
        struct mp_size_seen seen;
        memcpy(seen.low, sizes[which], sizeof sizes[which]);
        memcpy(seen.high, sizes[which], sizeof sizes[which]);
        mp_size_solve(&points, &seen, &solution);
        ck_assert_int_eq(solution.kind, MP_SIZE_OPAQUE);
        struct mp_size_bounds bounds =
            mp_size_bound(&points, seen.high, mp_size_growth(&points, seen.high), (struct mp_size_point){120, 1});
        ck_assert_double_le(bounds.low, bounds.likely);
        ck_assert_double_le(bounds.likely, bounds.high);
        ck_assert_double_ge(bounds.high, sizes[which][2]);
    }
}
END_TEST

/* Of sizes that are known only as blocks, rounded up to 512 bytes, the bounds hold the true size. */
START_TEST(rounded_sizes_are_bounded)
{
    struct mp_size_points points = points_at(batches, 3, false);
    for (uint64_t slope = 1; slope < 30000; slope += 113) {
        struct mp_size_solution solution;
        struct mp_size_seen seen;
        for (size_t i = 0; i < 3; i++) {
            seen.high[i] = ceil((double)(slope * batches[i].first) / 512) * 512;
            seen.low[i] = seen.high[i] - 511;
        }
        mp_size_solve(&points, &seen, &solution);
        ck_assert_int_ne(solution.kind, MP_SIZE_OPAQUE);
        double low = value(&solution.low, 192, 1), high = value(&solution.high, 192, 1);
        if (slope * 12 <= 512) continue; /* the same in every probe: taken to be constant */
        ck_assert_double_le(low, (double)slope * 192 + 1e-3);
        ck_assert_double_ge(high, (double)slope * 192 - 1e-3);
        ck_assert_double_le(high - low, 512.0 * 192 / 12 + 1);
    }
}
END_TEST

/* ---- whole programs --------------------------------------------------------------------------------------------- */

#define LAYERS 12

/* A made-up training: each layer's output is kept until the way back; what is live is summed up beside. */
struct program {
    double constant[LAYERS], first[LAYERS], both[LAYERS], square[LAYERS]; /* factors of each layer's size */
    uint64_t parameters, seed;
    uint32_t steps;
    bool per_sample, marked, noisy, other, workers, stream, one_line;
};

#define WAIT_MOST 6

/* Pictures and labels, as a DataLoader's workers end them: one that is wanted, and some before their turn. */
struct arrived {
    uint32_t pictures[WAIT_MOST + 1], labels[WAIT_MOST + 1];
    size_t count;
};

/* Batches of one block, of a second loader. */
struct stream {
    uint32_t batches[WAIT_MOST + 1];
    size_t count;
};

struct run {
    struct world world;
    uint64_t live, peak;
    MP_VEC(uint64_t) bytes;
    struct arrived arrived;
    struct stream stream;
};

static uint32_t take(struct run *run, uint32_t site, double bytes)
{
    uint32_t block = world_alloc(&run->world, site, (uint64_t)bytes);
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

static double layer_bytes(const struct program *program, struct run *run, size_t layer, uint64_t x, uint64_t y)
{
    double bytes = program->constant[layer] + program->first[layer] * (double)x +
                   program->both[layer] * (double)(x * y) + program->square[layer] * (double)(x * x);
    if (program->noisy) bytes *= 1 + 0.1 * world_random(&run->world, 100) / 100;
    return bytes;
}

/* Rarely on another way, which not every run takes. */
static void receive(const struct program *program, struct run *run, const uint32_t *sites, uint64_t x)
{
    struct arrived *arrived = &run->arrived;
    uint32_t site = sites[!program->one_line && !world_random(&run->world, 20)];
    while (!arrived->count || (arrived->count <= WAIT_MOST && world_random(&run->world, 2))) {
        arrived->pictures[arrived->count] = take(run, site, (double)(x * 12288));
        arrived->labels[arrived->count++] = take(run, site, (double)(x * 8));
    }
}

static void drop_first(struct run *run)
{
    struct arrived *arrived = &run->arrived;
    give(run, arrived->pictures[0]);
    give(run, arrived->labels[0]);
    arrived->count--;
    memmove(arrived->pictures, arrived->pictures + 1, arrived->count * sizeof *arrived->pictures);
    memmove(arrived->labels, arrived->labels + 1, arrived->count * sizeof *arrived->labels);
}

static void receive_stream(struct run *run, uint32_t site, uint64_t x)
{
    struct stream *stream = &run->stream;
    while (!stream->count || (stream->count <= WAIT_MOST && world_random(&run->world, 2)))
        stream->batches[stream->count++] = take(run, site, (double)(x * 4096));
}

static void drop_first_of_stream(struct run *run)
{
    struct stream *stream = &run->stream;
    give(run, stream->batches[0]);
    stream->count--;
    memmove(stream->batches, stream->batches + 1, stream->count * sizeof *stream->batches);
}

static void one_step(const struct program *program, struct run *run, const uint32_t *sites, uint64_t x, uint64_t y)
{
    uint32_t kept[LAYERS], samples[4096];
    world_begin_step(&run->world);
    for (uint64_t i = 0; program->per_sample && i < x; i++)
        samples[i] = take(run, sites[LAYERS], 1024);
    if (program->workers) receive(program, run, &sites[LAYERS + 5], x);
    uint32_t input = take(run, sites[LAYERS + 1], (double)(x * 1024));
    if (program->stream) receive_stream(run, sites[LAYERS + 7], x);
    for (uint64_t i = 0; program->per_sample && i < x; i++)
        give(run, samples[i]);
    for (size_t layer = 0; layer < LAYERS; layer++)
        kept[layer] = take(run, sites[layer], layer_bytes(program, run, layer, x, y));
    for (size_t layer = LAYERS; layer--;) {
        uint32_t gradient = take(run, sites[LAYERS + 2], layer_bytes(program, run, layer, x, y));
        give(run, kept[layer]);
        give(run, gradient);
    }
    give(run, input);
    if (program->workers) drop_first(run);
    if (program->stream) drop_first_of_stream(run);
    if (run->world.step == 1) take(run, sites[LAYERS + 3], 2.0 * (double)program->parameters);
}

static struct mp_model *execute(const struct program *program, uint64_t x, uint64_t y, uint64_t *peak)
{
    static const char *const names[] = {"sample", "input", "backward", "optimizer", "parameters"};
    struct run run = {0};
    uint32_t sites[LAYERS + 8];
    world_start(&run.world, program->seed + x * 1000 + y, program->steps);
    run.world.marked = program->marked;
    run.world.threads = 1;
    for (size_t i = 0; i < LAYERS + 5; i++) {
        char name[32];
        snprintf(name, sizeof name, i < LAYERS ? "%slayer%zu" : "%.0s%zu", program->other ? "other " : "", i);
        sites[i] = world_site(&run.world, i < LAYERS || program->other ? name : names[i - LAYERS], true, W_APP,
                              MP_KIND_DEVICE);
    }
    for (size_t way = 0; way < 2; way++)
        sites[LAYERS + 5 + way] = world_path(&run.world,
                                             way ? "train.py:main:8 /torch/utils/data/dataloader.py:_try_get_data:1133"
                                                 : "train.py:main:7 /torch/utils/data/dataloader.py:_try_get_data:1133",
                                             W_APP);
    sites[LAYERS + 7] =
        world_path(&run.world, "train.py:main:9 /torch/utils/data/dataloader.py:_try_get_data:1133", W_APP);
    take(&run, sites[LAYERS + 4], (double)program->parameters);
    for (uint32_t step = 0; step < program->steps; step++)
        one_step(program, &run, sites, x, y);
    *peak = run.peak;
    struct mp_model *model = world_build(&run.world);
    world_free(&run.world);
    mp_vec_free(&run.bytes);
    return model;
}

static struct program some_program(uint64_t seed, bool two)
{
    struct world dice;
    world_start(&dice, seed, 1);
    struct program program = {.parameters = 100000 + world_random(&dice, 1000000), .seed = seed, .steps = 3};
    for (size_t i = 0; i < LAYERS; i++) {
        unsigned kind = world_random(&dice, 4);
        program.constant[i] = kind == 0 ? 4.0 * world_random(&dice, 10000) : 0;
        program.first[i] = kind == 1 || kind == 3 ? 4.0 * (1 + world_random(&dice, 4000)) : 0;
        program.both[i] = two && kind == 2 ? 4.0 * (1 + world_random(&dice, 300)) : 0;
        program.square[i] = !two && kind == 2 ? 4.0 * (1 + world_random(&dice, 20)) : 0;
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

static void probe(struct asked *asked, const struct program *program, uint64_t x, uint64_t y)
{
    uint64_t peak;
    struct mp_model *model = execute(program, x, y, &peak);
    struct mp_size_probe probe = {.model = model, .name = "some.mp", .at = {x, y}};
    asked->models[asked->question.count] = model;
    asked->probes[asked->question.count++] = probe;
    if (y > 1) asked->question.two = true;
}

static enum mp_status ask(struct asked *asked, uint64_t capacity, const struct mp_size_point *predict, size_t count)
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
        if (asked->answer.needs.at[i].at.first == x) return asked->answer.needs.at[i];
    ck_abort_msg("there is no answer for %llu", (unsigned long long)x);
}

/* The answer for every batch is what the program really takes there, to the byte. */
START_TEST(programs_are_predicted)
{
    static const struct mp_size_point far[] = {{16, 1}, {50, 1}, {192, 1}, {1000, 1}};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct program program = some_program(seed, false);
        struct asked asked = {0};
        for (size_t i = 0; i < 3; i++)
            probe(&asked, &program, batches[i].first, 1);
        ck_assert_msg(ask(&asked, UINT64_C(1) << 40, far, 4) == MP_OK, "seed %u: %s", (unsigned)seed, asked.error.text);
        for (size_t i = 0; i < 4; i++) {
            uint64_t peak;
            mp_model_free(execute(&program, far[i].first, 1, &peak));
            const struct mp_size_need *need = &asked.answer.needs.at[i];
            ck_assert_uint_eq(need->at.first, far[i].first);
            ck_assert_uint_eq(need->allocated, peak);
            ck_assert_uint_eq(need->low, peak);
            ck_assert_uint_eq(need->high, peak);
        }
        mp_size_answer_free(&asked.answer);
        end(&asked);
    }
}
END_TEST

START_TEST(the_largest_batch_is_the_largest)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct program program = some_program(seed, false);
        for (uint64_t batch = 30; batch < 300; batch = batch * 3 / 2) {
            uint64_t peak, next;
            struct asked asked = {0};
            for (size_t i = 0; i < 3; i++)
                probe(&asked, &program, batches[i].first, 1);
            mp_model_free(execute(&program, batch, 1, &peak));
            mp_model_free(execute(&program, batch + 1, 1, &next));
            ck_assert_int_eq(ask(&asked, peak, NULL, 0), MP_OK);
            if (next > peak) ck_assert_uint_eq(asked.answer.largest.at[0].first, batch);
            mp_size_answer_free(&asked.answer);
            if (next > peak) {
                ck_assert_int_eq(ask(&asked, next - 1, NULL, 0), MP_OK);
                ck_assert_uint_eq(asked.answer.largest.at[0].first, batch);
                mp_size_answer_free(&asked.answer);
            }
            end(&asked);
        }
    }
}
END_TEST

START_TEST(two_variables_are_predicted)
{
    static const struct mp_size_point far[] = {{16, 64}, {100, 128}};
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct program program = some_program(seed, true);
        struct asked asked = {0};
        for (size_t i = 0; i < 4; i++)
            probe(&asked, &program, grid[i].first, grid[i].second);
        ck_assert_msg(ask(&asked, UINT64_C(1) << 40, far, 2) == MP_OK, "%s", asked.error.text);
        for (size_t i = 0; i < asked.answer.needs.count; i++) {
            uint64_t peak;
            if (asked.answer.needs.at[i].at.first > 100) continue;
            mp_model_free(
                execute(&program, asked.answer.needs.at[i].at.first, asked.answer.needs.at[i].at.second, &peak));
            ck_assert_uint_eq(asked.answer.needs.at[i].allocated, peak);
        }
        mp_size_answer_free(&asked.answer);
        end(&asked);
    }
}
END_TEST

/* Sizes that vary with the data: the truth lies between the bounds, and nothing beyond is sure to fit. */
START_TEST(noise_is_bounded)
{
    size_t inside = 0, all = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct program program = some_program(seed, false);
        program.noisy = true;
        struct asked asked = {0};
        static const struct mp_size_point far[] = {{16, 1}, {96, 1}};
        for (size_t i = 0; i < 3; i++)
            probe(&asked, &program, batches[i].first, 1);
        if (ask(&asked, UINT64_C(1) << 40, far, 2) != MP_OK) {
            end(&asked);
            continue;
        }
        for (size_t i = 0; i < 2; i++) {
            uint64_t peak;
            mp_model_free(execute(&program, far[i].first, 1, &peak));
            const struct mp_size_need *need = &asked.answer.needs.at[i];
            inside += need->low <= peak && peak <= need->high;
            all++;
        }
        mp_size_answer_free(&asked.answer);
        end(&asked);
    }
    ck_assert_uint_ge(all, 60);
    ck_assert_uint_ge(inside * 100, all * 95);
}
END_TEST

/* How many batches wait when the peak comes is chance. What a probe had too many of, another run may lack. */
static void check_batches_are_bounded(bool stream, bool one_line, uint64_t widest)
{
    static const struct mp_size_point far = {64, 1};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct program program = some_program(seed, false);
        program.workers = true;
        program.stream = stream;
        program.one_line = one_line;
        program.steps = 12;
        struct asked asked = {0};
        for (size_t i = 0; i < 3; i++)
            probe(&asked, &program, batches[i].first, 1);
        ck_assert_int_eq(ask(&asked, UINT64_C(1) << 40, &far, 1), MP_OK);
        struct mp_size_need need = need_at(&asked, far.first);
        ck_assert_uint_le(need.high - need.low, widest);
        for (uint64_t run = 1; run <= 20; run++) {
            uint64_t peak;
            program.seed = seed * 1000 + run;
            mp_model_free(execute(&program, far.first, 1, &peak));
            ck_assert_uint_le(need.low, peak);
            ck_assert_uint_ge(need.high, peak);
        }
        mp_size_answer_free(&asked.answer);
        end(&asked);
    }
}

START_TEST(batches_of_workers_are_bounded)
{
    check_batches_are_bounded(false, false, UINT64_MAX);
}
END_TEST

/* Two loaders, of two blocks a batch and of one: that one's batches came by threes says nothing of the other's. Of each
 * there are seven at most: all fourteen may come, or be missing, beside what else is uncertain. */
START_TEST(batches_of_two_loaders_are_bounded)
{
    static const uint64_t batch = 64 * (12288 + 8);
    check_batches_are_bounded(true, true, 32 * batch);
    check_batches_are_bounded(true, false, UINT64_MAX);
}
END_TEST

/* ---- sizes that were recorded more than once --------------------------------------------------------------------- */

static struct mp_size_need need_with_repeat(double more, size_t *probes)
{
    const struct mp_size_point far = {40, 1};
    struct program program = some_program(3, false), again = program;
    struct asked asked = {0};
    again.constant[0] += more;
    probe(&asked, &program, 4, 1);
    probe(&asked, &again, 8, 1);
    probe(&asked, &program, 8, 1);
    probe(&asked, &program, 12, 1);
    ck_assert_int_eq(ask(&asked, UINT64_C(1) << 40, &far, 1), MP_OK);
    struct mp_size_need need = need_at(&asked, far.first);
    *probes = asked.answer.probes.count;
    mp_size_answer_free(&asked.answer);
    end(&asked);
    return need;
}

START_TEST(runs_of_one_size_are_held_against_each_other)
{
    size_t probes;
    uint64_t peak;
    struct program program = some_program(3, false);
    mp_model_free(execute(&program, 40, 1, &peak));
    struct mp_size_need alike = need_with_repeat(0, &probes);
    ck_assert_uint_eq(probes, 4);
    ck_assert_uint_eq(alike.allocated, peak);
    ck_assert_uint_eq(alike.low, peak);
    ck_assert_uint_eq(alike.high, peak);
    struct mp_size_need unlike = need_with_repeat(1e8, &probes);
    ck_assert_uint_eq(probes, 4);
    ck_assert_uint_ge(unlike.high, peak + (uint64_t)1e8);
}
END_TEST

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
    struct program program = some_program(3, false), other = program, flat = program, falling = program;
    other.other = true;
    for (size_t i = 0; i < LAYERS; i++) {
        flat.first[i] = flat.square[i] = 0;
        falling.first[i] = falling.square[i] = 0;
    }
    flat.constant[0] = 1e7;
    falling.constant[0] = 1e8;

    struct asked one = {0};
    probe(&one, &program, 4, 1);
    expect_refusal(&one, MP_INVALID, "one recording does not show");

    struct asked same = {0};
    probe(&same, &program, 4, 1);
    probe(&same, &program, 4, 1);
    expect_refusal(&same, MP_INVALID, "all recordings are of 4");

    struct asked differ = {0};
    probe(&differ, &program, 4, 1);
    probe(&differ, &other, 8, 1);
    probe(&differ, &program, 12, 1);
    expect_refusal(&differ, MP_UNSUPPORTED, "do not come from one program");

    struct asked failed = {0};
    probe(&failed, &program, 4, 1);
    probe(&failed, &program, 8, 1);
    failed.models[1]->how.status = 1;
    expect_refusal(&failed, MP_UNSUPPORTED, "failed");

    struct asked cut = {0};
    probe(&cut, &program, 4, 1);
    probe(&cut, &program, 8, 1);
    cut.models[0]->damage.cut = true;
    expect_refusal(&cut, MP_UNSUPPORTED, "is cut, damaged or lost events");

    struct asked track = {.question.track = "cuda:7/torch"};
    probe(&track, &program, 4, 1);
    probe(&track, &program, 8, 1);
    expect_refusal(&track, MP_UNSUPPORTED, "has no track cuda:7/torch");

    struct asked falls = {0};
    probe(&falls, &falling, 4, 1);
    probe(&falls, &program, 8, 1);
    expect_refusal(&falls, MP_UNSUPPORTED, "memory falls");

    struct asked still = {0};
    flat.per_sample = false;
    probe(&still, &flat, 4, 1);
    probe(&still, &flat, 4, 1);
    still.probes[1].at.first = 8;
    expect_refusal(&still, MP_UNSUPPORTED, "memory does not depend");
}
END_TEST

MP_SUITE("size", sizes_of_whole_factors_are_solved, squares_and_triangles_are_solved, two_variables_are_solved,
         what_follows_no_rule_is_opaque_and_bounded, rounded_sizes_are_bounded, programs_are_predicted,
         the_largest_batch_is_the_largest, two_variables_are_predicted, noise_is_bounded,
         batches_of_workers_are_bounded, batches_of_two_loaders_are_bounded,
         runs_of_one_size_are_held_against_each_other, bad_probes_are_refused)
