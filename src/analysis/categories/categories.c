#include "analysis/categories/categories.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/categories/flow.h"
#include "analysis/categories/phases.h"
#include "base/error.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "base/vec.h"
#include "model/model.h"
#include "model/rules.h"
#include "model/stack_facts.h"

#define GRAPH_LEAST 8  /* fewest blocks of a graph, or freed together with one */
#define SMALL_LEAST 32 /* fewest blocks of small passes if nothing was trained */
#define GRAPH_PART  4  /* with a graph, a forward pass keeps at least 1/GRAPH_PART of its blocks */

/* The number of blocks of a size; sorted by size. */
struct size_count {
    uint64_t bytes;
    uint32_t round, count;
};
struct sizes {
    struct size_count *at;
    size_t count, room;
};

struct finder {
    const struct mp_model *model;
    const struct mp_phases *phases;
    struct mp_guesses *guesses;
    unsigned char *known; /* by block: enum mp_category */
    const struct mp_stack_facts *facts;
    uint32_t *line;      /* find_lines() */
    bool trains, infers; /* some turn is backward; some turn is inference */
};

/* By stack: the line to show, which is the innermost Python frame's, else the innermost frame's; MP_NONE: none. Parents
 * come before children. */
static uint32_t *find_lines(const struct mp_model *model)
{
    uint32_t *lines = mp_alloc((model->stacks.count + 1) * sizeof *lines);
    lines[0] = MP_NONE;
    for (uint32_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        bool frame = node->frame != MP_FRAME_CUT;
        bool python = frame && model->frames.at[node->frame].raw.language == MP_PYTHON;
        uint32_t outer = lines[node->parent];
        bool outer_python = outer != MP_NONE && model->frames.at[outer].raw.language == MP_PYTHON;
        lines[i] = python || (frame && !outer_python) ? node->frame : outer;
    }
    return lines;
}

static bool is_of_torch(const struct finder *f, uint32_t block)
{
    return f->model->tracks.at[f->model->blocks.track[block]].layer == MP_LAYER_TORCH;
}

static bool was_before(const struct finder *f, uint32_t block)
{
    return f->model->blocks.alloc_event[block] == MP_NONE;
}

/* True if the block is freed after all allocations, as the program ends. */
static bool lives_to_the_end(const struct finder *f, uint32_t block)
{
    uint32_t freed = f->model->blocks.free_event[block], last = f->phases->last_alloc;
    return freed == MP_NONE || (last != MP_NONE && freed > last);
}

static enum mp_phase phase_of_free(const struct finder *f, uint32_t block)
{
    uint32_t stack = mp_model_freed_at(f->model, block);
    if (stack) return (enum mp_phase)f->phases->of_stack[stack];
    uint32_t turn = mp_phase_turn_of(f->phases, f->model->blocks.free_event[block]);
    return turn == MP_NONE ? MP_PHASE_OUTSIDE : (enum mp_phase)f->phases->turns.at[turn].phase;
}

/* ---- sizes */

MP_ORDER(by_size, struct size_count, MP_RISING(bytes) ?: MP_RISING(round))

static void add_size(struct sizes *sizes, uint64_t bytes, uint32_t round)
{
    struct size_count one = {bytes, round, 1};
    if (bytes != MP_BYTES_UNKNOWN) mp_vec_add(sizes, one);
}

/* Keeps, for each size, its highest number in one round; sorted. */
static void sum_up(struct sizes *sizes)
{
    size_t made = 0;
    if (sizes->count) qsort(sizes->at, sizes->count, sizeof *sizes->at, by_size);
    for (size_t i = 0; i < sizes->count;) {
        struct size_count most = sizes->at[i];
        size_t end = i;
        while (end < sizes->count && !by_size(&sizes->at[end], &sizes->at[i]))
            end++;
        most.count = (uint32_t)(end - i);
        if (made && sizes->at[made - 1].bytes == most.bytes) {
            if (sizes->at[made - 1].count < most.count) sizes->at[made - 1].count = most.count;
        } else {
            sizes->at[made++] = most;
        }
        i = end;
    }
    sizes->count = made;
}

static struct size_count *find_size(const struct sizes *sizes, uint64_t bytes)
{
    size_t found = MP_COUNT_BEFORE(sizes->count, i, sizes->at[i].bytes < bytes);
    return found < sizes->count && sizes->at[found].bytes == bytes ? &sizes->at[found] : NULL;
}

/* ---- inference */

/* The blocks that a turn of forward makes, and how many still live when backward could need them. */
struct keeping {
    uint32_t made, kept; /* kept: without results */
    uint32_t consumed;   /* freed in backward */
};

/* A thread's forward pass. */
struct pass {
    uint32_t stack, block; /* its first stack, its last block; 0, MP_NONE: not in a pass */
};

static void end_pass(struct pass *pass, unsigned char *results)
{
    if (pass->stack) results[pass->block] = true;
    *pass = (struct pass){0, MP_NONE};
}

/* By block: 1 for a pass's last block, its result. The program may keep a result with or without a graph. A thread's
 * pass ends when the thread does something else, or when the pass's first code runs again. */
static unsigned char *find_results(const struct finder *f)
{
    const struct mp_model *model = f->model;
    unsigned char *results = mp_alloc_zeroed(model->blocks.count + 1, 1);
    struct pass *passes = mp_alloc_zeroed(model->threads.count + 1, sizeof *passes);
    for (uint32_t block = 0; f->phases->any && block < model->blocks.count; block++) {
        uint32_t born = model->blocks.alloc_event[block], stack = model->blocks.stack[block];
        if (born == MP_NONE || !is_of_torch(f, block) || model->events.thread[born] >= model->threads.count) continue;
        struct pass *pass = &passes[model->events.thread[born]];
        bool forward = mp_phase_of_block(f->phases, model, block) == MP_PHASE_FORWARD;
        if (!forward || stack == pass->stack) end_pass(pass, results);
        if (forward) *pass = (struct pass){pass->stack ? pass->stack : stack, block};
    }
    for (size_t i = 0; i < model->threads.count; i++)
        end_pass(&passes[i], results);
    free(passes);
    return results;
}

