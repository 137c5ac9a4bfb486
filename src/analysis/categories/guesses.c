#include "analysis/categories/guesses.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/categories/categories.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/search.h"

#define GRAPH_LEAST 8  /* blocks of a graph, or blocks freed together with one */
#define SMALL_LEAST 32 /* blocks of small passes, where nothing was trained: fewer show nothing */
#define GRAPH_PART                                                                                                     \
    4                    /* where there is a graph, at least one in so many of the blocks that a forward pass makes is \
                          * kept */
#define STEADY (1 << 16) /* bytes: recurring sizes from here on belong to layers, whatever uses them */
#define SMALL_CUBLAS                                                                                                   \
    8519680u /* bytes of the cuBLAS workspaces that PyTorch makes, before Hopper and from Hopper on                    \
              */
#define LARGE_CUBLAS 33554432u

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
    unsigned char *known;  /* by block: enum mp_category */
    unsigned char *zeroes; /* by stack: optimizer.zero_grad() or like it */
    uint32_t *line;        /* by stack: mp_guesses_line() */
    uint32_t *successor;   /* by block: find_successors() */
    bool stays;            /* find_staying() */
    bool trains, infers;   /* some turn is backward; some is inference */
    struct sizes vectors;  /* list_vectors() */
};

uint32_t mp_guesses_line(const struct mp_model *model, uint32_t stack)
{
    uint32_t innermost = MP_NONE;
    for (uint32_t node = stack; node; node = model->stacks.at[node].parent) {
        uint32_t frame = model->stacks.at[node].frame;
        if (frame == MP_FRAME_CUT) continue;
        if (innermost == MP_NONE) innermost = frame;
        if (model->frames.at[frame].raw.language == MP_PYTHON) return frame;
    }
    return innermost;
}

static bool is_zeroing(const struct mp_model *model, uint32_t frame)
{
    const struct mp_model_frame *at = &model->frames.at[frame];
    for (uint32_t i = 0; i < at->line_count; i++) {
        const char *name = mp_model_text(model, model->lines.at[at->first_line + i].function);
        const char *last = strrchr(name, '.');
        if (!strcmp(last ? last + 1 : name, "zero_grad")) return true;
    }
    return false;
}

/* A parent stands before its children. */
static void look_at_stacks(struct finder *f)
{
    const struct mp_model *model = f->model;
    unsigned char *zeroing = mp_alloc_zeroed(model->frames.count + 1, 1);
    f->zeroes = mp_alloc_zeroed(model->stacks.count + 1, 1);
    f->line = mp_alloc((model->stacks.count + 1) * sizeof *f->line);
    f->line[0] = MP_NONE;
    for (uint32_t i = 0; i < model->frames.count; i++)
        zeroing[i] = is_zeroing(model, i);
    for (uint32_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        bool frame = node->frame != MP_FRAME_CUT;
        bool python = frame && model->frames.at[node->frame].raw.language == MP_PYTHON;
        uint32_t outer = f->line[node->parent];
        bool outer_python = outer != MP_NONE && model->frames.at[outer].raw.language == MP_PYTHON;
        f->line[i] = python || (frame && !outer_python) ? node->frame : outer;
        f->zeroes[i] = f->zeroes[node->parent] || (frame && zeroing[node->frame]);
    }
    free(zeroing);
}

static bool is_of_torch(const struct finder *f, uint32_t block)
{
    return f->model->tracks.at[f->model->blocks.track[block]].layer == MP_LAYER_TORCH;
}

static bool was_before(const struct finder *f, uint32_t block)
{
    return f->model->blocks.alloc_event[block] == MP_NONE;
}

/* A block freed after all allocations goes as the program ends. For blocks from before the recording this holds only
 * where all of them go. */
static bool lives_to_the_end(const struct finder *f, uint32_t block)
{
    uint32_t freed = f->model->blocks.free_event[block], last = f->phases->last_alloc;
    return freed == MP_NONE || (last != MP_NONE && freed > last && !(f->stays && was_before(f, block)));
}

/* Whether some block from before the recording is there at the end. */
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

static int by_size(const void *left, const void *right)
{
    const struct size_count *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return a->round < b->round ? -1 : a->round > b->round;
}

static void add_size(struct sizes *sizes, uint64_t bytes, uint32_t round)
{
    struct size_count one = {bytes, round, 1};
    if (bytes != MP_BYTES_UNKNOWN) mp_vec_add(sizes, one);
}

