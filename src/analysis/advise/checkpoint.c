#include "analysis/advise/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/advise/module_calls.h"
#include "analysis/advise/operators.h"
#include "analysis/categories/phases.h"
#include "analysis/device/plan.h"
#include "base/intern.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "model/module_path.h"
#include "model/stack_facts.h"
#include "model/track.h"

/* An allocation in a call of a module: an act. */
struct mp_act {
    uint32_t event, block, module;
    uint8_t phase;
};

static const struct mp_operator_of *operator_that_made(const struct mp_model *model, const struct mp_operators *operators,
                                                const struct mp_act *act)
{
    return &operators->of_stack[model->blocks.stack[act->block]];
}

/* True if two neighbouring acts are from one call of an operator. */
static bool same_operator(const struct mp_model *model, const struct mp_operators *operators, const struct mp_act *a,
                          const struct mp_act *b)
{
    const struct mp_operator_of *x = operator_that_made(model, operators, a), *y = operator_that_made(model, operators, b);
    return x->call && x->call == y->call && model->blocks.stack[a->block] != model->blocks.stack[b->block];
}

/* The number of acts of a call before the last tensor is saved; all acts if operator and `node` do not agree. `node`:
 * the node of backward that reads this tensor. */
static size_t remade_until(const struct mp_model *model, const struct mp_operators *operators, const struct mp_act *acts,
                       size_t count, unsigned node)
{
    for (size_t end = count, first; end; end = first) {
        unsigned number = operator_that_made(model, operators, &acts[end - 1])->number;
        enum mp_operator_saves saves = mp_operator_saves(number);
        for (first = end - 1; first && same_operator(model, operators, &acts[first - 1], &acts[first]);)
            first--;
        if (saves == MP_SAVES_NOTHING) continue;
        if (!mp_operators_match(number, node)) break;
        return saves == MP_SAVES_INPUTS ? first : end;
    }
    return count;
}

/*
 * A call of a module is a run of allocations by it and the modules within it. Without checkpointing, backward frees
 * some of its blocks. With it, these blocks live only to the end of the call. Just before the first allocation of the
 * call's backward, the call runs again and makes all its blocks in the same order. Backward frees the new blocks where
 * it freed the old ones. The call's output stays. It is the block that outlives the call and is freed before the call's
 * backward, else the call's last block.
 *
 * PyTorch 2.1 and newer stop the second run at the last tensor that is saved for backward. The stop comes before an
 * operator that saves only its inputs, and after one that saves results. The names of operators tell which tensor that
 * is. The first node of backward that reads a saved tensor must agree with them. If it does not, we assume that the
 * whole call runs again, which saves less.
 */
/* Limits of a module's path: bytes, and modules. No network reaches them. The search takes time quadratic in both. */
#define PATH_MOST     4096
#define PARTS_MOST    100
#define KINDS_MOST    100
#define SHAPED_MOST   16 /* allocations that give a node's gradients their shape */
#define IN_SEQUENTIAL ((uint64_t)1 << 63)
#define RNG_BYTES     5056 /* the CPU generator's state: each call saves it, and once more when it runs again */

struct call {
    uint32_t module;     /* index of its kind */
    size_t first, count; /* acts */
    uint32_t begin, end; /* events: the call's first allocation; the first allocation after the call */
    uint32_t back, over; /* first allocation of its backward; last free in its backward */
    uint32_t stop;       /* its backward is over before this event */
    uint32_t turn;       /* turn of its backward */
    uint32_t again;      /* event of the recomputation: just before the first allocation of backward that reads saved
                          * tensors */
    size_t remade;       /* number of acts that run again, from the first on */
};
struct kind {
    uint32_t pattern;
    size_t modules;
    MP_VEC(struct call) calls;
    uint64_t *times;  /* by module, in ns or bytes, over all its calls in forward */
    uint64_t forward; /* ns, or bytes, of all forward turns; 0: not known */
};

struct mp_checkpoints {
    const struct mp_model *model;
    const struct mp_torch_history *history;
    const struct mp_stack_facts *facts;
    bool keeps_rng;
    uint64_t *work; /* by event: find_work(); NULL: times count */
    bool planned;
    size_t root; /* length of the path of the network itself */
    struct mp_phases phases;
    struct mp_intern texts; /* patterns and paths */
    MP_VEC(struct mp_act) acts;
    MP_VEC(uint32_t) paths;   /* string ids of modules that allocate in forward */
    MP_VEC(uint32_t) others;  /* modules that allocate in backward; those that work in place in forward are only here */
    struct mp_map called;     /* texts + 1 of the called modules */
    struct mp_map parameters; /* by parameter_key(): number of parameters */
    struct mp_operators operators;
    MP_VEC(struct kind) kinds;
};