/* True if backward follows before another forward. */
static bool leads_to_backward(const struct mp_phases *phases, size_t turn)
{
    for (size_t i = turn + 1; i < phases->turns.count && phases->turns.at[i].phase != MP_PHASE_FORWARD; i++)
        if (mp_phase_is_backward(phases->turns.at[i].phase)) return true;
    return false;
}

/* Facts that all turns show together. */
struct showing {
    bool recomputes;
    bool enough; /* the program has a backward to compare with, or many blocks */
};

static bool is_inference(const struct mp_phases *phases, size_t turn, const struct keeping *at,
                         const struct showing *all, bool before)
{
    if (at->consumed) return false;
    bool little = all->recomputes ? !at->kept : at->kept * GRAPH_PART < at->made;
    if (at->made >= GRAPH_LEAST) return little;
    if (before && little) return true;
    return all->enough && at->made > 1 && !at->kept && !leads_to_backward(phases, turn);
}

/* The event at which the graph of a turn of forward would still be complete: its backward, else the next forward;
 * MP_NONE. */
static uint32_t next_use(const struct mp_phases *phases, size_t turn)
{
    const struct mp_phase_turn *at = &phases->turns.at[turn];
    if (at->backward != MP_NONE) return phases->turns.at[at->backward].first;
    for (size_t i = turn + 1; i < phases->turns.count; i++)
        if (phases->turns.at[i].phase == MP_PHASE_FORWARD) return phases->turns.at[i].first;
    return MP_NONE;
}

/* True if a region of the program says that it trains, though no frame shows it. */
static bool marks_backward(const struct mp_model *model)
{
    for (size_t i = 0; i < model->noted.count; i++)
        if (model->events.type[model->noted.at[i]] == MP_EVENT_REGION_BEGIN &&
            !strcmp(mp_model_text(model, model->notes.at[i].name), "backward"))
            return true;
    return false;
}

static void find_inference(struct finder *f)
{
    const struct mp_model *model = f->model;
    const struct mp_phases *phases = f->phases;
    size_t count = phases->turns.count;
    struct keeping *keeping = mp_alloc_zeroed(count + 1, sizeof *keeping);
    unsigned char *results = find_results(f);
    struct showing all = {.recomputes = false};
    uint32_t made = 0, thread = MP_NONE;
    bool several = false; /* threads */
    f->guesses->inference = mp_alloc_zeroed(count + 1, 1);
    for (uint32_t i = 0; phases->any && i < model->blocks.count; i++) {
        uint32_t born = model->blocks.alloc_event[i], freed = model->blocks.free_event[i];
        if (born == MP_NONE || !is_of_torch(f, i) || mp_phase_of_block(phases, model, i) != MP_PHASE_FORWARD) continue;
        uint32_t turn = mp_phase_turn_of(phases, born);
        if (turn == MP_NONE) continue;
        uint32_t use = next_use(phases, turn);
        several |= thread != MP_NONE && thread != model->events.thread[born];
        thread = model->events.thread[born];
        keeping[turn].made++;
        bool kept = use == MP_NONE ? lives_to_the_end(f, i) : freed > use;
        keeping[turn].kept += kept && !results[i];
        keeping[turn].consumed += kept && !lives_to_the_end(f, i) && mp_phase_is_backward(phase_of_free(f, i));
    }
    for (size_t i = 0; i < count; i++) {
        all.recomputes |= phases->turns.at[i].phase == MP_PHASE_RECOMPUTE;
        made += keeping[i].made;
        f->trains |= mp_phase_is_backward(phases->turns.at[i].phase);
    }
    all.enough = f->trains || (made >= SMALL_LEAST && !marks_backward(model));
    bool before = false; /* a turn of one block counts like the previous turn */
    size_t turns = 0, infer = 0;
    for (size_t i = 0; i < count; i++) {
        if (phases->turns.at[i].phase != MP_PHASE_FORWARD) continue;
        f->guesses->inference[i] = is_inference(phases, i, &keeping[i], &all, before);
        before = f->guesses->inference[i];
        infer += before;
        turns++;
    }
    f->infers = infer;
    /* On a server, other threads are within a call during a turn; their blocks live like a graph's. On a busy machine
     * this happens in nearly half of the turns. */
    size_t needed = several ? turns / 2 : turns - turns / 4;
    bool served = !f->trains && infer >= SMALL_LEAST && infer >= needed;
    for (size_t i = 0; served && i < count; i++)
        f->guesses->inference[i] = phases->turns.at[i].phase == MP_PHASE_FORWARD;
    free(results);
    free(keeping);
}

/* ---- graphs that outlive the next one */

static bool belongs_to_graph(const struct finder *f, uint32_t block, uint32_t *turn)
{
    const struct mp_model *model = f->model;
    uint32_t born = model->blocks.alloc_event[block];
    if (born == MP_NONE || !is_of_torch(f, block) || mp_phase_of_block(f->phases, model, block) != MP_PHASE_FORWARD)
        return false;
    *turn = mp_phase_turn_of(f->phases, born);
    return *turn != MP_NONE && !f->guesses->inference[*turn];
}

/* A pass ends, and the next begins, when its first code runs again in a later turn. */
static void find_passes(struct finder *f)
{
    struct mp_guess_passes *passes = &f->guesses->passes;
    uint32_t first = MP_NONE, last_turn = MP_NONE, turn;
    for (uint32_t i = 0; i < f->model->blocks.count; i++) {
        if (!belongs_to_graph(f, i, &turn)) continue;
        uint32_t stack = f->model->blocks.stack[i];
        bool again = stack == first && turn != last_turn;
        if (stack == first) last_turn = turn;
        if (first != MP_NONE && !again) continue;
        first = stack;
        last_turn = turn;
        mp_vec_add(passes, ((struct mp_guess_pass){f->model->blocks.alloc_event[i], 0, 0}));
    }
}

static struct mp_guess_pass *pass_of(const struct mp_guesses *guesses, uint32_t event)
{
    size_t before = MP_COUNT_BEFORE(guesses->passes.count, i, guesses->passes.at[i].first <= event);
    return before ? &guesses->passes.at[before - 1] : NULL;
}