/* Keeps for each size the most that one round has; sorted. */
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
    size_t low = 0, high = sizes->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sizes->at[middle].bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizes->count && sizes->at[low].bytes == bytes ? &sizes->at[low] : NULL;
}

static uint64_t bytes_of(const struct sizes *sizes)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizes->count; i++)
        bytes += sizes->at[i].bytes * sizes->at[i].count;
    return bytes;
}

/* ---- inference */

/* The blocks that a turn of forward makes, and how many of them are there when they could be needed. */
struct keeping {
    uint32_t made, kept; /* kept: without results */
    uint32_t consumed;   /* freed in backward */
};

/* A thread's forward pass. */
struct pass {
    uint32_t stack, block; /* its first stack, its last block; 0, MP_NONE: it is in none */
};

static void end_pass(struct pass *pass, unsigned char *results)
{
    if (pass->stack) results[pass->block] = true;
    *pass = (struct pass){0, MP_NONE};
}

/* By block: a pass's last one, its result, which the program may keep whether there is a graph or not. A pass of a
 * thread ends where the thread does something else, or the pass's first code runs again. */
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

/* Whether backward follows before another forward. */
static bool leads_to_backward(const struct mp_phases *phases, size_t turn)
{
    for (size_t i = turn + 1; i < phases->turns.count && phases->turns.at[i].phase != MP_PHASE_FORWARD; i++)
        if (mp_phase_is_backward(phases->turns.at[i].phase)) return true;
    return false;
}

/* What all turns show. */
struct showing {
    bool recomputes;
    bool enough; /* that a turn of few blocks shows something: backward, from which it differs, or many of them */
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

/* For each turn of forward: the event at which a graph that it made is still whole. */
static uint32_t next_use(const struct mp_phases *phases, size_t turn)
{
    const struct mp_phase_turn *at = &phases->turns.at[turn];
    if (at->backward != MP_NONE) return phases->turns.at[at->backward].first;
    for (size_t i = turn + 1; i < phases->turns.count; i++)
        if (phases->turns.at[i].phase == MP_PHASE_FORWARD) return phases->turns.at[i].first;
    return MP_NONE;
}

/* Whether the program says by a region that it trains, though no frame shows it. */
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
    bool before = false; /* a turn of one block counts as the one before it */
    size_t turns = 0, infer = 0;
    for (size_t i = 0; i < count; i++) {
        if (phases->turns.at[i].phase != MP_PHASE_FORWARD) continue;
        f->guesses->inference[i] = is_inference(phases, i, &keeping[i], &all, before);
        before = f->guesses->inference[i];
        infer += before;
        turns++;
    }
    f->infers = infer;
    /* In a turn of a server other threads are amid a call, whose blocks live like a graph's: on a busy machine in nearly
     * half of its turns. */
    size_t needed = several ? turns / 2 : turns - turns / 4;
    bool served = !f->trains && infer >= SMALL_LEAST && infer >= needed;
    for (size_t i = 0; served && i < count; i++)
        f->guesses->inference[i] = phases->turns.at[i].phase == MP_PHASE_FORWARD;
    free(results);
    free(keeping);
}

/* ---- graphs that are kept beyond the next one */

static bool belongs_to_graph(const struct finder *f, uint32_t block, uint32_t *turn)
{
    const struct mp_model *model = f->model;
    uint32_t born = model->blocks.alloc_event[block];
    if (born == MP_NONE || !is_of_torch(f, block) || mp_phase_of_block(f->phases, model, block) != MP_PHASE_FORWARD)
        return false;
    *turn = mp_phase_turn_of(f->phases, born);
    return *turn != MP_NONE && !f->guesses->inference[*turn];
}

/* A pass begins when the first code of the previous pass runs again in a later turn. */
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

/* The event that begins the following pass; MP_NONE: there is none. */
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

/* ---- blocks that an optimizer's step replaces */

/* By block freed in an optimizer's step: the last block of its size that the same turn made, which has replaced it;
 * MP_NONE. */
