/*
 * How well reserved memory is predicted: made-up trainings on a GPU, placed by the model of PyTorch's caching allocator
 * (which is held against real traces elsewhere), recorded as c10 reports them: blocks, not what was asked for. Three
 * small batches are recorded, larger ones are run to know the truth.
 *
 *     traces [--short]
 *
 * Prints a row for each; exits with 1 where something that is said to fit does not.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/allocator/torch_allocator.h"
#include "analysis/sizing/size.h"
#include "leakbench/world.h"

#define LAYERS     10
#define PROGRAMS   24
#define PARAMETERS 6

static const uint64_t probed[] = {4, 8, 12};
static const uint64_t asked[] = {16, 24, 33, 48, 64, 96, 131, 192};
enum { PROBES = sizeof probed / sizeof *probed, ASKED = sizeof asked / sizeof *asked };

struct program {
    uint64_t a_sample[LAYERS], fixed[LAYERS], scratch[LAYERS]; /* bytes asked for */
    uint64_t parameters[PARAMETERS];
    bool keeps[LAYERS]; /* for the way back */
    uint32_t steps;
    bool evaluates, accumulates;
};

struct run {
    struct world world;
    struct mp_torch_allocator *allocator;
    MP_VEC(uint32_t) ids;
    uint64_t reserved;
    bool blocks; /* the recording says what was handed out, else what was asked for */
};

static void must(bool done)
{
    if (done) return;
    fputs("traces: not enough memory\n", stderr);
    exit(99);
}

static uint32_t take(struct run *run, uint32_t site, uint64_t bytes)
{
    uint32_t id;
    must(mp_torch_malloc(run->allocator, bytes ? bytes : 1, 0, 0, &id) == MP_TORCH_DONE);
    uint32_t block = world_alloc(&run->world, site, run->blocks ? mp_torch_block_bytes(run->allocator, id) : bytes);
    must(mp_vec_push(&run->ids, id));
    const struct mp_torch_stats *stats = mp_torch_stats(run->allocator);
    if (stats->reserved != run->reserved) world_reserved(&run->world, W_TORCH, run->reserved = stats->reserved);
    return block;
}

static void give(struct run *run, uint32_t block)
{
    mp_torch_free(run->allocator, run->ids.at[block]);
    world_release(&run->world, block);
}

static uint64_t layer_bytes(const struct program *program, size_t layer, uint64_t batch)
{
    return program->fixed[layer] + program->a_sample[layer] * batch;
}

enum { SITE_SCRATCH = LAYERS, SITE_BACK, SITE_GRADIENT, SITE_STATE, SITE_PARAMETER, SITE_EVALUATE, SITES };

static void forward_and_back(const struct program *program, struct run *run, const uint32_t *sites, uint64_t batch)
{
    uint32_t kept[LAYERS];
    for (size_t layer = 0; layer < LAYERS; layer++) {
        uint32_t scratch = take(run, sites[SITE_SCRATCH], program->scratch[layer]);
        kept[layer] = take(run, sites[layer], layer_bytes(program, layer, batch));
        give(run, scratch);
        if (layer && !program->keeps[layer - 1]) give(run, kept[layer - 1]);
    }
    for (size_t layer = LAYERS; layer--;) {
        uint32_t back = take(run, sites[SITE_BACK], layer_bytes(program, layer, batch));
        if (program->keeps[layer] || layer == LAYERS - 1) give(run, kept[layer]);
        give(run, back);
    }
}

static void one_step(const struct program *program, struct run *run, const uint32_t *sites, uint64_t batch,
                     uint32_t *gradients)
{
    bool first = run->world.step == 0;
    world_begin_step(&run->world);
    for (unsigned i = 0; i < (program->accumulates ? 2 : 1); i++)
        forward_and_back(program, run, sites, batch);
    for (size_t i = 0; i < PARAMETERS; i++) {
        if (!first) give(run, gradients[i]);
        gradients[i] = take(run, sites[SITE_GRADIENT], program->parameters[i]);
        if (first) take(run, sites[SITE_STATE], program->parameters[i]);
    }
    if (!program->evaluates) return;
    uint32_t before = take(run, sites[SITE_EVALUATE], layer_bytes(program, 0, 2 * batch));
    uint32_t after = take(run, sites[SITE_EVALUATE], layer_bytes(program, 1, 2 * batch));
    give(run, before);
    give(run, after);
}