/* The event that begins the next pass; MP_NONE: none. */
static uint32_t end_of(const struct mp_guesses *guesses, const struct mp_guess_pass *pass)
{
    return pass + 1 < guesses->passes.at + guesses->passes.count ? pass[1].first : MP_NONE;
}

static void find_previous(struct finder *f)
{
    uint32_t turn;
    find_passes(f);
    for (uint32_t i = 0; i < f->model->blocks.count; i++) {
        if (!belongs_to_graph(f, i, &turn)) continue;
        struct mp_guess_pass *pass = pass_of(f->guesses, f->model->blocks.alloc_event[i]);
        uint32_t freed = f->model->blocks.free_event[i], end = pass ? end_of(f->guesses, pass) : MP_NONE;
        if (!pass) continue;
        pass->made++;
        bool consumed = !lives_to_the_end(f, i) && mp_phase_is_backward(phase_of_free(f, i));
        pass->beyond += end != MP_NONE && !consumed && (freed == MP_NONE || freed > end);
    }
}

static bool is_held(const struct mp_guess_pass *pass)
{
    return pass->beyond >= GRAPH_LEAST && pass->beyond * GRAPH_PART >= pass->made;
}

bool mp_guesses_is_previous(const struct mp_guesses *guesses, const struct mp_model *model,
                            const struct mp_phases *phases, uint32_t block, uint32_t moment)
{
    uint32_t born = model->blocks.alloc_event[block], freed = model->blocks.free_event[block];
    uint32_t turn = born == MP_NONE ? MP_NONE : mp_phase_turn_of(phases, born);
    if (turn == MP_NONE || guesses->inference[turn]) return false;
    const struct mp_guess_pass *pass = pass_of(guesses, born);
    uint32_t end = pass && is_held(pass) ? end_of(guesses, pass) : MP_NONE;
    return end != MP_NONE && end < moment && (freed == MP_NONE || freed > end);
}

/* ---- freed blocks */

/* By block: how many blocks its line freed in a row, without an allocation in between. */
static uint32_t *count_together(const struct finder *f)
{
    const struct mp_model_events *events = &f->model->events;
    uint32_t *together = mp_alloc_zeroed(f->model->blocks.count + 1, sizeof *together);
    for (size_t i = 0; i < events->count;) {
        size_t end = i, freed = 0;
        uint32_t stack = events->type[i] == MP_EVENT_FREE ? mp_model_freed_at(f->model, events->subject[i]) : 0;
        for (; end < events->count && events->type[end] != MP_EVENT_ALLOC; end++) {
            if (events->type[end] != MP_EVENT_FREE) continue;
            if (f->line[mp_model_freed_at(f->model, events->subject[end])] != f->line[stack]) break;
            freed++;
        }
        for (size_t at = i; at < end; at++)
            if (events->type[at] == MP_EVENT_FREE) together[events->subject[at]] = (uint32_t)freed;
        i = end > i ? end : i + 1;
    }
    return together;
}

static unsigned of_freed(const struct finder *f, uint32_t block, uint32_t together)
{
    if (f->facts->of_stack[mp_model_freed_at(f->model, block)] & MP_FACT_ZEROES) return MP_CATEGORY_GRADIENTS;
    enum mp_phase phase = phase_of_free(f, block);
    if (mp_phase_is_backward(phase)) return MP_CATEGORY_ACTIVATIONS;
    if (phase == MP_PHASE_OPTIMIZER) return MP_CATEGORY_OPTIMIZER_STATE;
    if (together < GRAPH_LEAST) return MP_CATEGORY_NONE;
    return f->infers && !f->guesses->passes.count && !f->trains ? MP_CATEGORY_KEPT : MP_CATEGORY_PREVIOUS;
}

/* ---- lasting blocks */

static bool is_unknown(const struct finder *f, uint32_t block)
{
    return was_before(f, block) && is_of_torch(f, block) && !f->known[block];
}

static bool is_lasting(const struct finder *f, uint32_t block)
{
    return is_unknown(f, block) && !f->model->blocks.stack[block] && lives_to_the_end(f, block) &&
           f->model->blocks.bytes[block] != MP_BYTES_UNKNOWN;
}

static uint32_t round_of(const struct finder *f, uint32_t block)
{
    uint32_t turn = mp_phase_turn_of(f->phases, f->model->blocks.alloc_event[block]);
    return turn == MP_NONE ? 0 : f->phases->turns.at[turn].round;
}

/* Counts one block for each trained parameter: its gradient, or the block that backward adds to an existing
 * gradient. */
static void count_gradients(const struct finder *f, struct sizes *gradients, bool *kept)
{
    struct sizes lasting = {0}, passing = {0};
    for (uint32_t i = 0; i < f->model->blocks.count; i++) {
        if (was_before(f, i) || !is_of_torch(f, i)) continue;
        if (f->known[i] == MP_CATEGORY_GRADIENTS) add_size(&lasting, f->model->blocks.bytes[i], round_of(f, i));
        if (f->known[i] == MP_CATEGORY_TEMPORARY && mp_phase_of_block(f->phases, f->model, i) == MP_PHASE_BACKWARD)
            add_size(&passing, f->model->blocks.bytes[i], round_of(f, i));
    }
    sum_up(&lasting);
    sum_up(&passing);
    *kept = !lasting.count;
    struct sizes *taken = lasting.count ? &lasting : &passing, *left = lasting.count ? &passing : &lasting;
    *gradients = *taken;
    mp_vec_free(left);
}

/* The category of the Nth block of a size, from 0, if `parameters` parameters have that size. Parameters come first.
 * `steps`: an optimizer keeps state for these parameters. */
static unsigned of_copy(uint32_t nth, uint32_t parameters, bool with_gradients, bool steps)
{
    uint32_t copy = parameters ? nth / parameters : 0;
    if (!copy) return MP_CATEGORY_PARAMETERS;
    if (with_gradients && copy == 1) return MP_CATEGORY_GRADIENTS;
    return steps ? MP_CATEGORY_OPTIMIZER_STATE : MP_CATEGORY_PARAMETERS;
}

static uint32_t file_of(const struct mp_model *model, uint32_t frame)
{
    const struct mp_model_frame *at = frame == MP_NONE ? NULL : &model->frames.at[frame];
    return at && at->line_count ? model->lines.at[at->first_line].file : 0;
}

