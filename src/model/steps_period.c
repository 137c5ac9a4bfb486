#include "model/steps_period.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "model/steps_loop.h"

#define ROUNDS_MIN   3
#define ALIKE_MIN    0.90 /* least share of the allocations that find an equal one at the period */
#define AS_GOOD      0.02 /* a shorter period may be this much worse than the best one */
#define SITES_MAX    16   /* number of rarest sites, whose distances are the candidates */
#define AGAIN_MAX    48   /* how often one of these sites may occur in a round */
#define PERIODS_MAX  256
#define FIRST_TIMES  4 /* the first 1/4 of the allocations is left out */
#define COMPARISONS  20000000
#define COMPARED_MAX 1000
#define LOOK_MIN     16
#define WINDOWS      16 /* rounds that are examined */
#define LINES_MAX    64 /* frames of the program that are compared, from the outermost */

/* The allocations of one thread, in order. A site is a stack and the running module. */
struct calls {
    MP_VEC(uint32_t) events, sites, live;
};

/* A site, with the number of its allocations on the thread that allocates most. */
struct place {
    uint32_t stack, module, count;
};

/* The allocations of a group of threads that run the same code: the main thread alone, or a pool whose threads take
 * turns in any order. */
struct crew {
    MP_VEC(struct calls) threads;
    MP_VEC(struct place) sites;
    struct mp_map numbers;     /* a site's key to its number */
    const struct calls *model; /* the thread that allocates most: the period is looked for there */
    bool host;                 /* mp_loop_sees() */
    uint8_t language;          /* mp_loop_language() */
    uint32_t allocs;           /* allocations of the whole recording, with other threads and code */
    bool modules;              /* modules are known */
};

/* Events at which rounds begin. */
struct events {
    uint32_t *at;
    size_t count, room;
};

struct periods {
    uint32_t at[PERIODS_MAX];
    size_t count;
};

/* The begin of a round: a call of `crew->model`, the period, and the number of calls that must be equal for another
 * begin of a round. */
struct beginning {
    uint32_t at, period, look;
};

/* By stack: a number for its outermost function; functions have different numbers. 0: none in the language. */
static uint64_t *roots_of(const struct mp_model *model, uint8_t language)
{
    uint64_t *roots = mp_alloc_zeroed(model->stacks.count + 1, sizeof *roots);
    for (uint32_t stack = 1; stack < model->stacks.count; stack++) {
        const struct mp_model_line *line = mp_loop_line(model, stack, language);
        roots[stack] = roots[model->stacks.at[stack].parent];
        if (!roots[stack] && line) roots[stack] = ((uint64_t)line->function << 32 | line->file) + 1;
    }
    return roots;
}

static uint64_t busiest_root(const struct mp_model *model, bool host, const uint64_t *roots)
{
    struct mp_map allocs = {0};
    uint64_t most = 0, best = 0;
    for (uint32_t event = 0; event < model->events.count; event++) {
        if (!mp_loop_sees(model, event, host)) continue;
        uint64_t root = roots[model->blocks.stack[model->events.subject[event]]];
        uint64_t *count = mp_map_at(&allocs, root + 1, NULL);
        if (!root || ++*count <= most) continue;
        most = *count;
        best = root;
    }
    mp_map_free(&allocs);
    return best;
}

static uint32_t site_of(const struct mp_model *model, uint32_t block, struct crew *crew)
{
    struct place place = {model->blocks.stack[block], model->blocks.module ? model->blocks.module[block] : 0, 0};
    bool fresh;
    uint64_t *number = mp_map_at(&crew->numbers, ((uint64_t)place.stack << 32 | place.module) + 1, &fresh);
    crew->modules |= place.module != 0;
    if (fresh) {
        *number = crew->sites.count;
        mp_vec_add(&crew->sites, place);
    }
    return (uint32_t)*number;
}

/* True if two calls are of the same site. The first calls may lack their module: modules' names became known later. */
static bool are_same(const struct crew *crew, uint32_t a, uint32_t b)
{
    const struct place *one = &crew->sites.at[a], *other = &crew->sites.at[b];
    return a == b || (one->stack == other->stack && (!one->module || !other->module));
}

