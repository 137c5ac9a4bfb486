#include "analysis/categories/guesses.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/categories/categories.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "model/stack_facts.h"

#define GRAPH_LEAST 8         /* fewest blocks of a graph, or freed together with one */
#define SMALL_LEAST 32        /* fewest blocks of small passes if nothing was trained */
#define GRAPH_PART  4         /* with a graph, a forward pass keeps at least 1/GRAPH_PART of its blocks */
#define STEADY      (1 << 16) /* bytes: blocks of recurring sizes this large belong to layers, not to other code */
/* Bytes of PyTorch's cuBLAS workspaces, before Hopper and from Hopper on. They are a large part of small programs, and
 * without native stacks nothing else shows them. */
#define SMALL_CUBLAS 8519680u
#define LARGE_CUBLAS 33554432u
#define MOST_CUBLAS  2 /* blocks of one size: more are parameters */

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
    bool stays;          /* find_staying() */
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

/* True if the block is freed after all allocations, as the program ends. Blocks from before the recording count only if
 * all of them are freed then. */
static bool lives_to_the_end(const struct finder *f, uint32_t block)
{
    uint32_t freed = f->model->blocks.free_event[block], last = f->phases->last_alloc;
    return freed == MP_NONE || (last != MP_NONE && freed > last && !(f->stays && was_before(f, block)));
}

/* True if a block from before the recording lives at the end. */
static bool find_staying(const struct finder *f)
{
    for (uint32_t i = 0; i < f->model->blocks.count; i++)
        if (was_before(f, i) && is_of_torch(f, i) && f->model->blocks.free_event[i] == MP_NONE &&
            f->model->blocks.bytes[i] >= STEADY)
            return true;
    return false;
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

/* By line: bytes of the blocks freed there, by category. */
struct votes {
    uint64_t bytes[MP_CATEGORIES];
};

static unsigned winner(const struct votes *votes)
{
    unsigned best = MP_CATEGORY_NONE;
    for (unsigned i = 1; i < MP_CATEGORIES; i++)
        if (votes->bytes[i] > (best ? votes->bytes[best] : 0)) best = i;
    return best;
}

static struct votes *count_votes(const struct finder *f)
{
    const struct mp_model *model = f->model;
    struct votes *votes = mp_alloc_zeroed(model->frames.count + 1, sizeof *votes);
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        uint32_t stack = mp_model_freed_at(model, i), line = f->line[stack];
        if (was_before(f, i) || line == MP_NONE || !f->known[i]) continue;
        votes[line].bytes[f->known[i]] += model->blocks.bytes[i];
    }
    return votes;
}

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

static unsigned of_freed(const struct finder *f, uint32_t block, const struct votes *votes, uint32_t together)
{
    uint32_t stack = mp_model_freed_at(f->model, block), line = f->line[stack];
    if (f->facts->of_stack[stack] & MP_FACT_ZEROES) return MP_CATEGORY_GRADIENTS;
    enum mp_phase phase = phase_of_free(f, block);
    if (mp_phase_is_backward(phase)) return MP_CATEGORY_ACTIVATIONS;
    if (phase == MP_PHASE_OPTIMIZER) return MP_CATEGORY_OPTIMIZER_STATE;
    unsigned vote = line == MP_NONE ? MP_CATEGORY_NONE : winner(&votes[line]);
    if (together < GRAPH_LEAST) {
        bool passes = vote == MP_CATEGORY_INPUT || vote == MP_CATEGORY_KEPT || vote == MP_CATEGORY_GRADIENTS ||
                      vote == MP_CATEGORY_TEMPORARY || vote == MP_CATEGORY_ACTIVATIONS || vote == MP_CATEGORY_WORKING;
        return passes ? vote : MP_CATEGORY_NONE;
    }
    bool graphs = f->guesses->passes.count || f->trains;
    return vote == MP_CATEGORY_KEPT || (f->infers && !graphs) ? MP_CATEGORY_KEPT : MP_CATEGORY_PREVIOUS;
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
    struct mp_map there = {0}, seen = {0}; /* by size + 1: the number of blocks */
    bool kept = false, steps = false;
    for (size_t i = 0; i < f->phases->turns.count; i++)
        steps |= f->phases->turns.at[i].phase == MP_PHASE_OPTIMIZER;
    count_gradients(f, &gradients, &kept);
    for (uint32_t i = 0; i < model->blocks.count; i++)
        if (is_lasting(f, i)) ++*mp_map_at(&there, model->blocks.bytes[i] + 1, NULL);
    for (uint32_t i = 0; f->phases->any && i < model->blocks.count; i++) {
        uint64_t bytes = model->blocks.bytes[i];
        const struct size_count *one = find_size(&gradients, bytes);
        if (!is_lasting(f, i)) continue;
        uint32_t nth = (uint32_t)(*mp_map_at(&seen, bytes + 1, NULL))++;
        bool workspace =
            (bytes == SMALL_CUBLAS || bytes == LARGE_CUBLAS) && !one && *mp_map_find(&there, bytes + 1) <= MOST_CUBLAS;
        f->guesses->of_block[i] =
            (unsigned char)(workspace ? MP_CATEGORY_WORKSPACE : of_copy(nth, one ? one->count : 0, kept, steps));
    }
    guess_constructed(f, &gradients);
    mp_vec_free(&gradients);
    mp_map_free(&there);
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

static unsigned of_rest(const struct finder *f, uint32_t block, const struct votes *votes, uint32_t together)
{
    unsigned guess = f->model->blocks.stack[block] ? of_stack(f, block) : MP_CATEGORY_NONE;
    return guess || lives_to_the_end(f, block) ? guess : of_freed(f, block, votes, together);
}

static void guess_rest(struct finder *f)
{
    const struct mp_model *model = f->model;
    struct votes *votes = count_votes(f);
    uint32_t *together = count_together(f);
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        unsigned char *guess = &f->guesses->of_block[i];
        if (!*guess && is_unknown(f, i)) *guess = (unsigned char)of_rest(f, i, votes, together[i]);
        bool recorded = !was_before(f, i) && is_of_torch(f, i) && !model->labels.count;
        if (recorded && model->blocks.bytes[i] == SMALL_CUBLAS && lives_to_the_end(f, i))
            *guess = MP_CATEGORY_WORKSPACE;
    }
    free(together);
    free(votes);
}

void mp_guesses_find(const struct mp_model *model, const struct mp_phases *phases,
                     unsigned (*known)(const void *context, uint32_t block), const void *context,
                     struct mp_guesses *guesses)
{
    struct finder f = {.model = model, .phases = phases, .guesses = guesses};
    *guesses = (struct mp_guesses){.of_block = mp_alloc_zeroed(model->blocks.count + 1, 1)};
    f.known = mp_alloc_zeroed(model->blocks.count + 1, 1);
    f.stays = find_staying(&f);
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