/* A constructor's block is guessed to be a parameter in two cases: backward makes a gradient of its size, or its file
 * also has a network's forward(). Caches, buffers of samples and data sets are made in constructors as well. */
static void guess_constructed(struct finder *f, const struct sizes *gradients)
{
    const struct mp_model *model = f->model;
    struct mp_map networks = {0}; /* by file + 1 */
    for (uint32_t i = 0; i < model->frames.count; i++)
        if (f->facts->of_frame[i] & MP_FACT_FORWARD) (void)mp_map_at(&networks, (uint64_t)file_of(model, i) + 1, NULL);
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        uint32_t stack = model->blocks.stack[i], file = file_of(model, f->line[stack]);
        if (f->known[i] || model->labels.count || !is_of_torch(f, i) || !(f->facts->inside[stack] & MP_FACT_CONSTRUCTS))
            continue;
        if (find_size(gradients, model->blocks.bytes[i]) || (file && mp_map_find(&networks, (uint64_t)file + 1)))
            f->guesses->of_block[i] = MP_CATEGORY_PARAMETERS;
    }
    mp_map_free(&networks);
}

static void guess_lasting(struct finder *f)
{
    const struct mp_model *model = f->model;
    struct sizes gradients = {0};
    struct mp_map seen = {0}; /* by size + 1: the number of blocks */
    bool kept = false, steps = false;
    for (size_t i = 0; i < f->phases->turns.count; i++)
        steps |= f->phases->turns.at[i].phase == MP_PHASE_OPTIMIZER;
    count_gradients(f, &gradients, &kept);
    for (uint32_t i = 0; f->phases->any && i < model->blocks.count; i++) {
        uint64_t bytes = model->blocks.bytes[i];
        const struct size_count *one = find_size(&gradients, bytes);
        if (!is_lasting(f, i)) continue;
        uint32_t nth = (uint32_t)(*mp_map_at(&seen, bytes + 1, NULL))++;
        f->guesses->of_block[i] = (unsigned char)of_copy(nth, one ? one->count : 0, kept, steps);
    }
    guess_constructed(f, &gradients);
    mp_vec_free(&gradients);
    mp_map_free(&seen);
}

/* ---- older blocks with a stack, and freed blocks */

static unsigned of_stack(const struct finder *f, uint32_t block)
{
    static const unsigned char of[MP_PHASES] = {[MP_PHASE_FORWARD] = MP_CATEGORY_ACTIVATIONS,
                                                [MP_PHASE_RECOMPUTE] = MP_CATEGORY_ACTIVATIONS,
                                                [MP_PHASE_BACKWARD] = MP_CATEGORY_GRADIENTS,
                                                [MP_PHASE_OPTIMIZER] = MP_CATEGORY_OPTIMIZER_STATE};
    unsigned category = of[f->phases->of_stack[f->model->blocks.stack[block]]];
    return category == MP_CATEGORY_ACTIVATIONS && !f->trains ? MP_CATEGORY_KEPT : category;
}

static unsigned of_rest(const struct finder *f, uint32_t block, uint32_t together)
{
    unsigned guess = f->model->blocks.stack[block] ? of_stack(f, block) : MP_CATEGORY_NONE;
    return guess || lives_to_the_end(f, block) ? guess : of_freed(f, block, together);
}

static void guess_rest(struct finder *f)
{
    const struct mp_model *model = f->model;
    uint32_t *together = count_together(f);
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        unsigned char *guess = &f->guesses->of_block[i];
        if (!*guess && is_unknown(f, i)) *guess = (unsigned char)of_rest(f, i, together[i]);
    }
    free(together);
}

void mp_guesses_find(const struct mp_model *model, const struct mp_phases *phases,
                     unsigned (*known)(const void *context, uint32_t block), const void *context,
                     struct mp_guesses *guesses)
{
    struct finder f = {.model = model, .phases = phases, .guesses = guesses};
    *guesses = (struct mp_guesses){.of_block = mp_alloc_zeroed(model->blocks.count + 1, 1)};
    f.known = mp_alloc_zeroed(model->blocks.count + 1, 1);
    f.facts = mp_stack_facts(model);
    f.line = find_lines(model);
    find_inference(&f);
    find_previous(&f);
    for (uint32_t i = 0; i < model->blocks.count; i++)
        f.known[i] = (unsigned char)known(context, i);
    guess_lasting(&f);
    guess_rest(&f);
    free(f.known);
    free(f.line);
}

void mp_guesses_free(struct mp_guesses *guesses)
{
    free(guesses->of_block);
    free(guesses->inference);
    mp_vec_free(&guesses->passes);
}

static const char *const names[MP_CATEGORIES] = {
    [MP_CATEGORY_PARAMETERS] = "parameters",
    [MP_CATEGORY_GRADIENTS] = "gradients",
    [MP_CATEGORY_OPTIMIZER_STATE] = "optimizer state",
    [MP_CATEGORY_BUFFERS] = "buffers",
    [MP_CATEGORY_ACTIVATIONS] = "activations",
    [MP_CATEGORY_INPUT] = "input",
    [MP_CATEGORY_TEMPORARY] = "temporary",
    [MP_CATEGORY_WORKSPACE] = "workspace",
    [MP_CATEGORY_COMMUNICATION] = "communication",
    [MP_CATEGORY_PREVIOUS] = "previous graph",
    [MP_CATEGORY_WORKING] = "working memory",
    [MP_CATEGORY_KEPT] = "kept over calls",
    [MP_CATEGORY_KV_CACHE] = "KV cache",
};

/* Facts of frames, and the categories that they show. The first that applies counts; `doubtless` facts count before
 * phases. */