/* ---- acts of modules */

static void find_acts(struct mp_checkpoints *c)
{
    const struct mp_model *model = c->model;
    for (uint32_t event = 0; event < model->events.count; event++) {
        uint32_t block = model->events.subject[event];
        if (model->events.type[event] != MP_EVENT_ALLOC || model->blocks.track[block] != c->history->track) continue;
        if (model->blocks.bytes[block] == MP_BYTES_UNKNOWN) continue;
        const struct mp_act act = {event, block, mp_model_module(model, block),
                                   (uint8_t)mp_phase_of_block(&c->phases, model, block)};
        mp_vec_add(&c->acts, act);
    }
}

/* A recorder learns a network's modules in its first call. Blocks before that get the modules of the next forward's
 * first blocks. */
static void fill_first(struct mp_checkpoints *c)
{
    size_t first = 0, known, next;
    while (first < c->acts.count && c->acts.at[first].phase != MP_PHASE_FORWARD)
        first++;
    for (known = first; known < c->acts.count && !c->acts.at[known].module;)
        known++;
    for (next = known; next < c->acts.count && c->acts.at[next].phase == MP_PHASE_FORWARD;)
        next++;
    while (next < c->acts.count && c->acts.at[next].phase != MP_PHASE_FORWARD)
        next++;
    for (size_t i = first; i < known; i++) {
        struct mp_act *act = &c->acts.at[i];
        if (act->phase != MP_PHASE_FORWARD) return;
        if (next >= c->acts.count || c->acts.at[next].phase != MP_PHASE_FORWARD) return;
        const struct mp_act *like = &c->acts.at[next];
        if (i > first) act->module = act[-1].module; /* allocated once, as libraries' workspaces are */
        if (c->model->blocks.bytes[act->block] != c->model->blocks.bytes[like->block] ||
            !mp_same_lines(c->model, c->model->blocks.stack[act->block], c->model->blocks.stack[like->block]))
            continue;
        act->module = like->module;
        next++;
    }
}

/* The length of the first `parts` parts of a path, up to a dot; 0: it has fewer parts. */
static size_t prefix_of(const char *path, size_t parts)
{
    const char *at = path;
    while (parts--) {
        if (!*at) return 0;
        at += *at == '.';
        at += strcspn(at, ".");
    }
    return (size_t)(at - path);
}

static uint32_t pattern_of(struct mp_checkpoints *c, const char *path, size_t length)
{
    struct mp_buffer text = {0};
    for (const char *at = path; at < path + length;) {
        size_t part = strcspn(at, ".");
        bool number = part && strspn(at, "0123456789") >= part;
        mp_buffer_append(&text, number ? "*" : at, number ? 1 : part);
        at += part + 1;
        if (at < path + length) mp_buffer_append(&text, ".", 1);
    }
    uint32_t id = mp_intern_add(&c->texts, (const char *)text.data, text.size);
    mp_buffer_free(&text);
    return id;
}

static size_t parts_of(const char *text)
{
    size_t parts = 1;
    for (; *text; text++)
        parts += *text == '.';
    return parts;
}

/* ---- which modules are called: lists and dictionaries of modules are never called */

/* Finds the called modules on a path, from the innermost outwards, given the stacks of the calls. A name before a
 * number is a Sequential, which is called, or a list, which is not. The outermost call is the network's own. */
static void find_called_of(struct mp_checkpoints *c, const char *path, const struct mp_buffer *chain)
{
    size_t parts = parts_of(path), at = 1;
    mp_map_at(&c->called, (uint64_t)mp_intern_add_text(&c->texts, path) + 1, NULL);
    for (parts--; parts && at + 1 < chain->size; parts--) {
        size_t length = prefix_of(path, parts);
        bool before_number = strspn(path + length + 1, "0123456789") == strcspn(path + length + 1, ".");
        if (before_number && chain->data[at] != 'S') continue;
        mp_map_at(&c->called, (uint64_t)mp_intern_add(&c->texts, path, length) + 1, NULL);
        at++;
    }
}

static bool is_too_deep(const char *path)
{
    return strnlen(path, PATH_MOST) == PATH_MOST || parts_of(path) > PARTS_MOST;
}

