#include "model/steps_infer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/steps_loop.h"
#include "model/steps_period.h"

#define STEPS_MIN    8  /* fewer rounds show no rhythm */
#define PARTS_MAX    16 /* of a site's span: most of them must contain an occurrence */
#define ANCHORS_MAX  64 /* candidates that are looked at closely */
#define IN_GROUP_MAX 8  /* of one group */
/* How even a rhythm must be; the later set is for programs where nothing meets the first. */
static const struct evenness {
    double odd, pauses; /* the most rounds of unusual length, and the largest share of the time in pauses */
    double restless;    /* blocks by which the level differs from its usual change, per alloc of a round */
} evenness[] = {{0.25, 0.5, 0.1}, {0.34, 0.7, 0.6}};

#define ODD 2.5 /* a round is unusual if it is so many times as long or as short as usual */

/* A stack. Positions are numbers of alloc events. */
struct beat {
    uint32_t stack, count, first, last, parts; /* parts: a bit for each part of the span that has an occurrence */
};

struct occurrence {
    uint32_t event, position, live; /* position: number of its alloc event; blocks live before it */
};

struct anchor {
    uint32_t stack, allocs; /* allocs: per round, on average */
    size_t group;           /* number of sites that come as often */
    MP_VEC(struct occurrence) at;
};

struct inference {
    const struct mp_model *model;
    uint32_t allocs;
    MP_VEC(struct beat) beats;
    MP_VEC(struct anchor) anchors;
};

static bool is_alloc(const struct inference *inference, uint32_t event)
{
    return inference->model->events.type[event] == MP_EVENT_ALLOC;
}

static uint32_t stack_of(const struct inference *inference, uint32_t event)
{
    return inference->model->blocks.stack[inference->model->events.subject[event]];
}

static uint32_t parts_of(const struct beat *beat)
{
    return beat->count / 2 < PARTS_MAX ? beat->count / 2 : PARTS_MAX;
}

/* Counts by stack. The empty stack, which is never even, may be missing from the table. */
static void count_beats(struct inference *inference)
{
    uint32_t position = 0, events = (uint32_t)inference->model->events.count;
    mp_vec_grow_to(&inference->beats, inference->model->stacks.count + 1);
    for (uint32_t event = 0; event < events; event++) {
        if (!is_alloc(inference, event)) continue;
        uint32_t stack = stack_of(inference, event);
        struct beat *beat = &inference->beats.at[stack];
        if (!beat->count++) *beat = (struct beat){.stack = stack, .count = 1, .first = position};
        beat->last = position++;
    }
    inference->allocs = position;
    position = 0;
    for (uint32_t event = 0; event < events; event++) {
        if (!is_alloc(inference, event)) continue;
        struct beat *beat = &inference->beats.at[stack_of(inference, event)];
        uint64_t span = beat->last - beat->first + 1;
        if (beat->count >= STEPS_MIN) beat->parts |= 1u << (uint64_t)(position - beat->first) * parts_of(beat) / span;
        position++;
    }
}

/* Whether it comes often enough, over at least half of the recording, in nearly every part of that. */
static bool is_even(const struct inference *inference, const struct beat *beat)
{
    if (beat->count < STEPS_MIN || !beat->stack) return false;
    if ((uint64_t)(beat->last - beat->first) * 2 < inference->allocs) return false;
    return (uint32_t)__builtin_popcount(beat->parts) * 5 >= parts_of(beat) * 4;
}