static const struct {
    uint32_t fact;
    enum mp_category category;
    bool doubtless;
} shown[] = {
    {MP_FACT_WORKSPACE, MP_CATEGORY_WORKSPACE, true},
    {MP_FACT_COMMUNICATES, MP_CATEGORY_COMMUNICATION, true},
    {MP_FACT_ACCUMULATES, MP_CATEGORY_GRADIENTS, true},
    {MP_FACT_LOADS_DATA, MP_CATEGORY_INPUT, true},
    {MP_FACT_MAKES_STATE, MP_CATEGORY_OPTIMIZER_STATE, true},
    {MP_FACT_REPLICATES, MP_CATEGORY_PARAMETERS, true},
    {MP_FACT_MAKES_PARAMETERS, MP_CATEGORY_PARAMETERS, false},
    {MP_FACT_BUILDS_OPTIMIZER, MP_CATEGORY_OPTIMIZER_STATE, false},
};

#define SHOWN (sizeof shown / sizeof *shown)

/* The index of the first row whose fact is among `facts`; SHOWN: none. */
static size_t first_shown(uint32_t facts)
{
    size_t i = 0;
    while (i < SHOWN && !(facts & shown[i].fact))
        i++;
    return i;
}

bool mp_category_rule(size_t index, struct mp_category_rule *rule)
{
    const struct mp_stack_pattern *pattern = mp_stack_pattern(index);
    size_t i = pattern ? first_shown(pattern->fact) : SHOWN;
    if (i == SHOWN) return false;
    *rule = (struct mp_category_rule){names[shown[i].category], pattern->regex, shown[i].doubtless};
    return true;
}

/* Labels of the blocks of one stack, module and size: a count for each role. */
struct usual {
    uint32_t votes[MP_ROLES];
};

struct mp_categories {
    const struct mp_model *model;
    const struct mp_rules *user; /* may be NULL */
    uint16_t *by_user;           /* by stack: 1 + the user's first rule that fits; NULL: no rules */
    const struct mp_stack_facts *facts;
    struct mp_phases phases;
    struct mp_guesses guesses;
    uint32_t first_call;   /* in a program that only infers: the turn of the first call; else MP_NONE */
    unsigned char *feeds;  /* by stack: enum feeding */
    struct mp_intern keys; /* keys of `usual`: number N + 1 is usual[N] */
    MP_VEC(struct usual) usual;
};

static unsigned category_named(const struct mp_categories *categories, uint32_t rule)
{
    uint32_t id = categories->user->rules.at[rule].name;
    const char *name = mp_intern_get(&categories->user->names, id, NULL);
    for (unsigned i = 1; i < MP_CATEGORIES; i++)
        if (!strcmp(name, names[i])) return i;
    return MP_CATEGORIES + id;
}

/* Parents come before children, so one pass over the nodes settles every stack. */
static uint16_t *match_stacks(const struct mp_model *model, const struct mp_rules *rules)
{
    struct mp_buffer scratch = {0};
    uint32_t *frames = mp_alloc((model->frames.count + 1) * sizeof *frames);
    uint16_t *stacks = mp_alloc_zeroed(model->stacks.count + 1, sizeof *stacks);
    for (uint32_t i = 0; i < model->frames.count; i++)
        frames[i] = mp_rules_find_frame(rules, model, i, &scratch);
    for (size_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        uint32_t own = node->frame == MP_FRAME_CUT ? MP_NONE : frames[node->frame];
        uint16_t outer = stacks[node->parent];
        stacks[i] = own != MP_NONE && (!outer || own + 1 < outer) ? (uint16_t)(own + 1) : outer;
    }
    mp_buffer_free(&scratch);
    free(frames);
    return stacks;
}

const char *mp_category_phase(const struct mp_categories *categories, uint32_t moment)
{
    uint32_t turn = moment ? mp_phase_turn_of(&categories->phases, moment - 1) : MP_NONE;
    if (turn != MP_NONE && categories->guesses.inference[turn]) return "inference";
    if (turn == MP_NONE) return NULL;
    unsigned phase = categories->phases.turns.at[turn].phase;
    return mp_phase_name(phase == MP_PHASE_RECOMPUTE ? MP_PHASE_BACKWARD : phase);
}

/* The key of blocks that mostly get the same label: stack, module and size. */
static void usual_key(const struct mp_model *model, uint32_t block, uint64_t key[3])
{
    key[0] = model->blocks.stack[block];
    key[1] = mp_model_module(model, block);
    key[2] = model->blocks.bytes[block];
}

/* Each block votes once, with its first label. */
static void count_labels(struct mp_categories *categories)
{
    const struct mp_model *model = categories->model;
    for (size_t i = 0; i < model->labels.count; i++) {
        const struct mp_model_label *label = &model->labels.at[i];
        uint64_t key[3];
        if (i && label[-1].block == label->block) continue;
        usual_key(model, label->block, key);
        uint32_t id = mp_intern_add(&categories->keys, (const char *)key, sizeof key);
        struct usual fresh = {{0}};
        if (id > categories->usual.count) mp_vec_add(&categories->usual, fresh);
        if (label->role < MP_ROLES) categories->usual.at[id - 1].votes[label->role]++;
    }
}

unsigned mp_categories_count(const struct mp_categories *categories)
{
    return MP_CATEGORIES + (categories->user ? categories->user->names.count : 0);
}

const char *mp_category_name(const struct mp_categories *categories, unsigned category)
{
    if (category < MP_CATEGORIES) return names[category];
    return mp_intern_get(&categories->user->names, category - MP_CATEGORIES, NULL);
}

static enum mp_category of_role(unsigned role)
{
    static const unsigned char of[MP_ROLES] = {[MP_ROLE_PARAMETER] = MP_CATEGORY_PARAMETERS,
                                               [MP_ROLE_GRADIENT] = MP_CATEGORY_GRADIENTS,
                                               [MP_ROLE_OPTIMIZER_STATE] = MP_CATEGORY_OPTIMIZER_STATE,
                                               [MP_ROLE_BUFFER] = MP_CATEGORY_BUFFERS,
                                               [MP_ROLE_INPUT] = MP_CATEGORY_INPUT,
                                               [MP_ROLE_KV_CACHE] = MP_CATEGORY_KV_CACHE};
    return role < MP_ROLES ? (enum mp_category)of[role] : MP_CATEGORY_NONE;
}

const char *mp_category_of_role(unsigned role)
{
    return names[of_role(role)];
}