static uint32_t *find_successors(const struct finder *f)
{
    const struct mp_model *model = f->model;
    uint32_t *successor = mp_alloc((model->blocks.count + 1) * sizeof *successor);
    struct mp_map latest = {0}; /* size to block + 1 */
    bool fresh;
    for (size_t i = 0; i <= model->blocks.count; i++)
        successor[i] = MP_NONE;
    for (uint32_t event = 0; f->phases->any && event < model->events.count; event++) {
        uint32_t block = model->events.subject[event];
        bool born = model->events.type[event] == MP_EVENT_ALLOC, freed = model->events.type[event] == MP_EVENT_FREE;
        if ((!born && !freed) || !is_of_torch(f, block) || model->blocks.bytes[block] == MP_BYTES_UNKNOWN) continue;
        if (born && mp_phase_of_block(f->phases, model, block) == MP_PHASE_OPTIMIZER)
            *mp_map_at(&latest, model->blocks.bytes[block] + 1, &fresh) = block + 1;
        uint64_t *last = freed ? mp_map_find(&latest, model->blocks.bytes[block] + 1) : NULL;
        if (!last || !*last || *last - 1 == block || f->zeroes[mp_model_freed_at(model, block)]) continue;
        uint32_t other = (uint32_t)(*last - 1), end = model->blocks.free_event[other];
        bool same = mp_phase_turn_of(f->phases, event) == mp_phase_turn_of(f->phases, model->blocks.alloc_event[other]);
        if (same && (end == MP_NONE || end > event)) successor[block] = other;
    }
    mp_map_free(&latest);
    return successor;
}

#define HOPS 4 /* lines of one step, each of which replaces the result of the one before */

/* The line that made the block's replacement at the end of the step; MP_NONE. */
static uint32_t replaced_at(const struct finder *f, uint32_t block)
{
    for (int i = 0; i < HOPS; i++) {
        block = f->successor[block];
        if (block == MP_NONE) return MP_NONE;
        if (f->known[block] == MP_CATEGORY_OPTIMIZER_STATE) return f->line[f->model->blocks.stack[block]];
    }
    return MP_NONE;
}

/* A line of the optimizer's step: the last block it makes that lives on, and the earlier block that this one
 * replaces. */
struct replacing {
    uint32_t line, last;
    uint64_t bytes;
};
struct replacings {
    struct replacing *at;
    size_t count, room;
};

static struct replacing *replacing_at(struct replacings *lines, uint32_t line)
{
    for (size_t i = 0; i < lines->count; i++)
        if (lines->at[i].line == line) return &lines->at[i];
    struct replacing fresh = {line, 0, 0};
    mp_vec_add(lines, fresh);
    return &lines->at[lines->count - 1];
}

/* Where nobody holds one more copy than the lines replace, the last line sets the parameters: their update needs the
 * states'. */
static void set_by_order(struct finder *f, const struct replacings *lines)
{
    uint64_t most = 0;
    const struct replacing *last = NULL;
    for (size_t k = 0; k < lines->count; k++)
        if (lines->at[k].bytes > most) most = lines->at[k].bytes;
    for (size_t k = 0; k < lines->count; k++)
        if (lines->at[k].bytes >= most / 2 && (!last || lines->at[k].last > last->last)) last = &lines->at[k];
    if (last && most) f->guesses->sets_parameter[last->line] = true;
}

/* Finds the lines that set parameters: those that replace a known parameter; else by their order. `held`: parameters
 * live elsewhere. */
static void find_setters(struct finder *f, bool held)
{
    const struct mp_model *model = f->model;
    struct replacings lines = {0};
    bool any = false;
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        uint32_t line = replaced_at(f, i);
        if (line == MP_NONE) continue;
        bool set = f->known[i] == MP_CATEGORY_PARAMETERS;
        f->guesses->sets_parameter[line] |= set;
        any |= set;
        if (was_before(f, i)) replacing_at(&lines, line)->bytes += model->blocks.bytes[i];
    }
    for (uint32_t i = 0; lines.count && i < model->blocks.count; i++)
        for (size_t k = 0; f->known[i] == MP_CATEGORY_OPTIMIZER_STATE && !was_before(f, i) && k < lines.count; k++)
            if (lines.at[k].line == f->line[model->blocks.stack[i]]) lines.at[k].last = model->blocks.alloc_event[i];
    if (!any && !held) set_by_order(f, &lines);
    mp_vec_free(&lines);
}

/* ---- freed blocks */

/* By line: bytes of blocks of each category that are freed there. */
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