static void find_called(struct mp_checkpoints *c)
{
    struct mp_map seen = {0}, others = {0};
    struct mp_buffer chain = {0};
    for (size_t i = 0; i < c->acts.count; i++) {
        const struct mp_act *act = &c->acts.at[i];
        bool added = false;
        if (act->module && act->phase == MP_PHASE_BACKWARD) mp_map_at(&others, act->module, &added);
        if (added) mp_vec_add(&c->others, act->module);
        added = false;
        if (act->module && act->phase == MP_PHASE_FORWARD) mp_map_at(&seen, act->module, &added);
        if (!added) continue;
        const char *path = mp_module_path(c->model, c->root, act->module);
        if (is_too_deep(path)) continue;
        mp_vec_add(&c->paths, act->module);
        mp_buffer_clear(&chain);
        mp_module_chain(c->model, c->model->blocks.stack[act->block], &chain);
        find_called_of(c, path, &chain);
    }
    mp_map_free(&seen);
    mp_map_free(&others);
    mp_buffer_free(&chain);
}

static bool is_called(const struct mp_checkpoints *c, const char *path, size_t length)
{
    uint32_t id = mp_intern_find(&c->texts, path, length);
    return id != MP_INTERN_FAILED && mp_map_find(&c->called, (uint64_t)id + 1);
}

static void find_kinds(struct mp_checkpoints *c)
{
    struct mp_map seen = {0};
    for (size_t i = 0; i < c->paths.count; i++) {
        const char *path = mp_module_path(c->model, c->root, c->paths.at[i]);
        if (c->root && path == mp_model_text(c->model, c->paths.at[i])) continue; /* the network itself */
        size_t length;
        for (size_t parts = c->root ? 1 : 2; (length = prefix_of(path, parts)); parts++) {
            if (!is_called(c, path, length)) continue;
            const struct kind kind = {.pattern = pattern_of(c, path, length)};
            bool added;
            mp_map_at(&seen, (uint64_t)kind.pattern + 1, &added);
            if (added && c->kinds.count < KINDS_MOST) mp_vec_add(&c->kinds, kind);
        }
    }
    mp_map_free(&seen);
}

/* ---- kinds */

/* By path: 1 + the index of the module of the kind that contains the path; 0: none. */
static struct mp_map find_modules(struct mp_checkpoints *c, struct kind *kind)
{
    struct mp_map found = {0}, numbers = {0};
    size_t parts = parts_of(mp_intern_get(&c->texts, kind->pattern, NULL));
    for (size_t i = 0; i < c->paths.count; i++) {
        const char *path = mp_module_path(c->model, c->root, c->paths.at[i]);
        size_t length = prefix_of(path, parts);
        if (!length || !is_called(c, path, length) || pattern_of(c, path, length) != kind->pattern) continue;
        uint64_t *number = mp_map_at(&numbers, (uint64_t)mp_intern_add(&c->texts, path, length) + 1, NULL);
        if (!*number) *number = ++kind->modules;
        *mp_map_at(&found, c->paths.at[i], NULL) = *number;
    }
    for (size_t i = 0; i < c->others.count; i++) {
        const char *path = mp_module_path(c->model, c->root, c->others.at[i]);
        size_t length = is_too_deep(path) ? 0 : prefix_of(path, parts);
        uint32_t id = length ? mp_intern_find(&c->texts, path, length) : MP_INTERN_FAILED;
        const uint64_t *number = id == MP_INTERN_FAILED ? NULL : mp_map_find(&numbers, (uint64_t)id + 1);
        if (number) *mp_map_at(&found, c->others.at[i], NULL) = *number;
    }
    mp_map_free(&numbers);
    return found;
}

static uint32_t module_of(const struct mp_map *modules, const struct mp_act *act)
{
    const uint64_t *found = act->module ? mp_map_find(modules, act->module) : NULL;
    return found ? (uint32_t)*found : 0;
}

/* ---- copies of parameters: autocast makes them at half the size, and holds them until it ends */

static uint64_t parameter_key(uint32_t module, uint64_t bytes)
{
    return ((uint64_t)module + 1) << 44 | (bytes & (((uint64_t)1 << 44) - 1));
}

static void find_parameters(struct mp_checkpoints *c)
{
    const struct mp_model *model = c->model;
    for (size_t i = 0; i < model->labels.count; i++) {
        const struct mp_model_label *label = &model->labels.at[i];
        if (label->role != MP_ROLE_PARAMETER) continue;
        const char *name = mp_module_path(model, c->root, label->name), *last = strrchr(name, '.');
        uint32_t module = mp_intern_add(&c->texts, name, last ? (size_t)(last - name) : 0);
        const struct mp_model_label *before = i ? label - 1 : NULL;
        if (before && before->block == label->block && before->role == label->role) continue;
        ++*mp_map_at(&c->parameters, parameter_key(module, model->blocks.bytes[label->block]), NULL);
    }
}

/* By act of a call: true for a copy of a parameter. A module makes one copy of each parameter; later blocks of that
 * size are copies of its input. */