static enum mp_category by_label(const struct mp_categories *categories, uint32_t block, uint32_t moment)
{
    const struct mp_model *model = categories->model;
    if (!model->labels.count) return MP_CATEGORY_NONE;
    const struct mp_model_label *label = mp_model_label_at(model, block, moment ? moment - 1 : MP_NONE);
    if (!label || !moment) label = mp_model_label_first(model, block);
    return label ? of_role(label->role) : MP_CATEGORY_NONE;
}

static enum mp_category by_usual_label(const struct mp_categories *categories, uint32_t block)
{
    uint64_t key[3];
    usual_key(categories->model, block, key);
    uint32_t id = mp_intern_find(&categories->keys, (const char *)key, sizeof key);
    if (id == MP_INTERN_FAILED) return MP_CATEGORY_NONE;
    const struct usual *usual = &categories->usual.at[id - 1];
    unsigned best = MP_ROLE_NONE;
    for (unsigned role = 1; role < MP_ROLES; role++)
        if (usual->votes[role] > usual->votes[best]) best = role;
    return of_role(best);
}

/* A block's life, counted in turns. */
struct life {
    const struct mp_phases *phases;
    uint32_t turn;  /* turn of its birth */
    uint32_t freed; /* turn of its free; MP_NONE: not freed in the recording */
};

static const struct mp_phase_turn *turn_at(const struct life *life, uint32_t index)
{
    return &life->phases->turns.at[index];
}

static bool lives_at(const struct life *life, uint32_t turn)
{
    return life->freed > turn_at(life, turn)->first;
}

/* The first turn after the birth with a phase outside of `mask`; MP_NONE. */
static uint32_t turn_beyond(const struct life *life, unsigned mask)
{
    for (uint32_t i = life->turn + 1; i < life->phases->turns.count; i++)
        if (!(mask & 1u << turn_at(life, i)->phase)) return i;
    return MP_NONE;
}

static enum mp_category if_it_lasts(const struct life *life, unsigned mask, enum mp_category category)
{
    uint32_t end = turn_beyond(life, mask);
    bool lasts = end == MP_NONE ? life->freed == MP_NONE : lives_at(life, end);
    return lasts ? category : MP_CATEGORY_TEMPORARY;
}

static enum mp_category of_forward(const struct life *life)
{
    uint32_t backward = turn_at(life, life->turn)->backward, next = life->turn + 1;
    if (backward == MP_NONE && next < life->phases->turns.count)
        backward = next; /* without a backward, the block must outlive the turn */
    bool lasts = backward == MP_NONE ? life->freed == MP_NONE : lives_at(life, backward);
    return lasts ? MP_CATEGORY_ACTIVATIONS : MP_CATEGORY_TEMPORARY;
}

#define MADE_MEANWHILE  4096 /* events in which another thread's forward pass must allocate */
#define ROUNDS_OF_INPUT 4    /* rounds that may use a batch: it is fetched ahead, or shared by two networks */

/* True if the block is freed a few rounds after its birth. */
static bool is_passing(const struct life *life)
{
    uint32_t last = life->freed == MP_NONE ? MP_NONE : mp_phase_turn_of(life->phases, life->freed);
    return last != MP_NONE && turn_at(life, last)->round <= turn_at(life, life->turn)->round + ROUNDS_OF_INPUT;
}

/* True if a forward pass on another thread, in the turn of the block's birth, allocates during the block's life. */
static bool lives_during_forward(const struct mp_model *model, const struct life *life, uint32_t block)
{
    const struct mp_model_events *events = &model->events;
    uint32_t born = model->blocks.alloc_event[block];
    if (turn_at(life, life->turn)->phase != MP_PHASE_FORWARD || life->freed == MP_NONE) return false;
    for (uint32_t event = born + 1; event < life->freed && event - born < MADE_MEANWHILE; event++)
        if (events->type[event] == MP_EVENT_ALLOC &&
            mp_phase_of_block(life->phases, model, events->subject[event]) == MP_PHASE_FORWARD)
            return true;
    return false;
}

/* Blocks made between phases. A block that the next forward uses is its input, unless it is of a micro-batch's loss. A
 * block made after forward that lives
 * until backward belongs to the loss. `aside`: the block is of a thread that takes no turns, so it may be made at any
 * time. */
static enum mp_category of_outside(const struct mp_model *model, const struct life *life, uint32_t block, bool aside)
{
    unsigned before = 1u << MP_PHASE_OUTSIDE | 1u << MP_PHASE_BOUNDARY | 1u << MP_PHASE_OPTIMIZER;
    if (aside) before |= 1u << MP_PHASE_BACKWARD | 1u << MP_PHASE_RECOMPUTE;
    uint32_t next = turn_beyond(life, before), after = life->turn + 1;
    if (next != MP_NONE && lives_at(life, next) && is_passing(life)) {
        unsigned phase = turn_at(life, next)->phase;
        bool of_loss = mp_stack_facts(model)->of_stack[model->blocks.stack[block]] & MP_FACT_CLASS_LOSS;
        if (phase == MP_PHASE_FORWARD) return of_loss ? MP_CATEGORY_ACTIVATIONS : MP_CATEGORY_INPUT;
        if (phase == MP_PHASE_BACKWARD || phase == MP_PHASE_RECOMPUTE) return MP_CATEGORY_ACTIVATIONS;
    }
    if (aside && is_passing(life) && lives_during_forward(model, life, block)) return MP_CATEGORY_INPUT;
    bool same = after < life->phases->turns.count ? !lives_at(life, after) : life->freed != MP_NONE;
    return same ? MP_CATEGORY_TEMPORARY : MP_CATEGORY_NONE;
}

/* The category of a block with a turn, by the log of operators. Blocks that backward makes and frees are temporary,
 * unless autograd makes them gradients. Blocks that backward reads were saved: they are activations, or input if no
 * parameter and no module had part in them. */
