#include "model/steps_loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "model/stack_facts.h"

#define ROUNDS_MIN 3  /* fewer rounds show no loop; sites with fewer allocations belong to no loop */
#define DEPTH_MAX  24 /* frames of a stack that are examined, from the outermost on: loops are not deeper */
#define THREADS    32 /* threads that are distinguished */
#define SAMPLES    64 /* about as many rounds of a line are examined */
#define EFFORT     12 /* limit of the events examined in rounds, as a multiple of the recording's */

struct round {
    uint32_t first, end; /* events [first, end) */
};

/* A line of a function that allocates, directly or in its callees. A line is reached when it allocates after another
 * line of its function did. */
struct line {
    const struct mp_model_line *at;
    uint32_t function, depth;
    uint32_t count, first, last; /* number of times that it was reached; events at the first and the last time */
    double live;                 /* average number of live blocks when it was reached, without blocks from the
                                  * beginning */
    MP_VEC(struct round) rounds; /* a sample of its rounds */
    uint32_t followed;           /* number of rounds that passed while the sample was taken */
    uint32_t threads;            /* threads on which it was reached: one bit each */
    bool again;                  /* one of these threads reached it twice */
    bool open;                   /* the sample's last round has not ended */
};

struct site {
    uint32_t first, count;       /* its lines in line_of, outermost first */
    uint32_t allocs, begin, end; /* number of allocs on all threads; events of the first and the last of them */
    uint32_t seen;               /* the last round that contained it */
    bool known, optimizer;
};

/* Sites whose first alloc (in `begins`) or last alloc (in `ends`) is at this event, summed over all earlier events,
 * too. */
struct change {
    uint32_t event, optimizers;
    double weight;
};

struct changes {
    struct change *at;
    size_t count, room;
};

struct search {
    const struct mp_model *model;
    bool host;                 /* mp_loop_sees() */
    uint8_t language;          /* language of the lines */
    uint32_t begin;            /* the first event behind the imports */
    uint32_t root;             /* root function: lines count only in its callees, on any thread */
    MP_VEC(struct site) sites; /* by stack */
    MP_VEC(struct line) lines;
    MP_VEC(uint32_t) line_of;
    MP_VEC(uint32_t) work; /* by function: allocs of stacks in which it is outermost */
    uint32_t *now;         /* by function and thread: number of the line that allocated last, + 1 */
    MP_VEC(uint8_t) roles; /* by string id of a file's path: enum role */
    struct mp_map functions, numbers;
    struct changes begins, ends;
    uint32_t round;
    uint64_t effort; /* events examined in rounds so far */
    const struct line *chosen;
    struct mp_steps *steps;
};

/* ROLE_AROUND: a decorator's wrapper around a function of the program: torch.no_grad(), ... */
enum role { ROLE_UNKNOWN, ROLE_ANY, ROLE_INNER, ROLE_OPTIMIZER, ROLE_AROUND };

/* The role of a file. Functions that networks, optimizers and data loaders call lie inside a step. */
static uint8_t role_of_file(const char *path)
{
    static const uint8_t roles[] = {[MP_TORCH_FILE_NONE] = ROLE_ANY,     [MP_TORCH_FILE_WRAPS] = ROLE_AROUND,
                                    [MP_TORCH_FILE_CALLS] = ROLE_INNER,  [MP_TORCH_FILE_RUNS] = ROLE_INNER,
                                    [MP_TORCH_FILE_INSIDE] = ROLE_INNER, [MP_TORCH_FILE_OPTIMIZES] = ROLE_OPTIMIZER};
    return roles[mp_torch_file(path)];
}

bool mp_loop_is_forward(const struct mp_model *model, const struct mp_model_line *line)
{
    const char *function = mp_model_text(model, line->function), *method = strrchr(function, '.');
    return !strcmp(method ? method + 1 : function, "forward");
}

static uint8_t role_of(struct search *search, const struct mp_model_line *line)
{
    if (mp_loop_is_forward(search->model, line)) return ROLE_INNER;
    uint8_t *role = &search->roles.at[line->file];
    if (*role == ROLE_UNKNOWN) *role = role_of_file(mp_model_text(search->model, line->file));
    return *role;
}

uint8_t mp_loop_language(const struct mp_model *model)
{
    for (size_t i = 0; i < model->frames.count; i++)
        if (model->frames.at[i].raw.language == MP_PYTHON) return MP_PYTHON;
    return MP_NATIVE;
}

const struct mp_model_line *mp_loop_line(const struct mp_model *model, uint32_t node, uint8_t language)
{
    uint32_t frame = model->stacks.at[node].frame;
    if (frame == MP_FRAME_CUT || model->frames.at[frame].raw.language != language) return NULL;
    return model->frames.at[frame].line_count ? &model->lines.at[model->frames.at[frame].first_line] : NULL;
}

