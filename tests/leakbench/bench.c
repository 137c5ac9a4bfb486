/*
 * leakbench [--short] [--test-only] [--seed N] [-v]: runs every pattern in every program, varied. Shows how many leaks
 * the rule finds, and how often it is wrong. Exit status 1: the goals for the test set are not met.
 *
 * A trace whose leak has fewer than eight births cannot test the rule, and is counted separately.
 */
#include "leakbench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/steps_infer.h"

struct score {
    uint32_t positive, found, negative, accused; /* traces */
    uint32_t right_first, first;                 /* traces whose heaviest finding is a leaking place; traces with a
                                                  * finding */
    uint32_t places, places_right;               /* findings; findings that leak */
    uint32_t class_right, class_asked, told_right, told_asked;
    struct {
        uint32_t asked, right;
        double worst;
    } rates[2];            /* with guessed steps, and with marked ones */
    uint32_t longer_steps; /* guessed steps that cover many of the program's: no rate can be right */
    uint32_t few, few_unknown, few_leak;
    uint64_t clean_steps;
    uint32_t late_worst, late_asked;
    double late_sum;
};

struct middle {
    struct world *world;
    struct state *state;
    const struct pattern *pattern;
    const struct variant *variant;
};

static bool verbose, brief, test_only;

static void in_the_middle(void *context)
{
    struct middle *middle = context;
    middle->pattern->step(middle->world, middle->state, middle->pattern, middle->variant);
}

static struct variant vary(struct world *world)
{
    static const uint64_t sizes[] = {512, 4096, 1 << 20, 64 << 20};
    static const uint32_t cadences[] = {1, 1, 7, 0}, runs[] = {60, 200, 200, 2000};
    struct variant variant = {.bytes = sizes[world_random(world, 4)], .every = cadences[world_random(world, 4)]};
    variant.warm_up = 1 + world_random(world, 20);
    variant.steps = runs[world_random(world, brief ? 3 : 4)];
    world->marked = world_random(world, 2);
    world->threads = world_random(world, 2) ? 4 : 1;
    world->frees_all = world_random(world, 3);
    return variant;
}

static struct mp_model *make(struct world *world, const struct program *program, const struct pattern *pattern,
                             uint64_t seed, struct variant *variant)
{
    static struct state work, more;
    struct middle middle = {world, &more, pattern, variant};
    work = more = (struct state){0};
    world_start(world, seed, 0);
    *variant = vary(world);
    world->steps = variant->steps;
    program->start(world, &work);
    pattern->start(world, &more, pattern);
    for (uint32_t step = 0; step < variant->steps; step++) {
        world_begin_step(world);
        program->step(world, &work, in_the_middle, &middle);
    }
    return world_build(world);
}

static enum mp_status ask(const struct mp_model *model, uint32_t until, struct mp_leaks *leaks)
{
    struct mp_leaks_query query = {.track = UINT16_MAX,
                                   .window = {.last = until, .whole = until == model->events.count}};
    return mp_leaks_find(model, &query, leaks, NULL);
}

/* Births of leaking blocks before the last boundary, at the place with most. */
static uint32_t most_births(const struct world *world)
{
    uint32_t most = 0;
    for (size_t i = 0; i < world->places.count; i++)
        if (world->places.at[i].births > most) most = world->places.at[i].births;
    return most;
}

/* Steps from the first leaking one to the verdict; 0: no verdict. */
static uint32_t latency(const struct mp_model *model, const struct mp_steps *steps, uint32_t first)
{
    for (uint32_t step = first + 1; step < steps->count && step < first + 60; step++) {
        struct mp_leaks leaks;
        if (ask(model, steps->at[step].first, &leaks)) exit(99);
        bool found = leaks.verdict == MP_VERDICT_LEAK;
        mp_leaks_free(&leaks);
        if (found) return step - first;
    }
    return 0;
}

static void score_findings(const struct world *world, const struct pattern *pattern, const struct mp_leaks *leaks,
                           struct score *score)
{
    double got = 0, want = 0, scale = (double)leaks->step_count / world->steps;
    mp_vec_each (const struct world_place, place, &world->places) {
        if (place->last_step > place->first_step) want += (double)place->bytes / (place->last_step - place->first_step);
    }
    for (size_t i = 0; i < leaks->leaks; i++) {
        const struct mp_leak_finding *finding = &leaks->findings.at[i];
        bool right = world->places.at[world_place_of(world, finding->stack)].leaks;
        score->places++;
        score->places_right += right;
        if (!i) score->first++, score->right_first += right;
        if (!right) continue;
        score->class_asked++;
        score->class_right +=
            finding->class == (world->native && pattern->class == MP_LEAK_RETENTION ? MP_LEAK_NATIVE : pattern->class);
        got += finding->bytes_per_step * scale;
    }
    if (!leaks->leaks || pattern->class == MP_LEAK_CYCLE || !want) return;
    double wrong = fabs(got - want) / want;
    bool marked = world->marked;
    if (scale < 0.98) {
        score->longer_steps++;
        return;
    }
    score->rates[marked].asked++;
    score->rates[marked].right += wrong <= 0.01;
    if (wrong > score->rates[marked].worst) score->rates[marked].worst = wrong;
    if (verbose && wrong > 0.01) printf("RATE %s: %.1f %% off\n", pattern->id, 100 * wrong);
}

static void score_told(const struct pattern *pattern, const struct mp_leaks *leaks, struct score *score)
{
    if (pattern->class == MP_LEAK_CLASSES) return;
    score->told_asked++;
    for (size_t i = leaks->leaks; i < leaks->findings.count; i++) {
        if (leaks->findings.at[i].class != pattern->class) continue;
        score->told_right++;
        return;
    }
}