static enum mp_category by_log(const struct life *life, unsigned flow, enum mp_phase phase)
{
    if (!(flow & MP_FLOW_TOLD)) return MP_CATEGORY_NONE;
    if (flow & MP_FLOW_GRADIENT) return MP_CATEGORY_GRADIENTS;
    if (phase == MP_PHASE_BACKWARD)
        return if_it_lasts(life, 1u << MP_PHASE_BACKWARD | 1u << MP_PHASE_RECOMPUTE, MP_CATEGORY_NONE);
    if (phase != MP_PHASE_OUTSIDE && phase != MP_PHASE_FORWARD) return MP_CATEGORY_NONE;
    if (flow & MP_FLOW_DERIVED) return flow & MP_FLOW_SAVED ? MP_CATEGORY_ACTIVATIONS : of_forward(life);
    if (!(flow & (MP_FLOW_SAVED | MP_FLOW_READ))) return MP_CATEGORY_NONE;
    if (phase == MP_PHASE_OUTSIDE) return MP_CATEGORY_INPUT;
    return flow & MP_FLOW_SAVED ? MP_CATEGORY_ACTIVATIONS : MP_CATEGORY_NONE;
}

/* A block freed after the last allocation lived to the end. If it was just made, that is unknown. */
#define EVENTS_OF_TEMPORARY 8

/* `round`: the round of its birth; 0: unknown. */
static enum mp_category by_turns(const struct mp_categories *categories, uint32_t block, uint32_t *round)
{
    const struct mp_model *model = categories->model;
    const struct mp_phases *phases = &categories->phases;
    uint32_t born = model->blocks.alloc_event[block], freed = model->blocks.free_event[block];
    *round = 0;
    if (!phases->any || born == MP_NONE || phases->last_alloc == MP_NONE ||
        model->tracks.at[model->blocks.track[block]].layer == MP_LAYER_DRIVER)
        return MP_CATEGORY_NONE;
    struct life life = {phases, mp_phase_turn_of(phases, born), freed};
    uint32_t thread = model->events.thread[born];
    bool aside = thread < model->threads.count && !phases->works[thread];
    if (freed > phases->last_alloc && freed - born > EVENTS_OF_TEMPORARY) life.freed = MP_NONE;
    if (life.turn == MP_NONE)
        return aside && life.freed != MP_NONE && freed > turn_at(&life, 0)->first ? MP_CATEGORY_INPUT
                                                                                  : MP_CATEGORY_NONE;
    *round = turn_at(&life, life.turn)->round;
    enum mp_phase phase = mp_phase_of_block(phases, model, block);
    enum mp_category told = by_log(&life, phases->flow ? phases->flow[block] : 0, phase);
    if (told) return told;
    switch (phase) {
    case MP_PHASE_FORWARD:
    case MP_PHASE_RECOMPUTE:
        return of_forward(&life);
    case MP_PHASE_BACKWARD:
        return if_it_lasts(&life, 1u << MP_PHASE_BACKWARD | 1u << MP_PHASE_RECOMPUTE, MP_CATEGORY_GRADIENTS);
    case MP_PHASE_OPTIMIZER:
        return if_it_lasts(&life, 1u << MP_PHASE_OPTIMIZER, MP_CATEGORY_OPTIMIZER_STATE);
    default:
        return of_outside(model, &life, block, aside);
    }
}

/* True if a stack's blocks from before the first round are input. If there are few rounds, other blocks live like
 * input. So the stack must also make input in later rounds. A stack that joins its last tensor and a new one, again and
 * again, keeps what earlier calls made: such blocks are no input. */
enum feeding { FEEDING_UNASKED, FEEDING_ASKED, FEEDING_SURE, FEEDING_JOINED };

static enum mp_category by_life(const struct mp_categories *categories, uint32_t block)
{
    uint32_t round;
    enum mp_category category = by_turns(categories, block, &round);
    unsigned char feeds = categories->feeds[categories->model->blocks.stack[block]];
    if (category != MP_CATEGORY_INPUT || (round && feeds != FEEDING_JOINED)) return category;
    return feeds == FEEDING_JOINED ? MP_CATEGORY_KEPT : feeds == FEEDING_SURE ? category : MP_CATEGORY_NONE;
}

/* A stack joins its tensors if ROUNDS_OF_INPUT of them are outgrown for one that is not: when they are freed, its
 * latest is larger. Half of the batches of random sizes are outgrown. */
static void find_joined(struct mp_categories *categories)
{
    const struct mp_model *model = categories->model;
    uint32_t *latest = mp_alloc_zeroed(model->stacks.count + 1, sizeof *latest);
    int64_t *outgrown = mp_alloc_zeroed(model->stacks.count + 1, sizeof *outgrown);
    for (uint32_t event = 0; event < model->events.count; event++) {
        uint32_t block = model->events.subject[event];
        if (model->events.type[event] > MP_EVENT_FREE) continue;
        uint32_t stack = model->blocks.stack[block], *last = &latest[stack];
        if (model->events.type[event] == MP_EVENT_ALLOC) *last = block;
        if (*last != block)
            outgrown[stack] += model->blocks.bytes[*last] > model->blocks.bytes[block] ? 1 : -ROUNDS_OF_INPUT;
    }
    for (size_t i = 0; i < model->stacks.count; i++)
        if (outgrown[i] > 2 * ROUNDS_OF_INPUT && categories->facts->of_stack[i] & MP_FACT_JOINS)
            categories->feeds[i] = FEEDING_JOINED;
    free(latest);
    free(outgrown);
}

static void find_feeds(struct mp_categories *categories)
{
    const struct mp_model *model = categories->model;
    uint32_t round;
    categories->feeds = mp_alloc_zeroed(model->stacks.count + 1, 1);
    for (uint32_t block = 0; categories->phases.turns.count && block < model->blocks.count; block++) {
        unsigned char *feeds = &categories->feeds[model->blocks.stack[block]];
        if (by_turns(categories, block, &round) != MP_CATEGORY_INPUT) continue;
        *feeds = !round ? FEEDING_ASKED : *feeds ? FEEDING_SURE : FEEDING_UNASKED;
    }
}

static enum mp_category by_rule(const struct mp_categories *categories, uint32_t block, bool doubtless)
{
    size_t i = first_shown(categories->facts->inside[categories->model->blocks.stack[block]]);
    return i < SHOWN && (shown[i].doubtless || !doubtless) ? shown[i].category : MP_CATEGORY_NONE;
}