static struct mp_model *execute(const struct program *program, uint64_t batch, bool blocks, uint64_t *allocated,
                                uint64_t *reserved)
{
    struct run run = {.blocks = blocks};
    struct mp_torch_settings settings;
    uint32_t sites[SITES], gradients[PARAMETERS];
    mp_torch_settings_default(&settings);
    run.allocator = mp_torch_allocator_new(&settings, MP_TORCH_UNLIMITED, UINT64_C(1) << 50, NULL);
    must(run.allocator);
    world_start(&run.world, 1, program->steps);
    run.world.marked = true;
    run.world.threads = 1;
    for (size_t i = 0; i < SITES; i++) {
        char name[32];
        snprintf(name, sizeof name, "place%zu", i);
        sites[i] = world_site(&run.world, name, true, W_TORCH, MP_KIND_DEVICE);
    }
    for (size_t i = 0; i < PARAMETERS; i++)
        take(&run, sites[SITE_PARAMETER], program->parameters[i]);
    for (uint32_t step = 0; step < program->steps; step++)
        one_step(program, &run, sites, batch, gradients);
    *allocated = blocks ? mp_torch_stats(run.allocator)->peak_allocated : mp_torch_stats(run.allocator)->peak_requested;
    *reserved = mp_torch_stats(run.allocator)->peak_reserved;
    struct mp_model *model = world_build(&run.world);
    model->tracks.at[W_TORCH].size_basis = blocks ? MP_BASIS_BLOCK : MP_BASIS_REQUESTED;
    world_free(&run.world);
    mp_vec_free(&run.ids);
    mp_torch_allocator_free(run.allocator);
    return model;
}

static struct program make_program(uint64_t seed)
{
    struct world dice;
    struct program program = {.steps = seed % 2 ? 3 : 9};
    world_start(&dice, seed, 1);
    uint32_t scale = 1u << (6 + seed % 5); /* from blocks of the small pool to segments of their own */
    for (size_t i = 0; i < LAYERS; i++) {
        bool fixed = !world_random(&dice, 8);
        program.a_sample[i] = fixed ? 0 : 4 * (uint64_t)(1 + world_random(&dice, 100)) * scale;
        program.fixed[i] = fixed ? 4 * (uint64_t)(1 + world_random(&dice, 1000)) * scale : 0;
        program.scratch[i] = 1024 * (uint64_t)(1 + world_random(&dice, 2000));
        program.keeps[i] = world_random(&dice, 4);
    }
    for (size_t i = 0; i < PARAMETERS; i++)
        program.parameters[i] = 4 * (uint64_t)(1 + world_random(&dice, 300000));
    program.evaluates = seed % 3 == 0;
    program.accumulates = seed % 4 == 1;
    world_free(&dice);
    return program;
}

struct score {
    double allocated_error, reserved_error, least, most;
    unsigned cases, covered, needs, wrong, unsure;
};

static void find(const struct program *program, bool blocks, uint64_t capacity, const struct mp_size_point *points,
                 size_t count, struct mp_size_answer *answer)
{
    struct mp_size_probe probes[PROBES];
    struct mp_model *models[PROBES];
    struct mp_error error;
    uint64_t allocated, reserved;
    for (size_t i = 0; i < PROBES; i++) {
        models[i] = execute(program, probed[i], blocks, &allocated, &reserved);
        probes[i] = (struct mp_size_probe){.model = models[i], .name = "made up", .at = {probed[i], 1}};
    }
    struct mp_size_question question = {
        .probes = probes, .count = PROBES, .capacity = capacity, .predict = points, .predict_count = count};
    if (mp_size_find(&question, answer, &error)) fprintf(stderr, "traces: %s\n", error.text), exit(1);
    for (size_t i = 0; i < PROBES; i++)
        mp_model_free(models[i]);
}

static const struct mp_size_need *need_of(const struct mp_size_answer *answer, uint64_t batch)
{
    for (size_t i = 0; i < answer->needs.count; i++)
        if (answer->needs.at[i].at.first == batch) return &answer->needs.at[i];
    exit(99);
}