static unsigned char *casts_of(const struct mp_checkpoints *c, const struct mp_act *acts, size_t count)
{
    unsigned char *casts = mp_alloc_zeroed(count + 1, 1);
    struct mp_map seen = {0};
    for (size_t i = 0; i < count; i++) {
        const char *path = mp_module_path(c->model, c->root, acts[i].module);
        uint32_t module = mp_intern_find(&c->texts, path, strlen(path));
        if (module == MP_INTERN_FAILED || !(c->facts->of_stack[c->model->blocks.stack[acts[i].block]] & MP_FACT_CASTS))
            continue;
        uint64_t key = parameter_key(module, 2 * c->model->blocks.bytes[acts[i].block]);
        const uint64_t *has = mp_map_find(&c->parameters, key);
        casts[i] = has && ++*mp_map_at(&seen, key, NULL) <= *has;
    }
    mp_map_free(&seen);
    return casts;
}

/* ---- calls */

static bool same_place(const struct mp_checkpoints *c, const struct mp_act *a, const struct mp_act *b)
{
    return a->module == b->module && c->model->blocks.stack[a->block] == c->model->blocks.stack[b->block];
}

/* The period of a run of acts: `count` if the run is a single call. */
static size_t period_of(const struct mp_checkpoints *c, const struct mp_act *acts, size_t count)
{
    size_t *border = mp_alloc_zeroed(count + 1, sizeof *border);
    for (size_t i = 1, length = 0; i < count; i++) {
        while (length && !same_place(c, &acts[i], &acts[length]))
            length = border[length - 1];
        length += same_place(c, &acts[i], &acts[length]);
        border[i] = length;
    }
    size_t period = count - border[count - 1];
    free(border);
    return count % period ? count : period;
}

static void add_calls(const struct mp_checkpoints *c, struct kind *kind, uint32_t module, size_t first, size_t count)
{
    size_t period = period_of(c, &c->acts.at[first], count);
    for (size_t at = first; at < first + count; at += period) {
        struct call call = {.module = module - 1,
                            .first = at,
                            .count = period,
                            .begin = c->acts.at[at].event,
                            .end = at + period < c->acts.count ? c->acts.at[at + period].event
                                                               : (uint32_t)c->model->events.count,
                            .back = MP_NONE};
        uint32_t turn = mp_phase_turn_of(&c->phases, call.begin);
        call.turn = turn == MP_NONE ? MP_NONE : c->phases.turns.at[turn].backward;
        mp_vec_add(&kind->calls, call);
    }
}

static void find_calls(struct mp_checkpoints *c, struct kind *kind, const struct mp_map *modules)
{
    for (size_t i = 0, next; i < c->acts.count; i = next) {
        uint32_t module = c->acts.at[i].phase == MP_PHASE_FORWARD ? module_of(modules, &c->acts.at[i]) : 0;
        for (next = i + 1; module && next < c->acts.count; next++)
            if (c->acts.at[next].phase != MP_PHASE_FORWARD || module_of(modules, &c->acts.at[next]) != module) break;
        if (module) add_calls(c, kind, module, i, next - i);
    }
}

static uint32_t freed(const struct mp_checkpoints *c, size_t act)
{
    return c->model->blocks.free_event[c->acts.at[act].block];
}

/* True if backward frees the block. Variables free theirs later. */
static bool is_kept(const struct mp_checkpoints *c, const struct call *call, size_t act)
{
    return freed(c, act) >= call->back && freed(c, act) < call->stop;
}

/* The last of the call's blocks that backward frees. */
static uint32_t over_of(const struct mp_checkpoints *c, const struct call *call)
{
    uint32_t over = 0;
    for (size_t i = call->first; i < call->first + call->count; i++)
        if (is_kept(c, call, i) && freed(c, i) > over) over = freed(c, i);
    return over;
}

/* The event at which a turn's backward is over. */
static uint32_t stop_of(const struct mp_checkpoints *c, size_t turn)
{
    while (turn < c->phases.turns.count &&
           (mp_phase_is_backward(c->phases.turns.at[turn].phase) || c->phases.turns.at[turn].phase == MP_PHASE_OUTSIDE))
        turn++;
    return turn < c->phases.turns.count ? c->phases.turns.at[turn].first : (uint32_t)c->model->events.count;
}

struct back {
    uint32_t module, event, path, node;
};

MP_ORDER(by_module, struct back, MP_RISING(module) ?: MP_RISING(event))

/* ---- how much of a call runs again */

static const struct mp_operator_of *operator_of(const struct mp_checkpoints *c, uint32_t block)
{
    return &c->operators.of_stack[c->model->blocks.stack[block]];
}