/* Blocks made by inference. They are kept if a later call's forward pass uses and frees them, or if they stay. */
static enum mp_category of_inference(const struct mp_categories *categories, uint32_t block)
{
    const struct mp_phases *phases = &categories->phases;
    const struct mp_model_blocks *blocks = &categories->model->blocks;
    uint32_t made = blocks->alloc_event[block], born = mp_phase_turn_of(phases, made);
    uint32_t freed = blocks->free_event[block];
    bool stays = freed == MP_NONE || (freed > phases->last_alloc && freed - made > EVENTS_OF_TEMPORARY);
    if (stays || categories->feeds[blocks->stack[block]] == FEEDING_JOINED) return MP_CATEGORY_KEPT;
    uint32_t gone = mp_phase_turn_of(phases, freed), calls = 0;
    for (uint32_t i = born + 1; i <= gone && calls < 2; i++)
        calls += phases->turns.at[i].phase == MP_PHASE_FORWARD;
    return calls > 1 || (calls && phases->turns.at[gone].phase == MP_PHASE_FORWARD) ? MP_CATEGORY_KEPT
                                                                                    : MP_CATEGORY_WORKING;
}

static bool is_of_inference(const struct mp_categories *categories, uint32_t block)
{
    uint32_t born = categories->model->blocks.alloc_event[block];
    uint32_t turn = born == MP_NONE ? MP_NONE : mp_phase_turn_of(&categories->phases, born);
    return turn != MP_NONE && categories->guesses.inference[turn] &&
           mp_phase_of_block(&categories->phases, categories->model, block) == MP_PHASE_FORWARD;
}

static uint32_t find_first_call(const struct mp_categories *categories)
{
    const struct mp_phases *phases = &categories->phases;
    for (uint32_t i = 0; i < phases->turns.count; i++)
        if (phases->turns.at[i].phase == MP_PHASE_FORWARD)
            return phases->turns.at[i].backward == MP_NONE && categories->guesses.inference[i] ? i : MP_NONE;
    return MP_NONE;
}

/* Blocks made between two calls, mostly from the first call's answer: tokens, scores, results. */
static bool is_between_calls(const struct mp_categories *categories, uint32_t block)
{
    const struct mp_model *model = categories->model;
    uint32_t born = model->blocks.alloc_event[block];
    if (categories->first_call == MP_NONE || born == MP_NONE) return false;
    if (model->tracks.at[model->blocks.track[block]].layer == MP_LAYER_DRIVER) return false;
    uint32_t turn = mp_phase_turn_of(&categories->phases, born);
    return turn != MP_NONE && turn > categories->first_call &&
           mp_phase_of_block(&categories->phases, model, block) == MP_PHASE_OUTSIDE;
}

/* The category by facts that are no guess. */
static enum mp_category known_category(const struct mp_categories *categories, uint32_t block, uint32_t moment)
{
    enum mp_category category = by_label(categories, block, moment);
    if (category) return category;
    enum mp_category life = by_life(categories, block);
    if (life != MP_CATEGORY_TEMPORARY) category = by_usual_label(categories, block);
    if (!category) category = by_rule(categories, block, true);
    bool passes = life == MP_CATEGORY_TEMPORARY || life == MP_CATEGORY_ACTIVATIONS;
    if (!category && passes && is_of_inference(categories, block)) return of_inference(categories, block);
    if (!category) category = life;
    bool labelled = categories->model->labels.count; /* if the program labels blocks, the doubtful rules do not apply */
    if (!category && !labelled) category = by_rule(categories, block, false);
    return !category && is_between_calls(categories, block) ? of_inference(categories, block) : category;
}

static unsigned known_at_end(const void *context, uint32_t block)
{
    const struct mp_categories *categories = context;
    return known_category(categories, block, (uint32_t)categories->model->events.count);
}

unsigned mp_category_look(const struct mp_categories *categories, uint32_t block, uint32_t moment, bool *guessed)
{
    uint16_t rule = categories->by_user ? categories->by_user[categories->model->blocks.stack[block]] : 0;
    *guessed = false;
    if (rule) return category_named(categories, rule - 1u);
    enum mp_category category = known_category(categories, block, moment);
    unsigned guess = categories->guesses.of_block[block];
    *guessed = guess && guess != category;
    if (*guessed) category = (enum mp_category)guess;
    bool keys = categories->facts->of_stack[categories->model->blocks.stack[block]] & MP_FACT_KV_CACHE;
    if (category == MP_CATEGORY_KEPT && keys) return MP_CATEGORY_KV_CACHE;
    if (category == MP_CATEGORY_ACTIVATIONS &&
        mp_guesses_is_previous(&categories->guesses, categories->model, &categories->phases, block, moment)) {
        *guessed = true;
        return MP_CATEGORY_PREVIOUS;
    }
    return category;
}

unsigned mp_category_of(const struct mp_categories *categories, uint32_t block, uint32_t moment)
{
    bool guessed;
    return mp_category_look(categories, block, moment, &guessed);
}

const char *mp_category_of_block(const void *context, uint32_t block)
{
    const struct mp_categories *categories = context;
    uint32_t end = (uint32_t)categories->model->events.count;
    const char *name = mp_category_name(categories, mp_category_of(categories, block, end));
    return name ? name : "";
}

struct mp_categories *mp_categories_make(const struct mp_model *model, const struct mp_rules *rules)
{
    struct mp_categories *made = mp_alloc_zeroed(1, sizeof *made);
    made->model = model;
    made->user = rules;
    made->facts = mp_stack_facts(model);
    made->first_call = MP_NONE; /* not known yet while guesses are made */
    mp_phases_find(model, &made->phases);
    count_labels(made);
    find_feeds(made);
    find_joined(made);
    mp_guesses_find(model, &made->phases, known_at_end, made, &made->guesses);
    made->first_call = find_first_call(made);
    if (rules && rules->rules.count) made->by_user = match_stacks(model, rules);
    return made;
}

void mp_categories_free(struct mp_categories *categories)
{
    if (!categories) return;
    mp_phases_free(&categories->phases);
    mp_guesses_free(&categories->guesses);
    mp_intern_free(&categories->keys);
    mp_vec_free(&categories->usual);
    free(categories->feeds);
    free(categories->by_user);
    free(categories);
}