/* The largest batch that really fits, up to `most`. */
static uint64_t truth(const struct program *program, uint64_t capacity, uint64_t most)
{
    uint64_t allocated, reserved;
    for (; most; most--) {
        mp_model_free(execute(program, most, true, &allocated, &reserved));
        if (reserved <= capacity) break;
    }
    return most;
}

static void score_largest(const struct program *program, bool blocks, uint64_t capacity, struct score *score)
{
    struct mp_size_answer answer;
    find(program, blocks, capacity, NULL, 0, &answer);
    uint64_t said = answer.largest.at[0].first, allocated, reserved;
    mp_size_answer_free(&answer);
    uint64_t real = truth(program, capacity, 2 * said + 64);
    mp_model_free(execute(program, said, true, &allocated, &reserved));
    score->wrong += said && reserved > capacity;
    if (!real) return;
    double ratio = (double)said / (double)real;
    if (!score->cases || ratio < score->least) score->least = ratio;
    if (!score->cases || ratio > score->most) score->most = ratio;
    score->cases++;
}

static struct score judge(const struct program *program, bool blocks, size_t capacities)
{
    struct score score = {0};
    struct mp_size_point points[ASKED];
    struct mp_size_answer answer;
    for (size_t i = 0; i < ASKED; i++)
        points[i] = (struct mp_size_point){asked[i], 1};
    find(program, blocks, UINT64_C(1) << 40, points, ASKED, &answer);
    for (size_t i = 0; i < ASKED; i++) {
        uint64_t allocated, reserved;
        mp_model_free(execute(program, asked[i], blocks, &allocated, &reserved));
        const struct mp_size_need *need = need_of(&answer, asked[i]);
        double missed = fabs((double)need->allocated - (double)allocated) / (double)allocated;
        score.allocated_error = fmax(score.allocated_error, missed);
        missed = fabs((double)need->reserved - (double)reserved) / (double)reserved;
        score.reserved_error = fmax(score.reserved_error, missed);
        score.covered += need->low <= reserved && reserved <= need->high;
        score.needs++;
        if (i < ASKED - capacities) continue;
        score_largest(program, blocks, reserved, &score);
    }
    mp_size_answer_free(&answer);
    return score;
}

/* All traces, recorded one way or the other; how many times it was wrong. */
static unsigned show(bool blocks, bool is_short)
{
    struct score all = {.least = 1};
    printf("\nRecorded as %s:\n\n", blocks ? "blocks (c10)" : "what was asked for (PyTorch's snapshots)");
    puts("| trace | allocated: error max | reserved: error max | interval holds | largest, of the true one | too large "
         "|");
    puts("|---|---|---|---|---|---|");
    for (uint64_t seed = 1; seed <= (is_short ? 6 : PROGRAMS); seed++) {
        struct program program = make_program(seed);
        struct score score = judge(&program, blocks, is_short ? 1 : ASKED);
        printf("| %u | %.3f %% | %.3f %% | %u of %u | %.3f to %.3f | %u |\n", (unsigned)seed,
               100 * score.allocated_error, 100 * score.reserved_error, score.covered, score.needs, score.least,
               score.most, score.wrong);
        all.covered += score.covered;
        all.needs += score.needs;
        all.wrong += score.wrong;
        all.cases += score.cases;
        all.allocated_error = fmax(all.allocated_error, score.allocated_error);
        all.reserved_error = fmax(all.reserved_error, score.reserved_error);
        all.least = fmin(all.least, score.least);
        all.most = fmax(all.most, score.most);
    }
    printf("| all, %u capacities | %.3f %% | %.3f %% | %u of %u | %.3f to %.3f | %u |\n", all.cases,
           100 * all.allocated_error, 100 * all.reserved_error, all.covered, all.needs, all.least, all.most, all.wrong);
    /* What was asked for is known to the byte, so that nothing may be missed. */
    return all.wrong + (!blocks && (all.allocated_error > 0.005 || all.reserved_error > 0.015 || all.least < 0.99));
}

int main(int argc, char **argv)
{
    bool is_short = argc > 1 && !strcmp(argv[1], "--short");
    unsigned wrong = show(false, is_short) + show(true, is_short);
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