/* A number that distinguishes a call from other calls in its function: its line, or its address if lines are
 * unknown. */
static uint32_t place_of(const struct mp_model *model, uint32_t node, const struct mp_model_line *line)
{
    return line->line ? line->line : (uint32_t)model->frames.at[model->stacks.at[node].frame].raw.address;
}

static bool is_border(const struct mp_model *model, uint32_t node)
{
    uint32_t frame = model->stacks.at[node].frame;
    return frame != MP_FRAME_CUT && model->frames.at[frame].raw.language == MP_BACKWARD;
}

/* A call in a function of the program. */
struct call {
    const struct mp_model_line *line;
    uint32_t place; /* place_of() the call */
    bool made;      /* the call lies outside of "backward of": it has made a node, and does not run now */
};

/* Adds a call's line to a site. If a function is in the stack twice, only the outermost call counts. */
static void add_line(struct search *search, const struct call *call, uint32_t depth, struct site *site)
{
    const struct mp_model_line *from = call->line;
    bool fresh;
    uint64_t *function = mp_map_at(&search->functions, (uint64_t)from->function << 32 | from->file, &fresh);
    if (fresh) {
        *function = search->work.count;
        mp_vec_add(&search->work, 0);
    }
    for (uint32_t i = site->first; i < search->line_of.count; i++)
        if (search->lines.at[search->line_of.at[i]].function == *function) return;
    uint64_t *number = mp_map_at(&search->numbers, (*function << 32 | call->place) + 1, &fresh);
    if (fresh) {
        struct line line = {.at = from, .function = (uint32_t)*function, .depth = depth};
        *number = search->lines.count;
        mp_vec_add(&search->lines, line);
    }
    struct line *line = &search->lines.at[*number];
    if (depth < line->depth) line->depth = depth;
    mp_vec_add(&search->line_of, (uint32_t)*number);
}

/* Finds the lines of a stack, from the outermost line up to the first one inside of a step. */
static void know_site(struct search *search, uint32_t stack)
{
    struct call path[DEPTH_MAX]; /* the outermost calls, as a ring */
    struct site *site = &search->sites.at[stack];
    uint32_t depth = 0;
    bool made = false;
    for (uint32_t node = stack; node; node = search->model->stacks.at[node].parent) {
        const struct mp_model_line *line = mp_loop_line(search->model, node, search->language);
        made |= is_border(search->model, node);
        if (!line || role_of(search, line) == ROLE_AROUND) continue;
        path[depth++ % DEPTH_MAX] = (struct call){line, place_of(search->model, node, line), made};
        site->optimizer |= role_of(search, line) == ROLE_OPTIMIZER;
    }
    site->known = true;
    site->first = (uint32_t)search->line_of.count;
    for (uint32_t i = 0; i < depth && i < DEPTH_MAX; i++) {
        const struct call *call = &path[(depth - 1 - i) % DEPTH_MAX];
        if (role_of(search, call->line) != ROLE_ANY) break;
        if (!call->made && call->line->function) add_line(search, call, i, site);
    }
    site->count = (uint32_t)search->line_of.count - site->first;
}

static uint32_t root_of(const struct search *search, const struct site *site)
{
    return search->lines.at[search->line_of.at[site->first]].function;
}

/* Finds the lines of all sites, and the root whose callees allocate most: the main thread's function, or a thread
 * pool's. */
static void know_sites(struct search *search)
{
    const struct mp_model *model = search->model;
    mp_vec_grow_to(&search->sites, model->stacks.count + 1);
    mp_vec_grow_to(&search->roles, model->strings.count + 1);
    for (uint32_t event = 0; event < model->events.count; event++) {
        if (!mp_loop_sees(model, event, search->host)) continue;
        uint32_t stack = model->blocks.stack[model->events.subject[event]];
        struct site *site = &search->sites.at[stack];
        if (!site->known) know_site(search, stack);
        if (!site->allocs++) site->begin = event;
        site->end = event + 1;
        if (!site->count) continue;
        uint32_t root = root_of(search, site);
        if (++search->work.at[root] > search->work.at[search->root]) search->root = root;
    }
    search->now = mp_alloc_zeroed(search->work.count * THREADS + 1, sizeof *search->now);
}