/* `backs`: backward's allocations in the call's module, from the first on. */
static void find_remade(const struct mp_checkpoints *c, struct call *call, const struct back *backs, size_t count)
{
    unsigned node = 0;
    call->again = call->back;
    call->remade = call->count;
    if (!c->operators.stops_early) return;
    for (size_t i = 0; i < count && backs[i].module == backs->module && backs[i].event < call->over; i++) {
        node = operator_of(c, c->model->events.subject[backs[i].event])->node;
        if (!node || mp_operator_saves(node) == MP_SAVES_NOTHING) continue;
        call->again = backs[i].event;
        break;
    }
    call->remade = remade_until(c->model, &c->operators, &c->acts.at[call->first], call->count, node);
}

/* Backwards follow one another in the opposite order of their calls. The next one begins with the same inner module and
 * node as the one before. Earlier blocks add up its gradients. */
static void find_backs(const struct mp_checkpoints *c, struct kind *kind, const struct mp_map *modules)
{
    struct {
        uint32_t turn, over, path, node;
    } *last = mp_alloc_zeroed(kind->modules + 1, sizeof *last);
    MP_VEC(struct back) backs = {0};
    for (size_t i = 0; i < c->acts.count; i++) {
        const struct mp_act *act = &c->acts.at[i];
        const struct back back = {module_of(modules, act), act->event, act->module, operator_of(c, act->block)->node};
        if (back.module && act->phase == MP_PHASE_BACKWARD) mp_vec_add(&backs, back);
    }
    if (backs.count) qsort(backs.at, backs.count, sizeof *backs.at, by_module);
    for (size_t i = kind->calls.count; i--;) {
        struct call *call = &kind->calls.at[i];
        uint32_t module = call->module + 1;
        if (call->turn == MP_NONE) continue;
        uint32_t from = c->phases.turns.at[call->turn].first;
        bool next = last[module].turn == call->turn + 1;
        if (next && last[module].over > from) from = last[module].over;
        size_t at = MP_COUNT_BEFORE(
            backs.count, k, backs.at[k].module < module || (backs.at[k].module == module && backs.at[k].event < from));
        while (next && at < backs.count && backs.at[at].module == module &&
               (backs.at[at].path != last[module].path || backs.at[at].node != last[module].node))
            at++;
        if (at == backs.count || backs.at[at].module != module) continue;
        last[module].path = backs.at[at].path;
        last[module].node = backs.at[at].node;
        call->back = backs.at[at].event;
        call->stop = stop_of(c, call->turn);
        call->over = over_of(c, call);
        find_remade(c, call, &backs.at[at], backs.count - at);
        last[module].turn = call->turn + 1;
        if (call->over) last[module].over = call->over;
    }
    mp_vec_free(&backs);
    free(last);
}

/* ---- time */

/* By event: bytes of the blocks that operators outside of backward had read, written or made until then. The host's
 * time says little about a GPU, and nothing in a plan, which computes nothing. */
static uint64_t *find_work(const struct mp_model *model)
{
    uint64_t *work = mp_alloc_zeroed(model->events.count + 1, sizeof *work);
    mp_vec_each (const struct mp_model_use, use, &model->uses) {
        if (!use->node && use->how & (MP_USE_READ | MP_USE_WRITTEN | MP_USE_MADE))
            work[mp_model_events_before(model, use->time_ns, true)] += mp_known(model->blocks.bytes[use->block]);
    }
    for (size_t i = 0; i < model->events.count; i++)
        work[i + 1] += work[i];
    return work;
}

static uint64_t time_of(const struct mp_checkpoints *c, uint32_t event)
{
    const struct mp_model_events *events = &c->model->events;
    if (c->work) return c->work[event < events->count ? event : events->count];
    return event < events->count ? events->time_ns[event] : c->model->duration_ns;
}

/* Sums the time of all forward turns that a backward follows. The first one (warm-up) does not count if there are
 * others. *first: the turn of backward after the first forward that counts. */
static uint64_t time_of_forward(const struct mp_checkpoints *c, uint32_t *first)
{
    uint64_t all = 0, of_first = 0;
    *first = MP_NONE;
    for (size_t i = 0; i + 1 < c->phases.turns.count; i++) {
        const struct mp_phase_turn *turn = &c->phases.turns.at[i];
        if (turn->phase != MP_PHASE_FORWARD || turn->backward == MP_NONE) continue;
        uint64_t took = time_of(c, turn[1].first) - time_of(c, turn->first);
        if (*first == MP_NONE) *first = turn->backward;
        all += took;
        if (turn->backward == *first) of_first += took;
    }
    if (all > of_first) return all - of_first;
    *first = MP_NONE;
    return all;
}