/* By block: how many are freed in a row from its stack on, with nothing made in between. */
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
    uint32_t stack = mp_model_freed_at(f->model, block), line = f->line[stack], sets = replaced_at(f, block);
    if (f->zeroes[stack]) return MP_CATEGORY_GRADIENTS;
    switch (phase_of_free(f, block)) {
    case MP_PHASE_BACKWARD:
    case MP_PHASE_RECOMPUTE:
        return MP_CATEGORY_ACTIVATIONS;
    case MP_PHASE_OPTIMIZER:
        return sets != MP_NONE && f->guesses->sets_parameter[sets] ? MP_CATEGORY_PARAMETERS
                                                                   : MP_CATEGORY_OPTIMIZER_STATE;
    default:
        break;
    }
    unsigned vote = line == MP_NONE ? MP_CATEGORY_NONE : winner(&votes[line]);
    if (together < GRAPH_LEAST) {
        bool passes = vote == MP_CATEGORY_INPUT || vote == MP_CATEGORY_KEPT || vote == MP_CATEGORY_GRADIENTS ||
                      vote == MP_CATEGORY_TEMPORARY || vote == MP_CATEGORY_ACTIVATIONS || vote == MP_CATEGORY_WORKING;
        return passes ? vote : MP_CATEGORY_NONE;
    }
    bool graphs = f->guesses->passes.count || f->trains;
    return vote == MP_CATEGORY_KEPT || (f->infers && !graphs) ? MP_CATEGORY_KEPT : MP_CATEGORY_PREVIOUS;
}

/* ---- blocks that live on */

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

/* Counts one for each trained parameter: its gradient; or, where existing gradients are added to, the block that
 * backward makes to add. */
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

#define COPIES_MOST 6 /* of a parameter's size: itself, its gradient, the optimizer's state */

/* Where gradients are counted by the blocks that backward makes to add, the count is too high, since gradients of
 * activations may have the same size: the number of copies of each parameter follows from the other sizes. */
static void correct(struct sizes *gradients, const struct sizes *there)
{
    uint64_t votes[COPIES_MOST + 1] = {0};
    unsigned best = 0;
    for (size_t i = 0; i < there->count; i++) {
        const struct size_count *at = &there->at[i], *made = find_size(gradients, at->bytes);
        uint32_t copies = made && at->count % made->count == 0 ? at->count / made->count : 0;
        if (copies && copies <= COPIES_MOST) votes[copies] += at->bytes * at->count;
    }
    for (unsigned i = 1; i <= COPIES_MOST; i++)
        if (votes[i] > votes[best]) best = i;
    for (size_t i = 0; best && i < there->count; i++) {
        struct size_count *made = find_size(gradients, there->at[i].bytes);
        if (made && there->at[i].count % best == 0) made->count = there->at[i].count / best;
    }
}

/* Whether a good part of the blocks that live on has sizes that occur several times. */
static bool is_of_layers(const struct sizes *there)
{
    uint64_t again = 0;
    for (size_t i = 0; i < there->count; i++)
        if (there->at[i].count > 1 && there->at[i].bytes >= STEADY) again += there->at[i].bytes * there->at[i].count;
    return again && again >= bytes_of(there) / 4;
}

static unsigned of_workspace(const struct sizes *there, const struct sizes *gradients, uint64_t bytes)
{
    const struct size_count *at = find_size(there, bytes);
    bool few = at && at->count <= 2 && !find_size(gradients, bytes);
    return few && (bytes == SMALL_CUBLAS || bytes == LARGE_CUBLAS) ? MP_CATEGORY_WORKSPACE : MP_CATEGORY_NONE;
}

/* The number of tensors of a parameter's size that PyTorch's optimizers keep for it, in their usual configuration. */
static const struct {
    const char *file;
    uint32_t states;
} optimizers[] = {
    {"adadelta.py", 2}, {"adagrad.py", 1}, {"adam.py", 2},  {"adamax.py", 2}, {"adamw.py", 2},   {"asgd.py", 1},
    {"nadam.py", 2},    {"radam.py", 2},   {"rprop.py", 2}, {"sgd.py", 1},    {"rmsprop.py", 1},
};

static bool is_of_optimizers(const char *file)
{
    static const char *const shared[] = {"optimizer.py", "lr_scheduler.py", "swa_utils.py", "_functional.py"};
    const char *name = strrchr(file, '/');
    for (size_t i = 0; name && i < sizeof shared / sizeof *shared; i++)
        if (!strcmp(name + 1, shared[i])) return false;
    return name && name - file >= 11 && !memcmp(name - 11, "torch/optim", 11);
}