static int by_count(const void *left, const void *right)
{
    const struct beat *a = left, *b = right;
    if (a->count != b->count) return a->count < b->count ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

static void keep_even(struct inference *inference)
{
    size_t kept = 0;
    for (size_t i = 0; i < inference->beats.count; i++)
        if (is_even(inference, &inference->beats.at[i])) inference->beats.at[kept++] = inference->beats.at[i];
    inference->beats.count = kept;
    if (kept) qsort(inference->beats.at, kept, sizeof *inference->beats.at, by_count);
}

/* The end of the group of sites that come about as often as the one at `from`. */
static size_t group_end(const struct inference *inference, size_t from)
{
    uint32_t count = inference->beats.at[from].count, most = count + (count / 32 > 1 ? count / 32 : 1);
    size_t end = from;
    while (end < inference->beats.count && inference->beats.at[end].count <= most)
        end++;
    return end;
}

/* Chooses groups that are large compared with the largest, each by the sites that begin first. */
static void choose_anchors(struct inference *inference)
{
    size_t largest = 0;
    for (size_t from = 0, end; from < inference->beats.count; from = end) {
        end = group_end(inference, from);
        if (end - from > largest) largest = end - from;
    }
    for (size_t from = 0, end; from < inference->beats.count; from = end) {
        end = group_end(inference, from);
        if ((end - from) * 8 < largest) continue;
        for (size_t i = from; i < end && i < from + IN_GROUP_MAX && inference->anchors.count < ANCHORS_MAX; i++) {
            const struct beat *beat = &inference->beats.at[i];
            struct anchor anchor = {
                .stack = beat->stack, .allocs = (beat->last - beat->first) / (beat->count - 1), .group = end - from};
            mp_vec_add(&inference->anchors, anchor);
        }
    }
}

static void follow_anchors(struct inference *inference)
{
    const struct mp_model *model = inference->model;
    uint32_t live = 0;
    uint8_t *which = mp_alloc_zeroed(model->stacks.count + 1, 1); /* index in anchors + 1 */
    for (size_t i = 0; i < inference->anchors.count; i++)
        which[inference->anchors.at[i].stack] = (uint8_t)(i + 1);
    uint32_t position = 0;
    while (live < model->blocks.count && model->blocks.alloc_event[live] == MP_NONE)
        live++;
    for (uint32_t event = 0; event < model->events.count; event++) {
        live -= model->events.type[event] == MP_EVENT_FREE;
        if (model->events.type[event] != MP_EVENT_ALLOC) continue;
        struct occurrence occurrence = {event, position++, live++};
        unsigned at = which[stack_of(inference, event)];
        if (at) mp_vec_add(&inference->anchors.at[at - 1].at, occurrence);
    }
    free(which);
}

static int ascending(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return a < b ? -1 : a > b;
}

/* Whether the rounds are about equally long. Bursts (once per layer, per parameter) are no rounds; an occasional long
 * pause (an evaluation) is allowed. Gaps are sorted. */
static bool is_regular(const int32_t *gaps, size_t count, const struct evenness *most)
{
    double usual = gaps[count / 2], span = 0, pauses = 0;
    size_t odd = 0;
    for (size_t i = 0; i < count; i++) {
        bool pause = gaps[i] > usual * ODD;
        odd += pause || gaps[i] * ODD < usual;
        pauses += pause ? gaps[i] : 0;
        span += gaps[i];
    }
    return (double)odd <= most->odd * (double)count && pauses <= most->pauses * span;
}

/* The average deviation of the level's change between two occurrences from its usual change. */
static double restlessness(const struct anchor *anchor, const int32_t *changes, size_t count)
{
    double sum = 0;
    size_t outer = count / 20; /* rare events (an evaluation, a warm-up) are no part of the rhythm */
    for (size_t i = outer; i < count - outer; i++)
        sum += abs(changes[i] - changes[count / 2]);
    return sum / (double)(count - 2 * outer) / (anchor->allocs ? anchor->allocs : 1);
}

/* Whether a round may begin at the anchor. */
static bool is_rhythm(const struct anchor *anchor, const struct evenness *most)
{
    size_t count = anchor->at.count - 1;
    int32_t *changes = mp_alloc(count * sizeof *changes), *gaps = mp_alloc(count * sizeof *gaps);
    for (size_t i = 0; i < count; i++) {
        changes[i] = (int32_t)(anchor->at.at[i + 1].live - anchor->at.at[i].live);
        gaps[i] = (int32_t)(anchor->at.at[i + 1].position - anchor->at.at[i].position);
    }
    qsort(changes, count, sizeof *changes, ascending);
    qsort(gaps, count, sizeof *gaps, ascending);
    bool rhythm = is_regular(gaps, count, most) && restlessness(anchor, changes, count) <= most->restless;
    free(changes);
    free(gaps);
    return rhythm;
}

static double mean_live(const struct anchor *anchor)
{
    double sum = 0;
    for (size_t i = 0; i < anchor->at.count; i++)
        sum += anchor->at.at[i].live;
    return sum / (double)anchor->at.count;
}

/* Chooses the rhythm with the most sites, of those possible; within it, the anchor where least is live. *chosen: NULL
 * for none. */
static bool choose(const struct inference *inference, const struct evenness *most, const struct anchor **chosen)
{
    *chosen = NULL;
    for (size_t i = 0; i < inference->anchors.count; i++) {
        const struct anchor *anchor = &inference->anchors.at[i];
        if (!is_rhythm(anchor, most) || (*chosen && anchor->group < (*chosen)->group)) continue;
        if (!*chosen || anchor->group > (*chosen)->group || mean_live(anchor) < mean_live(*chosen)) *chosen = anchor;
    }
    return true;
}

/* Whether an eighth of the blocks made in the rounds also ended: a loop that only makes things does no work. */
static bool frees(const struct mp_model *model, const struct anchor *anchor)
{
    uint32_t first = anchor->at.at[0].event, end = anchor->at.at[anchor->at.count - 1].event;
    size_t born = 0, freed = 0;
    for (size_t block = 0; block < model->blocks.count; block++) {
        uint32_t birth = model->blocks.alloc_event[block];
        if (birth == MP_NONE || birth < first || birth >= end) continue;
        born++;
        freed += model->blocks.free_event[block] < end;
    }
    return freed * 8 >= born;
}

static bool infer(const struct mp_model *model, struct mp_steps *steps)
{
    struct inference inference = {.model = model};
    const struct anchor *chosen = NULL;
    count_beats(&inference);
    keep_even(&inference);
    choose_anchors(&inference);
    follow_anchors(&inference);
    bool done = true;
    for (size_t i = 0; done && !chosen && i < sizeof evenness / sizeof *evenness; i++)
        done = choose(&inference, &evenness[i], &chosen);
    if (done && chosen && !frees(model, chosen)) chosen = NULL;
    for (size_t i = 0; done && chosen && i < chosen->at.count; i++)
        mp_steps_begin(model, chosen->at.at[i].event, 0, steps);
    for (size_t i = 0; i < inference.anchors.count; i++)
        mp_vec_free(&inference.anchors.at[i].at);
    mp_vec_free(&inference.anchors);
    mp_vec_free(&inference.beats);
    return done;
}

static bool are_in_doubt(const struct mp_model *model)
{
    for (size_t i = 0; i < model->coverage.note_count; i++)
        if (!strcmp(mp_model_text(model, model->coverage.notes[i]), MP_STEPS_IN_DOUBT)) return true;
    return false;
}

static bool find_without_function(const struct mp_model *model, struct mp_steps *steps)
{
    struct mp_loop loop;
    if (steps->count || !model->tracks.count) return true;
    steps->source = "inferred";
    if (!mp_loop_find(model, steps, &loop)) return false;
    if (loop.rounds && !loop.a_thread_each) return true;
    struct mp_steps period = {.count = 0};
    mp_period_find(model, &period);
    if (period.count > steps->count) {
        struct mp_steps of_loop = *steps;
        steps->at = period.at;
        steps->count = period.count;
        steps->room = period.room;
        steps->guessed = true;
        period = of_loop;
    }
    mp_steps_free(&period);
    if (steps->count || loop.conclusive) return true;
    steps->guessed = true;
    return infer(model, steps);
}

static bool find(const struct mp_model *model, struct mp_steps *steps)
{
    mp_steps_marked(model, steps);
    bool by_function = steps->count && !strcmp(steps->source, "function");
    if (!by_function || !are_in_doubt(model)) return find_without_function(model, steps);
    struct mp_steps others = {0};
    mp_steps_marked_otherwise(model, &others);
    bool done = find_without_function(model, &others);
    bool more = others.count > steps->count;
    mp_steps_free(more ? steps : &others);
    if (more) *steps = others;
    return done;
}

/* Several threads may find the steps at once; one answer is kept. */
struct mp_model_steps {
    _Atomic(struct mp_steps *) found;
};

struct mp_model_steps *mp_model_steps_new(void)
{
    return mp_alloc_zeroed(1, sizeof(struct mp_model_steps));
}

static void free_found(struct mp_steps *found)
{
    if (found) mp_steps_free(found);
    free(found);
}

void mp_model_steps_free(struct mp_model_steps *known)
{
    if (known) free_found(atomic_load(&known->found));
    free(known);
}

/* NULL where memory is short. */
static struct mp_steps *find_once(const struct mp_model *model)
{
    struct mp_steps *found = mp_alloc_zeroed(1, sizeof *found), *before = NULL;
    if (find(model, found)) {
        if (atomic_compare_exchange_strong(&model->steps->found, &before, found)) return found;
        free_found(found);
        return before;
    }
    free_found(found);
    return NULL;
}

bool mp_steps_find(const struct mp_model *model, struct mp_steps *steps)
{
    if (!model->steps) return find(model, steps);
    const struct mp_steps *found = atomic_load(&model->steps->found);
    if (!found) found = find_once(model);
    if (!found) return false;
    *steps = *found;
    steps->at = NULL;
    steps->count = steps->room = 0;
    if (!found->count) return true;
    mp_vec_room_for(steps, found->count);
    memcpy(steps->at, found->at, found->count * sizeof *found->at);
    steps->count = found->count;
    return true;
}