static void find_times(const struct mp_checkpoints *c, struct kind *kind)
{
    uint32_t first;
    kind->forward = time_of_forward(c, &first);
    if (c->planned && !c->work) kind->forward = 0;
    kind->times = mp_alloc_zeroed(kind->modules + 1, sizeof *kind->times);
    mp_vec_each (const struct call, call, &kind->calls) {
        if (!call->over || call->turn == first) continue;
        uint32_t last = c->acts.at[call->first + call->count - 1].event + 1;
        if (last < call->end) last = call->end;
        kind->times[call->module] += time_of(c, last) - time_of(c, call->begin);
    }
}

/* ---- when a call would free its blocks if it made no graph */

/* The number of called modules on the path, counted from the length `from` on. */
static size_t called_from(const struct mp_checkpoints *c, const char *path, size_t from)
{
    size_t calls = 0, length;
    for (size_t parts = 1; (length = prefix_of(path, parts)); parts++)
        calls += length >= from && is_called(c, path, length);
    return calls;
}

/* The part of a call that makes a block: a statement of the module, or for a Sequential the module that it calls.
 * `known` caches results by module and stack. */
static uint64_t part_of(struct mp_checkpoints *c, const struct kind *kind, struct mp_map *known,
                        const struct mp_act *act)
{
    uint32_t stack = c->model->blocks.stack[act->block];
    bool added;
    uint64_t *part = mp_map_at(known, (uint64_t)act->module << 32 | stack, &added);
    if (!added) return *part;
    const char *path = mp_module_path(c->model, c->root, act->module);
    size_t parts = parts_of(mp_intern_get(&c->texts, kind->pattern, NULL));
    *part = mp_module_line(c->model, stack, called_from(c, path, prefix_of(path, parts)));
    if (*part && c->facts->of_frame[*part - 1] & MP_FACT_RUNS_MODULES)
        *part = IN_SEQUENTIAL | mp_intern_add(&c->texts, path, prefix_of(path, parts + 1));
    return *part;
}

/* Marks acts whose stack makes several of the call's blocks. */
static void find_repeated(const struct mp_checkpoints *c, const struct mp_act *acts, size_t count,
                          unsigned char *repeated)
{
    struct mp_map first = {0};
    for (size_t i = 0; i < count; i++) {
        bool added;
        uint64_t *at = mp_map_at(&first, (uint64_t)c->model->blocks.stack[acts[i].block] + 1, &added);
        if (added) *at = i;
        repeated[i] = !added;
        if (!added) repeated[*at] = true;
    }
    mp_map_free(&first);
}

/* The event by which each act of the call would be freed without a graph. A block that is not the result of a part is
 * freed when the part ends. The result of a Sequential's part is freed with the next part, any other result with the
 * call. Blocks that one statement makes repeatedly may be in a list, so they are kept. */
static void find_ends(struct mp_checkpoints *c, const struct kind *kind, struct mp_map *known, const struct call *call,
                      uint32_t *ends)
{
    const struct mp_act *acts = &c->acts.at[call->first];
    unsigned char *repeated = mp_alloc_zeroed(call->count, 1);
    size_t waiting = SIZE_MAX; /* result of the previous part */
    for (size_t i = 0, next; i < call->count; i = next) {
        uint64_t part = part_of(c, kind, known, &acts[i]);
        for (next = i + 1; next < call->count && part_of(c, kind, known, &acts[next]) == part;)
            next++;
        uint32_t over = next < call->count ? acts[next].event : call->end;
        size_t result = SIZE_MAX;
        find_repeated(c, &acts[i], next - i, &repeated[i]);
        for (size_t k = i; k < next; k++) {
            bool may_last = !part || (repeated[k] && !(part & IN_SEQUENTIAL));
            ends[k] = may_last ? call->end : over;
            if (c->model->blocks.free_event[acts[k].block] > over) result = k;
        }
        if (waiting != SIZE_MAX) ends[waiting] = over;
        waiting = part & IN_SEQUENTIAL ? result : SIZE_MAX;
        if (result != SIZE_MAX) ends[result] = call->end;
    }
    free(repeated);
}

/* ---- changes */

struct maker {
    struct mp_checkpoints *c;
    const struct kind *kind;
    struct mp_map parts;
    const struct mp_torch_step **births; /* by block: the step that allocates it; may be NULL */
    struct mp_change *change;
};

static struct mp_edit_extra copy_of(const struct maker *m, uint32_t block)
{
    const struct mp_torch_step *birth = m->births[block];
    return (struct mp_edit_extra){.bytes = birth ? birth->bytes : m->c->model->blocks.bytes[block],
                                  .stream = birth ? birth->stream : 0,
                                  .pool = birth ? birth->pool : 0};
}