/* The most that the optimizers named in the stacks keep for a parameter; UINT32_MAX: any number. Further copies are a
 * model beside the trained one: its average, an earlier state of it. */
static uint32_t find_states(const struct mp_model *model)
{
    uint32_t most = 0;
    for (size_t i = 0; i < model->frames.count; i++) {
        const struct mp_model_frame *frame = &model->frames.at[i];
        const char *file = frame->line_count ? mp_model_text(model, model->lines.at[frame->first_line].file) : "";
        if (frame->raw.language != MP_PYTHON || !is_of_optimizers(file)) continue;
        uint32_t states = UINT32_MAX;
        for (size_t k = 0; k < sizeof optimizers / sizeof *optimizers; k++)
            if (!strcmp(strrchr(file, '/') + 1, optimizers[k].file)) states = optimizers[k].states;
        if (states > most) most = states;
    }
    return most ? most : UINT32_MAX;
}

/* The Nth block of its size, from 0, where so many parameters have it: parameters first. `states`: of each; 0: nothing
 * is trained. */
static unsigned of_copy(uint32_t nth, uint32_t parameters, bool with_gradients, uint32_t states)
{
    uint32_t copy = parameters ? nth / parameters : 0;
    if (!copy) return MP_CATEGORY_PARAMETERS;
    if (with_gradients && copy == 1) return MP_CATEGORY_GRADIENTS;
    return copy - with_gradients <= states ? MP_CATEGORY_OPTIMIZER_STATE : MP_CATEGORY_PARAMETERS;
}

/* Lists sizes that the steps of optimizers make and no gradient has: of all parameters together, as LBFGS keeps
 * them. */
static void list_vectors(struct finder *f, const struct sizes *gradients)
{
    for (uint32_t i = 0; i < f->model->blocks.count; i++) {
        uint64_t bytes = f->model->blocks.bytes[i];
        if (!was_before(f, i) && is_of_torch(f, i) && bytes >= STEADY && !find_size(gradients, bytes) &&
            mp_phase_of_block(f->phases, f->model, i) == MP_PHASE_OPTIMIZER)
            add_size(&f->vectors, bytes, 0);
    }
    sum_up(&f->vectors);
}

static void guess_lasting(struct finder *f)
{
    const struct mp_model *model = f->model;
    struct sizes there = {0}, gradients = {0}, seen = {0};
    bool kept = false, steps = false, any = false;
    for (size_t i = 0; i < f->phases->turns.count; i++)
        steps |= f->phases->turns.at[i].phase == MP_PHASE_OPTIMIZER;
    for (uint32_t i = 0; i < model->blocks.count; i++)
        if (is_lasting(f, i)) add_size(&there, model->blocks.bytes[i], 0);
    sum_up(&there);
    count_gradients(f, &gradients, &kept);
    if (kept) correct(&gradients, &there);
    uint64_t matched = 0;
    for (size_t i = 0; i < there.count; i++) {
        const struct size_count *one = find_size(&gradients, there.at[i].bytes);
        if (one) matched += there.at[i].bytes * there.at[i].count;
        mp_vec_add(&seen, ((struct size_count){there.at[i].bytes, 0, 0}));
    }
    find_setters(f, matched && matched >= bytes_of(&gradients) / 2);
    any = f->phases->any || is_of_layers(&there);
    list_vectors(f, &gradients);
    uint32_t states = steps ? find_states(model) : 0;
    for (uint32_t i = 0; any && i < model->blocks.count; i++) {
        if (!is_lasting(f, i)) continue;
        uint64_t bytes = model->blocks.bytes[i];
        const struct size_count *one = find_size(&gradients, bytes);
        unsigned guess = of_workspace(&there, &gradients, bytes);
        uint32_t nth = find_size(&seen, bytes)->count++;
        if (!guess && find_size(&f->vectors, bytes)) guess = MP_CATEGORY_OPTIMIZER_STATE;
        if (!guess) guess = of_copy(nth, one ? one->count : 0, kept, states);
        f->guesses->of_block[i] = (unsigned char)guess;
    }
    mp_vec_free(&there);
    mp_vec_free(&gradients);
    mp_vec_free(&seen);
}