static void collect(const struct mp_model *model, struct crew *crew)
{
    uint64_t *roots = roots_of(model, crew->language), root = busiest_root(model, crew->host, roots);
    uint32_t live = 0, begin = mp_loop_begin(model);
    for (uint32_t event = 0; event < model->events.count; event++) {
        uint32_t thread = model->events.thread[event], block = model->events.subject[event];
        live -= model->events.type[event] == MP_EVENT_FREE; /* blocks from the beginning do not count */
        if (!mp_loop_sees(model, event, crew->host)) {
            live += model->events.type[event] == MP_EVENT_ALLOC;
            continue;
        }
        crew->allocs += event >= begin;
        if (thread != MP_NONE && root && roots[model->blocks.stack[block]] == root) {
            mp_vec_grow_to(&crew->threads, (size_t)thread + 1);
            struct calls *calls = &crew->threads.at[thread];
            mp_vec_add(&calls->events, event);
            mp_vec_add(&calls->sites, site_of(model, block, crew));
            mp_vec_add(&calls->live, live);
        }
        live++;
    }
    for (size_t i = 0; i < crew->threads.count; i++)
        if (!crew->model || crew->threads.at[i].events.count > crew->model->events.count)
            crew->model = &crew->threads.at[i];
    for (size_t i = 0; crew->model && i < crew->model->sites.count; i++)
        crew->sites.at[crew->model->sites.at[i]].count++;
    free(roots);
}

static void add_period(struct periods *periods, uint32_t period)
{
    size_t at = 0;
    while (at < periods->count && periods->at[at] < period)
        at++;
    if (periods->count == PERIODS_MAX || (at < periods->count && periods->at[at] == period)) return;
    memmove(periods->at + at + 1, periods->at + at, (periods->count - at) * sizeof *periods->at);
    periods->at[at] = period;
    periods->count++;
}

/* Adds distances of a site as candidates: from each occurrence to the next, to the one after that, and so on, if most
 * are equal. */
static void add_periods_of(const struct calls *calls, uint32_t site, struct periods *periods)
{
    MP_VEC(uint32_t) at = {0};
    for (uint32_t i = 0; i < calls->sites.count; i++)
        if (calls->sites.at[i] == site) mp_vec_add(&at, i);
    for (uint32_t again = 1; again <= AGAIN_MAX && again + ROUNDS_MIN <= at.count + 1; again++) {
        uint32_t distance = 0, same = 0;
        for (size_t i = 0; i + again < at.count; i++) {
            if (!same) distance = at.at[i + again] - at.at[i];
            same += at.at[i + again] - at.at[i] == distance ? 1 : -1; /* a majority vote keeps the commonest */
        }
        if (same && (uint64_t)distance * ROUNDS_MIN <= calls->sites.count) add_period(periods, distance);
    }
    mp_vec_free(&at);
}

/* Adds the distances of the rarest sites that occur in several rounds. */
static void find_periods(const struct crew *crew, struct periods *periods)
{
    const struct place *sites = crew->sites.at;
    uint32_t rare[SITES_MAX], count = 0;
    for (uint32_t site = 0; site < crew->sites.count; site++) {
        if (sites[site].count < ROUNDS_MIN) continue;
        uint32_t at = count;
        while (at && sites[rare[at - 1]].count > sites[site].count)
            at--;
        if (at == SITES_MAX) continue;
        count += count < SITES_MAX;
        memmove(rare + at + 1, rare + at, (count - 1 - at) * sizeof *rare);
        rare[at] = site;
    }
    for (uint32_t i = 0; i < count; i++)
        add_periods_of(crew->model, rare[i], periods);
}

/* The share of allocations that find an equal one at that distance. Both must differ from the allocation before them:
 * in a long run of equal allocations, as in an optimizer, any distance would fit. The beginning is left out, since
 * warm-up allocates differently. If there are many allocations, only a sample is compared. */
static double alike(const struct calls *calls, uint32_t distance, size_t tries)
{
    size_t pairs = calls->sites.count - distance, every = 1 + pairs / (COMPARISONS / (tries + 1)), same = 0, all = 0;
    for (size_t i = 1 + pairs / FIRST_TIMES; i < pairs; i += every) {
        if (calls->sites.at[i] == calls->sites.at[i - 1]) continue;
        bool differs = calls->sites.at[i + distance] != calls->sites.at[i + distance - 1];
        same += differs && calls->sites.at[i] == calls->sites.at[i + distance];
        all++;
    }
    return all ? (double)same / (double)all : 1;
}

static uint32_t first_like(const struct calls *calls, uint32_t at)
{
    uint32_t first = 0;
    while (calls->sites.at[first] != calls->sites.at[at])
        first++;
    return first;
}

/* The call at which a round begins: the call with the fewest live blocks. If there are several, the one whose site came
 * first counts. */