/* Only if backward frees all blocks that outlive the call: returns the last of these blocks if another one is freed
 * after it; else SIZE_MAX. *held: the last block if it is also freed last, so something else holds it; else
 * SIZE_MAX. */
static size_t kept_output(const struct maker *m, const struct call *call, const unsigned char *casts, size_t *held)
{
    size_t last = SIZE_MAX;
    uint32_t others = 0;
    *held = SIZE_MAX;
    for (size_t i = call->first; i < call->first + call->count; i++) {
        if (casts[i - call->first] || freed(m->c, i) <= call->end) continue;
        if (!is_kept(m->c, call, i)) return SIZE_MAX;
        if (last != SIZE_MAX && freed(m->c, last) > others) others = freed(m->c, last);
        last = i;
    }
    if (last == SIZE_MAX || freed(m->c, last) < others) return last;
    *held = last;
    return SIZE_MAX;
}

/* The order among events just before the call's backward: as within the call, after other frees. */
static uint32_t rank_of(const struct call *call, uint32_t event)
{
    return 1 + (event < call->end ? event : call->end) - call->begin;
}

static void end_block(const struct maker *m, uint32_t block, uint32_t event)
{
    const struct mp_edit_end end = {.block = block, .freed = event};
    mp_vec_add(&m->change->edits.ends, end);
}

/* The event at which backward frees a recomputed block. Autograd itself holds a saved tensor until the gradients of its
 * node have their shape. Checkpointing of PyTorch 2.1 and newer releases it when the node runs. */
static uint32_t let_go(const struct mp_checkpoints *c, uint32_t end)
{
    size_t at = MP_COUNT_BEFORE(c->acts.count, i, c->acts.at[i].event < end);
    uint32_t sooner = end;
    for (unsigned i = 0; c->operators.stops_early && i < SHAPED_MOST && at--; i++) {
        if (c->acts.at[at].phase != MP_PHASE_BACKWARD) return end;
        if (operator_of(c, c->acts.at[at].block)->node) return sooner;
        sooner = c->acts.at[at].event;
    }
    return end;
}

static void make_again(struct maker *m, const struct call *call)
{
    unsigned char *casts = casts_of(m->c, &m->c->acts.at[call->first], call->count);
    size_t held, output = kept_output(m, call, casts, &held);
    uint32_t *ends = mp_alloc_zeroed(call->count, sizeof *ends);
    uint32_t backward = m->c->phases.turns.at[call->turn].first;
    find_ends(m->c, m->kind, &m->parts, call, ends);
    for (size_t i = call->first; i < call->first + call->count; i++) {
        uint32_t block = m->c->acts.at[i].block, end = freed(m->c, i);
        struct mp_edit_extra copy = copy_of(m, block);
        copy.made = call->again;
        copy.made_rank = rank_of(call, m->c->acts.at[i].event);
        bool kept = i != held && is_kept(m->c, call, i);
        copy.freed = kept ? let_go(m->c, end) : call->again;
        copy.freed_rank = kept ? 0 : rank_of(call, end);
        if (i - call->first >= call->remade || end == MP_NONE) continue; /* no recomputation needed */
        mp_vec_add(&m->change->edits.extras, copy);
        if (!kept) continue;
        bool lasts = casts[i - call->first];
        end_block(m, block, i == output ? call->back : lasts ? backward : ends[i - call->first]);
        m->change->bytes += copy.bytes;
        m->change->blocks++;
    }
    free(ends);
    free(casts);
}

/* True if the call's first operator keeps its input for backward anyway. */
static bool keeps_input_itself(const struct mp_checkpoints *c, const struct call *call)
{
    return mp_operator_saves(operator_of(c, c->acts.at[call->first].block)->number) == MP_SAVES_INPUTS;
}

/* If forward frees the call's input, checkpointing keeps it until the second run is over. The input is a block that is
 * freed while the call runs, or the last one made before it. */
static void keep_input(const struct maker *m, const struct call *call)
{
    const struct mp_model *model = m->c->model;
    bool kept = keeps_input_itself(m->c, call);
    uint32_t end = kept ? m->c->acts.at[call->first + call->count - 1].event : call->end;
    for (uint32_t event = call->begin; event < end && event < model->events.count; event++) {
        uint32_t block = model->events.subject[event];
        if (model->events.type[event] != MP_EVENT_FREE || model->blocks.track[block] != m->c->history->track) continue;
        if (model->blocks.alloc_event[block] == MP_NONE || model->blocks.alloc_event[block] >= call->begin) continue;
        if (mp_phase_of_block(&m->c->phases, model, block) == MP_PHASE_FORWARD) end_block(m, block, call->over);
    }
    for (size_t i = call->first; !kept && i-- && m->c->acts.at[i].phase == MP_PHASE_FORWARD &&
                                 m->c->acts.at[i].module == m->c->acts.at[call->first - 1].module;) {
        uint32_t gone = freed(m->c, i);
        if (gone >= m->c->phases.turns.at[call->turn].first || gone < call->end) continue;
        end_block(m, m->c->acts.at[i].block, call->over);
        break;
    }
}