/* Calls `reach` each time that a line is reached, with the number of live blocks at that event. */
static void follow(struct search *search, void (*reach)(struct search *, struct line *, uint32_t, int64_t))
{
    const struct mp_model *model = search->model;
    int64_t live = 0; /* without the blocks at the beginning */
    memset(search->now, 0, search->work.count * THREADS * sizeof *search->now);
    for (uint32_t event = 0; event < model->events.count; event++) {
        live -= model->events.type[event] == MP_EVENT_FREE;
        if (model->events.type[event] != MP_EVENT_ALLOC) continue;
        const struct site *site = &search->sites.at[model->blocks.stack[model->events.subject[event]]];
        uint32_t end = site->count && root_of(search, site) == search->root ? site->first + site->count : 0;
        for (uint32_t i = site->first; i < end; i++) {
            uint32_t number = search->line_of.at[i], function = search->lines.at[number].function;
            uint32_t *now = &search->now[function * THREADS + model->events.thread[event] % THREADS];
            if (*now == number + 1) continue;
            *now = number + 1;
            reach(search, &search->lines.at[number], event, live);
        }
        live++;
    }
}

static void count_line(struct search *search, struct line *line, uint32_t event, int64_t live)
{
    (void)live;
    uint32_t thread = UINT32_C(1) << search->model->events.thread[event] % THREADS;
    line->again |= line->threads & thread;
    line->threads |= thread;
    if (!line->count++) line->first = event;
    line->last = event;
}

/* True if a line was reached often enough, and over half of the recording. */
static bool may_loop(const struct search *search, const struct line *line)
{
    uint64_t events = search->model->events.count - search->begin;
    return line->count >= ROUNDS_MIN && (uint64_t)(line->last - line->first) * 2 >= events;
}

/* Adds rounds to the sample. Multiples of the golden ratio choose the rounds. So the sample has the right share of
 * rounds with anything that happens in every k-th round. */
static void sample_line(struct search *search, struct line *line, uint32_t event, int64_t live)
{
    if (!may_loop(search, line)) return;
    if (line->open) line->rounds.at[line->rounds.count - 1].end = event;
    line->live += (double)live / line->count;
    uint32_t share = line->count <= SAMPLES ? UINT32_MAX : UINT32_MAX / line->count * SAMPLES;
    line->open = line->followed++ * UINT32_C(2654435769) < share;
    struct round round = {event, (uint32_t)search->model->events.count};
    if (line->open) mp_vec_add(&line->rounds, round);
}

/* A site's weight. The weight is a square root, so that a step's sites weigh most: neither the few sites that run for
 * each row of a batch, nor the many sites of a rare evaluation. */
static double weight_of(const struct site *site)
{
    return site->allocs < ROUNDS_MIN ? 0 : sqrt(site->allocs);
}

MP_ORDER(by_event, struct change, MP_RISING(event))

/* Computes running sums, by event, of the weights of sites that begin and end. */
static void sum_work(struct search *search)
{
    struct changes *all[] = {&search->begins, &search->ends};
    mp_vec_each (const struct site, site, &search->sites) {
        if (site->allocs < ROUNDS_MIN) continue;
        mp_vec_add(&search->begins, ((struct change){site->begin, site->optimizer, weight_of(site)}));
        mp_vec_add(&search->ends, ((struct change){site->end, site->optimizer, weight_of(site)}));
    }
    for (size_t which = 0; which < 2; which++) {
        struct changes *changes = all[which];
        if (changes->count) qsort(changes->at, changes->count, sizeof *changes->at, by_event);
        for (size_t i = 1; i < changes->count; i++) {
            changes->at[i].weight += changes->at[i - 1].weight;
            changes->at[i].optimizers += changes->at[i - 1].optimizers;
        }
    }
}

/* The sum of all changes before an event. */
static struct change sum_until(const struct changes *changes, uint32_t event)
{
    size_t before = MP_COUNT_BEFORE(changes->count, i, changes->at[i].event < event);
    return before ? changes->at[before - 1] : (struct change){0};
}

/* True if a round contains half of the weight of the sites in use around it, and an optimizer's site if one is in
 * use. */
static bool is_whole(struct search *search, const struct round *round)
{
    const struct mp_model *model = search->model;
    struct change begun = sum_until(&search->begins, round->end), ended = sum_until(&search->ends, round->first + 1);
    bool optimizer = begun.optimizers == ended.optimizers;
    double weight = 0;
    search->round++;
    search->effort += round->end - round->first;
    for (uint32_t event = round->first; event < round->end; event++) {
        if (model->events.type[event] != MP_EVENT_ALLOC) continue;
        struct site *site = &search->sites.at[model->blocks.stack[model->events.subject[event]]];
        if (site->seen == search->round) continue;
        site->seen = search->round;
        weight += weight_of(site);
        optimizer |= site->optimizer;
    }
    return optimizer && weight * 2 >= begun.weight - ended.weight;
}

/* True if three in four rounds are whole. The last round does not count: it may be cut, or contain the program's
 * end. */