/* ---- older blocks with a stack, and freed blocks */

static unsigned of_stack(const struct finder *f, uint32_t block)
{
    switch (f->phases->of_stack[f->model->blocks.stack[block]]) {
    case MP_PHASE_FORWARD:
    case MP_PHASE_RECOMPUTE:
        return f->trains ? MP_CATEGORY_ACTIVATIONS : MP_CATEGORY_KEPT;
    case MP_PHASE_BACKWARD:
        return MP_CATEGORY_GRADIENTS;
    case MP_PHASE_OPTIMIZER:
        return MP_CATEGORY_OPTIMIZER_STATE;
    default:
        return MP_CATEGORY_NONE;
    }
}

static unsigned of_rest(const struct finder *f, uint32_t block, const struct votes *votes, uint32_t together)
{
    unsigned guess = f->model->blocks.stack[block] ? of_stack(f, block) : MP_CATEGORY_NONE;
    if (!guess && find_size(&f->vectors, f->model->blocks.bytes[block])) return MP_CATEGORY_OPTIMIZER_STATE;
    return guess || lives_to_the_end(f, block) ? guess : of_freed(f, block, votes, together);
}

/* Recorded blocks that fit no rule: those that a step puts in the parameters' places; cuBLAS's workspace, which no line
 * of Python requests; those freed together with a graph, such as a loss's own. */
static unsigned of_made(const struct finder *f, uint32_t block, const struct votes *votes, uint32_t together)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    uint32_t line = f->line[blocks->stack[block]], freed = f->line[mp_model_freed_at(f->model, block)];
    if (f->known[block] == MP_CATEGORY_OPTIMIZER_STATE)
        return line != MP_NONE && f->guesses->sets_parameter[line] ? MP_CATEGORY_PARAMETERS : MP_CATEGORY_NONE;
    bool only_infers = f->infers && !f->trains && !f->guesses->passes.count;
    if (only_infers && !f->known[block] && together >= GRAPH_LEAST) return MP_CATEGORY_KEPT;
    if (blocks->bytes[block] == SMALL_CUBLAS && lives_to_the_end(f, block)) return MP_CATEGORY_WORKSPACE;
    bool outside = !f->known[block] || f->known[block] == MP_CATEGORY_INPUT;
    bool goes = outside && together >= GRAPH_LEAST && freed != MP_NONE;
    return goes && winner(&votes[freed]) == MP_CATEGORY_ACTIVATIONS ? MP_CATEGORY_ACTIVATIONS : MP_CATEGORY_NONE;
}

static void guess_rest(struct finder *f)
{
    const struct mp_model *model = f->model;
    struct votes *votes = count_votes(f);
    uint32_t *together = count_together(f);
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        unsigned char *guess = &f->guesses->of_block[i];
        if (*guess) continue;
        if (is_unknown(f, i))
            *guess = (unsigned char)of_rest(f, i, votes, together[i]);
        else if (!was_before(f, i) && is_of_torch(f, i) && !model->labels.count)
            *guess = (unsigned char)of_made(f, i, votes, together[i]);
    }
    free(together);
    free(votes);
}

void mp_guesses_find(const struct mp_model *model, const struct mp_phases *phases,
                     unsigned (*known)(const void *context, uint32_t block), const void *context,
                     struct mp_guesses *guesses)
{
    struct finder f = {.model = model, .phases = phases, .guesses = guesses};
    *guesses = (struct mp_guesses){.of_block = mp_alloc_zeroed(model->blocks.count + 1, 1),
                                   .sets_parameter = mp_alloc_zeroed(model->frames.count + 1, 1)};
    f.known = mp_alloc_zeroed(model->blocks.count + 1, 1);
    f.stays = find_staying(&f);
    look_at_stacks(&f);
    find_inference(&f);
    find_previous(&f);
    for (uint32_t i = 0; i < model->blocks.count; i++)
        f.known[i] = (unsigned char)known(context, i);
    f.successor = find_successors(&f);
    guess_lasting(&f);
    guess_rest(&f);
    free(f.known);
    free(f.zeroes);
    free(f.line);
    free(f.successor);
    mp_vec_free(&f.vectors);
}

void mp_guesses_free(struct mp_guesses *guesses)
{
    free(guesses->of_block);
    free(guesses->inference);
    mp_vec_free(&guesses->passes);
    free(guesses->sets_parameter);
}