static void keep_rng(const struct maker *m, const struct call *call)
{
    const struct mp_edit_extra state = {.bytes = RNG_BYTES, .made = call->begin, .freed = call->over};
    const struct mp_edit_extra present = {
        .bytes = RNG_BYTES, .made = call->again, .freed = call->again, .freed_rank = 1 + rank_of(call, call->end)};
    if (!m->c->keeps_rng) return;
    mp_vec_add(&m->change->edits.extras, state);
    mp_vec_add(&m->change->edits.extras, present);
}

void mp_checkpoints_change(struct mp_checkpoints *checkpoints, size_t number, size_t modules, struct mp_change *change)
{
    const struct kind *kind = &checkpoints->kinds.at[number];
    struct maker m = {.c = checkpoints,
                      .kind = kind,
                      .births = mp_births_find(checkpoints->model, checkpoints->history),
                      .change = change};
    *change = (struct mp_change){.kind = MP_CHANGE_CHECKPOINT,
                                 .pattern = MP_CHANGE_CHECKPOINTING,
                                 .module = mp_text_copy(mp_intern_get(&checkpoints->texts, kind->pattern, NULL)),
                                 .modules = modules,
                                 .modules_of = kind->modules};
    mp_vec_each (const struct call, call, &kind->calls) {
        if (!call->over || call->module >= modules) continue;
        make_again(&m, call);
        keep_input(&m, call);
        keep_rng(&m, call);
    }
    uint64_t again = 0; /* whole nanoseconds: kinds that cover the same calls cost exactly the same */
    for (size_t i = 0; i < modules && i < kind->modules; i++)
        again += kind->times[i];
    change->share = kind->forward ? (double)again / (double)kind->forward : MP_SHARE_UNKNOWN;
    change->by_bytes = checkpoints->work;
    mp_edits_sort(&change->edits);
    mp_map_free(&m.parts);
    free(m.births);
}

/* ---- */

size_t mp_checkpoints_kinds(const struct mp_checkpoints *checkpoints)
{
    return checkpoints ? checkpoints->kinds.count : 0;
}

size_t mp_checkpoints_modules(const struct mp_checkpoints *checkpoints, size_t kind)
{
    return checkpoints->kinds.at[kind].modules;
}

struct mp_checkpoints *mp_checkpoints_find(const struct mp_model *model, const struct mp_torch_history *history)
{
    if (!model->blocks.module || !history->steps.count) return NULL;
    struct mp_checkpoints *c = mp_alloc_zeroed(1, sizeof *c);
    *c = (struct mp_checkpoints){.model = model,
                                 .history = history,
                                 .facts = mp_stack_facts(model),
                                 .root = mp_module_root(model),
                                 .keeps_rng = !strncmp(mp_track_device(model, history->track), "cpu", 3)};
    struct mp_plan plan;
    mp_plan_find(model, &plan);
    c->planned = plan.planned;
    mp_plan_free(&plan);
    if (model->uses.count && !c->keeps_rng) c->work = find_work(model);
    mp_phases_find(model, &c->phases);
    find_acts(c);
    fill_first(c);
    find_called(c);
    find_kinds(c);
    find_parameters(c);
    mp_operators_find(model, &c->operators);
    for (size_t i = 0; i < c->kinds.count; i++) {
        struct kind *kind = &c->kinds.at[i];
        struct mp_map modules = find_modules(c, kind);
        find_calls(c, kind, &modules);
        find_backs(c, kind, &modules);
        find_times(c, kind);
        mp_map_free(&modules);
    }
    return c;
}

void mp_checkpoints_free(struct mp_checkpoints *checkpoints)
{
    if (!checkpoints) return;
    for (size_t i = 0; i < checkpoints->kinds.count; i++) {
        mp_vec_free(&checkpoints->kinds.at[i].calls);
        free(checkpoints->kinds.at[i].times);
    }
    mp_vec_free(&checkpoints->kinds);
    mp_vec_free(&checkpoints->acts);
    mp_vec_free(&checkpoints->paths);
    mp_vec_free(&checkpoints->others);
    mp_map_free(&checkpoints->called);
    mp_map_free(&checkpoints->parameters);
    mp_operators_free(&checkpoints->operators);
    mp_intern_free(&checkpoints->texts);
    mp_phases_free(&checkpoints->phases);
    free(checkpoints->work);
    free(checkpoints);
}