static bool has_whole_rounds(struct search *search, const struct line *line)
{
    uint32_t whole = 0, looked_at = 0;
    for (size_t i = 0; i < line->rounds.count; i++) {
        if (line->rounds.at[i].end == search->model->events.count) continue;
        whole += is_whole(search, &line->rounds.at[i]);
        looked_at++;
        if ((looked_at - whole) * 4 > line->rounds.count) return false;
    }
    return looked_at && whole * 4 >= looked_at * 3;
}

MP_ORDER_OF_POINTERS(by_count, struct line, MP_FALLING(count) ?: MP_RISING(first))

/* How many lines of the function were reached exactly as often as this one. In a loop this is true of most lines, but
 * not of one that is reached once more when the loop ends. */
static uint32_t fellows(const struct search *search, const struct line *line)
{
    uint32_t count = 0;
    for (size_t i = 0; i < search->lines.count; i++)
        count += search->lines.at[i].function == line->function && search->lines.at[i].count == line->count;
    return count;
}

/* True if a line is better than the other, when both were reached about equally often. */
static bool is_better(const struct search *search, const struct line *line, const struct line *than)
{
    if (line->function != than->function) return line->depth < than->depth;
    if (line->count == than->count) return line->live < than->live;
    return fellows(search, line) > fellows(search, than);
}

static void choose(struct search *search)
{
    MP_VEC(const struct line *) candidates = {0};
    const struct line *most = NULL;
    for (size_t i = 0; i < search->lines.count; i++) {
        if (!may_loop(search, &search->lines.at[i])) continue;
        mp_vec_add(&candidates, &search->lines.at[i]);
    }
    if (candidates.count) qsort(candidates.at, candidates.count, sizeof *candidates.at, by_count);
    for (size_t i = 0; i < candidates.count && search->effort / EFFORT < search->model->events.count; i++) {
        const struct line *line = candidates.at[i];
        if (most && line->count + 1 < most->count - most->count / 16) break;
        if ((search->chosen && !is_better(search, line, search->chosen)) || !has_whole_rounds(search, line)) continue;
        if (!most) most = line;
        search->chosen = line;
    }
    mp_vec_free(&candidates);
}

static void begin_step(struct search *search, struct line *line, uint32_t event, int64_t live)
{
    (void)live;
    if (line == search->chosen) mp_steps_begin(search->model, event, 0, search->steps);
}

static bool is_import(const struct mp_model *model, uint32_t stack)
{
    for (uint32_t node = stack; node; node = model->stacks.at[node].parent) {
        const struct mp_model_line *line = mp_loop_line(model, node, MP_PYTHON);
        if (line && !strcmp(mp_model_text(model, line->file), "<frozen importlib._bootstrap>")) return true;
    }
    return false;
}

uint32_t mp_loop_begin(const struct mp_model *model)
{
    for (uint32_t event = 0; event < model->events.count; event++)
        if (model->events.type[event] == MP_EVENT_ALLOC &&
            !is_import(model, model->blocks.stack[model->events.subject[event]]))
            return event;
    return 0; /* the program runs in an import */
}

bool mp_loop_sees(const struct mp_model *model, uint32_t event, bool host)
{
    if (model->events.type[event] != MP_EVENT_ALLOC) return false;
    return host || model->tracks.at[model->blocks.track[model->events.subject[event]]].layer != MP_LAYER_MALLOC;
}

bool mp_loop_find(const struct mp_model *model, bool host, struct mp_steps *steps)
{
    struct search search = {.model = model,
                            .host = host,
                            .language = mp_loop_language(model),
                            .begin = mp_loop_begin(model),
                            .steps = steps};
    know_sites(&search);
    sum_work(&search);
    follow(&search, count_line);
    follow(&search, sample_line);
    choose(&search);
    if (search.chosen) follow(&search, begin_step);
    bool sure = search.chosen && search.chosen->again;
    for (size_t i = 0; i < search.lines.count; i++)
        mp_vec_free(&search.lines.at[i].rounds);
    mp_vec_free(&search.lines);
    mp_vec_free(&search.sites);
    mp_vec_free(&search.line_of);
    mp_vec_free(&search.work);
    mp_vec_free(&search.begins);
    mp_vec_free(&search.ends);
    free(search.now);
    mp_vec_free(&search.roles);
    mp_map_free(&search.functions);
    mp_map_free(&search.numbers);
    return sure;
}

bool mp_loop_is_outside(const struct mp_model *model, const struct mp_model_line *line)
{
    uint8_t role = role_of_file(mp_model_text(model, line->file));
    return role == ROLE_ANY || role == ROLE_AROUND;
}