static uint32_t find_place(const struct calls *calls, uint32_t period)
{
    uint32_t first = (uint32_t)(calls->sites.count - period) / 2, best = first, came = first_like(calls, first);
    for (uint32_t i = first; i < first + period; i++) {
        int32_t more = (int32_t)(calls->live.at[i] - calls->live.at[best]);
        if (more > 0) continue;
        uint32_t like = first_like(calls, i);
        if (!more && like >= came) continue;
        best = i;
        came = like;
    }
    return best;
}

/* Finds the begin of rounds. If a round consists of layers that are alike, more calls are needed to recognise it. */
static struct beginning find_beginning(const struct calls *calls, uint32_t period)
{
    uint32_t most = period < COMPARED_MAX ? period : COMPARED_MAX;
    struct beginning start = {find_place(calls, period), period, period < LOOK_MIN ? period : LOOK_MIN};
    for (uint32_t at = start.at + 1; at < start.at + period; at++) {
        uint32_t same = 0;
        while (same < most && at + same < calls->sites.count &&
               calls->sites.at[at + same] == calls->sites.at[start.at + same])
            same++;
        if (same >= start.look) start.look = same < most ? same + 1 : most;
    }
    return start;
}

/* True if a round of a thread begins at `at`. Near the end of the recording, a part of a round is enough. */
static bool begins_at(const struct crew *crew, const struct calls *calls, size_t at, const struct beginning *start)
{
    size_t left = calls->sites.count > at ? calls->sites.count - at : 0, same = 0;
    while (same < start->look && same < left &&
           are_same(crew, calls->sites.at[at + same], crew->model->sites.at[start->at + same]))
        same++;
    return left && (same == start->look || same == left);
}

/* The lines of a stack, outermost first. */
static size_t lines_of(const struct mp_model *model, uint32_t stack, uint8_t language,
                       const struct mp_model_line **lines)
{
    const struct mp_model_line *inner[LINES_MAX]; /* the outermost lines, as a ring */
    size_t count = 0, kept;
    for (; stack; stack = model->stacks.at[stack].parent) {
        const struct mp_model_line *line = mp_loop_line(model, stack, language);
        if (line) inner[count++ % LINES_MAX] = line;
    }
    kept = count < LINES_MAX ? count : LINES_MAX;
    for (size_t i = 0; i < kept; i++)
        lines[i] = inner[(count - 1 - i) % LINES_MAX];
    return kept;
}

static bool same_line(const struct mp_model_line *a, const struct mp_model_line *b)
{
    return a->line == b->line && a->function == b->function && a->file == b->file;
}

/* A site's last occurrence, and the number of the round that was examined then. */
struct seen {
    uint32_t window, at;
};

/* True if all of a round's allocations lie under a common line outside of networks. The running module, if known,
 * distinguishes layers. Otherwise a site must come more than once in the round, and no line of a forward() may be
 * common to all. *tells: true if the round has several sites, so that the answer means something. */
static bool is_outside_at(const struct mp_model *model, const struct crew *crew, uint32_t first, uint32_t period,
                          uint32_t window, struct seen *seen, bool *tells)
{
    const struct calls *calls = crew->model;
    const struct mp_model_line *lines[LINES_MAX], *others[LINES_MAX];
    size_t shared = SIZE_MAX;
    bool apart = crew->modules, in_network = false;
    *tells = false;
    for (uint32_t i = first; i < first + period && i < calls->sites.count; i++) {
        struct seen *site = &seen[calls->sites.at[i]];
        bool again = site->window == window;
        apart |= again && i - site->at < COMPARED_MAX;
        *site = (struct seen){window, i};
        if (again) continue;
        uint32_t stack = model->blocks.stack[model->events.subject[calls->events.at[i]]];
        size_t count = lines_of(model, stack, crew->language, i == first ? lines : others), same = 0;
        while (i > first && same < count && same < shared && same_line(lines[same], others[same]))
            same++;
        shared = i == first ? count : same;
        *tells |= i > first;
    }
    for (size_t i = 0; i < shared; i++) {
        in_network |= !mp_loop_is_outside(model, lines[i]);
        if (!crew->modules && mp_loop_is_forward(model, lines[i])) return false;
    }
    return shared && (apart || !in_network);
}

/* True if most of the examined rounds lie outside of networks (is_outside_at()). One round alone is no proof: if it
 * begins in the middle of a network, all of it may lie under one layer. */