static void score_trace(const struct world *world, const struct pattern *pattern, bool said, struct score *score)
{
    if (pattern->truth == T_LEAK) {
        score->positive++;
        score->found += said;
    } else {
        score->negative++;
        score->accused += said;
        score->clean_steps += world->steps;
    }
}

static const char *source(const struct world *world)
{
    return world->marked ? "marked" : "unmarked";
}

static void run_trace(const struct program *program, const struct pattern *pattern, uint64_t seed, struct score *score)
{
    struct world world;
    struct variant variant;
    struct mp_leaks leaks;
    struct mp_steps steps = {0};
    struct mp_model *model = make(&world, program, pattern, seed, &variant);
    if (ask(model, (uint32_t)model->events.count, &leaks)) exit(99);
    mp_steps_find(model, &steps);
    bool said = leaks.verdict == MP_VERDICT_LEAK, cycle = pattern->class == MP_LEAK_CYCLE;
    if (pattern->truth == T_LEAK && !cycle && most_births(&world) < MP_LEAK_BIRTHS) {
        score->few++;
        score->few_leak += said;
        score->few_unknown += leaks.verdict == MP_VERDICT_UNKNOWN;
    } else {
        score_trace(&world, pattern, said, score);
        score_findings(&world, pattern, &leaks, score);
        if (pattern->truth == T_CLEAN) score_told(pattern, &leaks, score);
        bool wrong = said != (pattern->truth == T_LEAK);
        if (wrong || verbose)
            printf("%s %s in %s, seed %llu: %u steps (%s, %u %s), every %u, %llu B, warm-up %u: %s %s\n",
                   wrong ? "MISS" : "    ", pattern->id, program->name, (unsigned long long)seed, variant.steps,
                   source(&world), leaks.step_count, leaks.step_source, pattern->every ? pattern->every : variant.every,
                   (unsigned long long)variant.bytes, variant.warm_up, mp_verdict_name(leaks.verdict), leaks.reason);
        bool each_step = (pattern->every ? pattern->every : variant.every) == 1 && world.marked && !cycle;
        if (pattern->truth == T_LEAK && each_step && said && variant.steps <= 200) {
            uint32_t first = variant.warm_up, late = latency(model, &steps, first);
            score->late_asked++;
            score->late_sum += late;
            if (late > score->late_worst || !late) score->late_worst = late ? late : 999;
        }
    }
    mp_steps_free(&steps);
    mp_leaks_free(&leaks);
    mp_model_free(model);
    world_free(&world);
}

static double part(uint32_t some, uint32_t all)
{
    return all ? (double)some / all : 1;
}

static void print_score(const char *name, const struct score *score)
{
    printf("\n%s set: %u traces with a leak, %u without, %llu steps of those; %u with fewer than %d leaking births "
           "(%u called unknown, %u leak)\n",
           name, score->positive, score->negative, (unsigned long long)score->clean_steps, score->few, MP_LEAK_BIRTHS,
           score->few_unknown, score->few_leak);
    printf("recall %.3f, precision %.3f, site 1 %.3f, false alarms in 1000 steps %.3f\n",
           part(score->found, score->positive), part(score->found, score->found + score->accused),
           part(score->right_first, score->first),
           score->clean_steps ? 1000.0 * score->accused / (double)score->clean_steps : 0);
    printf("places %u of %u right; class %.3f, told %.3f; rate within 1 %%: %.3f, worst %.1f %%, of marked "
           "steps, %.3f, worst %.1f %%, of guessed ones (%u traces have longer steps); latency mean %.1f, worst %u "
           "steps (of %u)\n",
           score->places_right, score->places, part(score->class_right, score->class_asked),
           part(score->told_right, score->told_asked), part(score->rates[1].right, score->rates[1].asked),
           100 * score->rates[1].worst, part(score->rates[0].right, score->rates[0].asked), 100 * score->rates[0].worst,
           score->longer_steps, score->late_asked ? score->late_sum / score->late_asked : 0, score->late_worst,
           score->late_asked);
}

int main(int argc, char **argv)
{
    static struct score scores[2];
    uint64_t seed = 1;
    for (int i = 1; i < argc; i++) {
        brief |= !strcmp(argv[i], "--short");
        test_only |= !strcmp(argv[i], "--test-only");
        verbose |= !strcmp(argv[i], "-v");
        if (!strcmp(argv[i], "--seed") && argv[i + 1]) seed = strtoull(argv[i + 1], NULL, 10);
    }
    uint32_t repeats = brief ? 1 : 3, traces = 0;
    for (size_t p = 0; p < program_count; p++) {
        if (test_only && !programs[p].test) continue;
        for (size_t i = 0; i < pattern_count; i++)
            for (uint32_t k = 0; k < repeats; k++, traces++)
                run_trace(&programs[p], &patterns[i], seed + traces, &scores[programs[p].test]);
    }
    printf("%u traces\n", traces);
    if (!test_only) print_score("tuning", &scores[0]);
    print_score("test", &scores[1]);
    const struct score *test = &scores[1];
    bool met = part(test->found, test->positive) >= 0.99 && part(test->found, test->found + test->accused) >= 0.99;
    uint32_t asked = test->rates[0].asked + test->rates[1].asked;
    met &= (test->rates[0].right + test->rates[1].right) * 100 >= asked * 99;
    return met ? EXIT_SUCCESS : EXIT_FAILURE;
}