static bool is_outside(const struct mp_model *model, const struct crew *crew, uint32_t period, uint32_t *window,
                       struct seen *seen)
{
    uint32_t rounds = (uint32_t)crew->model->sites.count / period, every = 1 + (rounds - 1) / WINDOWS;
    uint32_t outside = 0, all = 0, mute = 0;
    for (uint32_t round = 0; round < rounds; round += every) {
        bool tells, is = is_outside_at(model, crew, round * period, period, ++*window, seen, &tells);
        outside += tells && is;
        mute += !tells && is;
        all += tells;
    }
    return all ? outside * 2 > all : mute;
}

/* The shortest period among those that explain most allocations; 0: none. A network of many layers has periods of its
 * own, too. If there is such an inner period, a longer period must explain at least half of the allocations that the
 * inner one leaves unexplained. */
static uint32_t find_period(const struct mp_model *model, const struct crew *crew)
{
    struct periods periods = {.count = 0};
    double found[PERIODS_MAX], best = 0, inside = 1; /* least unexplained share of a period in a network */
    uint32_t window = 0, period = 0;
    struct seen *seen = mp_alloc_zeroed(crew->sites.count + 1, sizeof *seen);
    find_periods(crew, &periods);
    for (size_t i = 0; i < periods.count; i++) {
        double is = alike(crew->model, periods.at[i], periods.count);
        found[i] = 0;
        if (is < ALIKE_MIN || (inside < 1 && 1 - is >= inside / 2)) continue;
        if (is_outside(model, crew, periods.at[i], &window, seen))
            found[i] = is;
        else
            inside = 1 - is;
        if (found[i] > best) best = found[i];
    }
    for (size_t i = 0; i < periods.count && best > 0 && !period; i++)
        if (found[i] >= best - AS_GOOD) period = periods.at[i];
    free(seen);
    return period;
}

/* Adds the events at which a thread's rounds begin. If the last round is too short to be recognised as a round, it
 * begins where the previous one ends. */
static void find_rounds(const struct crew *crew, const struct calls *calls, const struct beginning *start,
                        struct events *rounds)
{
    size_t next = 0;
    for (size_t i = 0; i < calls->sites.count;) {
        bool whole = calls->sites.count - i >= start->look, begins = begins_at(crew, calls, i, start);
        begins = begins && (whole || i == next);
        if (begins) mp_vec_add(rounds, calls->events.at[i]);
        if (begins) next = i + start->period;
        i += begins && begins_at(crew, calls, i + start->period, start) ? start->period : 1;
    }
}

MP_ORDER(ascending, uint32_t, MP_COMPARE(*a, *b))

/* True if the rounds extend over half of the recording's allocations. Otherwise they are only a part of the program,
 * such as filling a queue before the work begins. */
static bool are_general(const struct mp_model *model, const struct crew *crew, const struct events *rounds)
{
    uint32_t inside = 0;
    if (!rounds->count) return false;
    for (uint32_t event = rounds->at[0]; event < rounds->at[rounds->count - 1]; event++)
        inside += mp_loop_sees(model, event, crew->host);
    return inside * 2ull >= crew->allocs;
}

static void begin_steps(const struct mp_model *model, const struct crew *crew, const struct beginning *start,
                        struct mp_steps *steps)
{
    struct events rounds = {0};
    for (size_t i = 0; i < crew->threads.count; i++)
        find_rounds(crew, &crew->threads.at[i], start, &rounds);
    if (rounds.count) qsort(rounds.at, rounds.count, sizeof *rounds.at, ascending);
    bool general = are_general(model, crew, &rounds);
    for (size_t i = 0; general && i < rounds.count; i++)
        mp_steps_begin(model, rounds.at[i], 0, steps);
    mp_vec_free(&rounds);
}

void mp_period_find(const struct mp_model *model, bool host, struct mp_steps *steps)
{
    struct crew crew = {.host = host, .language = mp_loop_language(model)};
    if (crew.language != MP_PYTHON && host && model->host_bytes) return; /* a sample has no order */
    collect(model, &crew);
    uint32_t period = crew.model ? find_period(model, &crew) : 0;
    if (period) {
        struct beginning start = find_beginning(crew.model, period);
        begin_steps(model, &crew, &start, steps);
    }
    for (size_t i = 0; i < crew.threads.count; i++) {
        mp_vec_free(&crew.threads.at[i].events);
        mp_vec_free(&crew.threads.at[i].sites);
        mp_vec_free(&crew.threads.at[i].live);
    }
    mp_vec_free(&crew.threads);
    mp_vec_free(&crew.sites);
    mp_map_free(&crew.numbers);
}
