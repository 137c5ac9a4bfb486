#include "analysis/advise/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/advise/module_calls.h"
#include "analysis/advise/nodes.h"
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

/*
 * A call of a module is a run of allocations by it and the modules within it. Without checkpointing, backward frees
 * some of its blocks. With it, these blocks live only to the end of the call. Just before the first allocation of the
 * call's backward, the call runs again and makes all its blocks in the same order. Backward frees the new blocks where
 * it freed the old ones. The call's output stays.
 *
 * PyTorch 2.1 and newer stop the second run at the last tensor that is saved for backward. The log of operators shows
 * it: the first node of the call's backward that reads saved tensors belongs to the call's last operator that has them
 * all. If one of them is its result, the stop comes after that operator, otherwise before it. The node lets go of them
 * as soon as it has run. Without the log, we assume that the whole call runs again, and that its last block is held by
 * something else, which saves less.
 */
/* Limits of a module's path: bytes, and modules. No network reaches them. The search takes time quadratic in both. */
#define PATH_MOST     4096
#define PARTS_MOST    100
#define KINDS_MOST    100
#define IN_SEQUENTIAL ((uint64_t)1 << 63)
#define RNG_BYTES     5056 /* the CPU generator's state: each call saves it, and once more when it runs again */

struct cost {
    double time; /* ns or bytes */
    double flops;
};

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
    const struct mp_node_run *run; /* the first node of its backward; NULL without a log */
    uint32_t stopped;              /* event at which forward had made what runs again; MP_NONE: the whole call */
    bool cut;                      /* memory ran out between the call and its backward */
};
struct kind {
    uint32_t pattern;
    size_t modules;
    struct mp_map within; /* by string id of a path: 1 + the index of the module of the kind that contains it */
    MP_VEC(struct call) calls;
    struct cost *costs;  /* by module, over all its calls in forward */
    struct cost forward; /* of all forward turns; .time 0: not known */
};

struct mp_checkpoints {
    const struct mp_model *model;
    const struct mp_torch_history *history;
    const struct mp_stack_facts *facts;
    bool keeps_rng;
    struct cost *work; /* by event: find_work(); NULL: without a log */
    bool by_bytes;
    bool planned;
    size_t root; /* length of the path of the network itself */
    struct mp_phases phases;
    struct mp_intern texts; /* patterns and paths */
    MP_VEC(struct mp_act) acts;
    MP_VEC(uint32_t) paths;    /* string ids of modules that allocate in forward */
    MP_VEC(uint32_t) others;   /* modules that only work in place, or in backward */
    struct mp_map called;      /* texts + 1 of the called modules */
    struct mp_nodes nodes;     /* without a log, empty */
    unsigned char *parameters; /* by block */
    unsigned char *marks;      /* by block, all 0: for find_stop() */
    bool stops_early;          /* PyTorch 2.1 and newer, with a log */
    uint32_t oom;              /* the last lack of memory on the track; MP_NONE: none */
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
    mp_vec_each (const struct mp_model_use, use, &c->model->uses) {
        bool added = false;
        if (use->module) mp_map_at(&others, use->module, &added);
        if (added && !mp_map_find(&seen, use->module)) mp_vec_add(&c->others, use->module);
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

static uint32_t module_of(const struct mp_map *modules, uint32_t module)
{
    const uint64_t *found = module ? mp_map_find(modules, module) : NULL;
    return found ? (uint32_t)*found : 0;
}

/* ---- copies of parameters: autocast makes them at half the size, and holds them until it ends */

static void find_parameters(struct mp_checkpoints *c)
{
    c->parameters = mp_alloc_zeroed(c->model->blocks.count + 1, 1);
    mp_vec_each (const struct mp_model_label, label, &c->model->labels)
        c->parameters[label->block] |= label->role == MP_ROLE_PARAMETER;
}

/* True if an operator made the block from a parameter of twice the size alone. */
static bool is_cast(const struct mp_checkpoints *c, uint32_t block)
{
    uint32_t by = c->nodes.log.made_by ? c->nodes.log.made_by[block] : 0;
    const struct mp_operation *op = by ? &c->nodes.log.ops.at[by - 1] : NULL;
    bool cast = false;
    for (size_t i = op ? op->first : 0; op && i < op->first + op->count; i++) {
        uint32_t from = c->nodes.log.uses[i]->block;
        if (from != block && !c->parameters[from]) return false;
        cast |= c->parameters[from] && c->model->blocks.bytes[from] == 2 * c->model->blocks.bytes[block];
    }
    return cast;
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
                            .back = MP_NONE,
                            .stopped = MP_NONE};
        uint32_t turn = mp_phase_turn_of(&c->phases, call.begin);
        call.turn = turn == MP_NONE ? MP_NONE : c->phases.turns.at[turn].backward;
        call.cut = call.turn == MP_NONE && c->oom != MP_NONE && call.end <= c->oom;
        mp_vec_add(&kind->calls, call);
    }
}

static void find_calls(struct mp_checkpoints *c, struct kind *kind, const struct mp_map *modules)
{
    for (size_t i = 0, next; i < c->acts.count; i = next) {
        uint32_t module = c->acts.at[i].phase == MP_PHASE_FORWARD ? module_of(modules, c->acts.at[i].module) : 0;
        for (next = i + 1; module && next < c->acts.count; next++)
            if (c->acts.at[next].phase != MP_PHASE_FORWARD || module_of(modules, c->acts.at[next].module) != module)
                break;
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

/* Without a log: the last of the call's blocks that backward frees. */
static uint32_t last_freed(const struct mp_checkpoints *c, const struct call *call)
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
    const struct mp_node_run *run; /* NULL: without a log, an allocation */
};

MP_ORDER(by_module, struct back, MP_RISING(module) ?: MP_RISING(event))

/* ---- how much of a call runs again */

static uint64_t time_at(const struct mp_checkpoints *c, uint32_t event)
{
    return event < c->model->events.count ? c->model->events.time_ns[event] : UINT64_MAX;
}

/* Finds where the call's second run stops. `run`: the first node of its backward that reads saved tensors. */
static void find_stop(const struct mp_checkpoints *c, struct call *call, const struct mp_node_run *run)
{
    const struct mp_operations *log = &c->nodes.log;
    size_t best = 0;
    for (size_t i = log->ops.at[run->first].first; i < log->ops.at[run->last].first + log->ops.at[run->last].count; i++)
        c->marks[log->uses[i]->block] = mp_node_reads_saved(c->model, &c->phases, log->uses[i]);
    for (size_t at = mp_operations_before(log, time_at(c, call->end)); at--;) {
        const struct mp_operation *op = &log->ops.at[at];
        size_t marked = 0;
        bool result = false;
        if (op->ended_ns < time_at(c, call->begin)) break;
        for (size_t i = op->first; i < op->first + op->count && !op->node; i++) {
            const struct mp_model_use *use = log->uses[i];
            if (!c->marks[use->block] || !(use->how & ~(MP_USE_VIEW | MP_USE_OUTPUT))) continue;
            marked++;
            result |= use->how & (MP_USE_WRITTEN | MP_USE_MADE);
        }
        if (marked <= best) continue;
        best = marked;
        call->stopped = mp_model_events_before(c->model, result ? op->ended_ns : op->began_ns, result);
    }
    for (size_t i = log->ops.at[run->first].first; i < log->ops.at[run->last].first + log->ops.at[run->last].count; i++)
        c->marks[log->uses[i]->block] = 0;
    while (call->remade && c->acts.at[call->first + call->remade - 1].event >= call->stopped)
        call->remade--;
}

/* Marks the blocks with which the call's operators work, without parameters. */
static void mark_call(const struct mp_checkpoints *c, const struct call *call, unsigned char mark)
{
    const struct mp_operations *log = &c->nodes.log;
    for (size_t at = mp_operations_before(log, time_at(c, call->begin)); at < log->ops.count; at++) {
        const struct mp_operation *op = &log->ops.at[at];
        if (op->ended_ns >= time_at(c, call->end)) break;
        for (size_t i = op->first; i < op->first + op->count; i++)
            c->marks[log->uses[i]->block] = mark && !c->parameters[log->uses[i]->block];
    }
    for (size_t i = call->first; i < call->first + call->count; i++)
        c->marks[c->acts.at[i].block] = mark;
}

/* The end of the last node that reads a saved tensor of the call; 0: none. */
static uint32_t over_of(const struct mp_checkpoints *c, const struct kind *kind, const struct call *call,
                        const struct back *backs, size_t count)
{
    const struct mp_operations *log = &c->nodes.log;
    uint32_t over = 0;
    bool other = false; /* backward of another call of the module */
    if (!log->uses) return last_freed(c, call);
    mark_call(c, call, 1);
    for (size_t i = 0; i < count && backs[i].module == backs->module && backs[i].event < call->stop && !other; i++) {
        const struct mp_node_run *run = backs[i].run;
        bool own = false;
        for (size_t at = run->first; run->saves && at <= run->last; at++) {
            const struct mp_operation *op = &log->ops.at[at];
            for (size_t k = op->first; k < op->first + op->count; k++) {
                uint32_t block = log->uses[k]->block;
                if (!mp_node_reads_saved(c->model, &c->phases, log->uses[k])) continue;
                own |= c->marks[block];
                other |=
                    !c->marks[block] && module_of(&kind->within, mp_model_module(c->model, block)) == call->module + 1;
            }
        }
        if (own && !other) over = run->end;
    }
    mark_call(c, call, 0);
    return over;
}

/* `backs`: backward in the call's module, from the first node on. */
static void find_remade(const struct mp_checkpoints *c, struct call *call, const struct back *backs, size_t count)
{
    call->again = call->back;
    call->remade = call->count;
    if (!c->stops_early) return;
    for (size_t i = 0; i < count && backs[i].module == backs->module && backs[i].event < call->over; i++) {
        if (!backs[i].run->saves) continue;
        call->again = backs[i].event;
        find_stop(c, call, backs[i].run);
        return;
    }
}

/* Backwards follow one another in the opposite order of their calls. The next one begins with the same inner module and
 * node as the one before. Earlier blocks add up its gradients. */
static void find_backs(const struct mp_checkpoints *c, struct kind *kind, const struct mp_map *modules)
{
    struct {
        uint32_t turn, over, path, node;
    } *last = mp_alloc_zeroed(kind->modules + 1, sizeof *last);
    MP_VEC(struct back) backs = {0};
    for (size_t i = 0; i < c->acts.count && !c->nodes.log.uses; i++) {
        const struct mp_act *act = &c->acts.at[i];
        const struct back back = {module_of(modules, act->module), act->event, act->module, 0, NULL};
        if (back.module && act->phase == MP_PHASE_BACKWARD) mp_vec_add(&backs, back);
    }
    mp_vec_each (const struct mp_node_run, run, &c->nodes.runs) {
        const struct back back = {module_of(modules, run->module), run->event, run->module, run->node, run};
        if (back.module) mp_vec_add(&backs, back);
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
        call->over = over_of(c, kind, call, &backs.at[at], backs.count - at);
        call->run = backs.at[at].run;
        find_remade(c, call, &backs.at[at], backs.count - at);
        last[module].turn = call->turn + 1;
        if (call->over) last[module].over = call->over;
    }
    mp_vec_free(&backs);
    free(last);
}

/* ---- time */

/* By event: what operators outside of backward had cost until then: bytes of the blocks that they read, wrote or made,
 * and FLOPs. */
static struct cost *find_work(const struct mp_checkpoints *c)
{
    const struct mp_model *model = c->model;
    const struct mp_operations *log = &c->nodes.log;
    struct cost *work = mp_alloc_zeroed(model->events.count + 1, sizeof *work);
    mp_vec_each (const struct mp_operation, op, &log->ops) {
        struct cost *at = &work[mp_model_events_before(model, op->ended_ns, true)];
        if (op->node) continue;
        at->flops += mp_operation_flops(model, log, op);
        for (size_t i = op->first; i < op->first + op->count; i++)
            if (log->uses[i]->how & (MP_USE_READ | MP_USE_WRITTEN | MP_USE_MADE))
                at->time += (double)mp_known(model->blocks.bytes[log->uses[i]->block]);
    }
    for (size_t i = 0; i < model->events.count; i++) {
        work[i + 1].time += work[i].time;
        work[i + 1].flops += work[i].flops;
    }
    return work;
}

/* The host's time says little about a GPU, and nothing in a plan, which computes nothing: then bytes count. */
static void add_cost(const struct mp_checkpoints *c, uint32_t from, uint32_t to, struct cost *cost)
{
    const struct mp_model_events *events = &c->model->events;
    uint32_t most = (uint32_t)events->count;
    from = from < most ? from : most;
    to = to < most ? to : most;
    if (c->work) cost->flops += c->work[to].flops - c->work[from].flops;
    if (c->by_bytes)
        cost->time += c->work[to].time - c->work[from].time;
    else
        cost->time += (double)((to < most ? events->time_ns[to] : c->model->duration_ns) -
                               (from < most ? events->time_ns[from] : c->model->duration_ns));
}

/* Sums the cost of all forward turns that a backward follows. The first one (warm-up) does not count if there are
 * others. Returns the turn of backward after the first forward if that does not count; else MP_NONE. */
static uint32_t cost_of_forward(const struct mp_checkpoints *c, struct cost *all)
{
    struct cost of_first = {0}, others = {0};
    uint32_t first = MP_NONE;
    for (size_t i = 0; i + 1 < c->phases.turns.count; i++) {
        const struct mp_phase_turn *turn = &c->phases.turns.at[i];
        if (turn->phase != MP_PHASE_FORWARD || turn->backward == MP_NONE) continue;
        if (first == MP_NONE) first = turn->backward;
        add_cost(c, turn->first, turn[1].first, turn->backward == first ? &of_first : &others);
    }
    *all = others.time > 0 ? others : of_first;
    return others.time > 0 ? first : MP_NONE;
}

static void find_costs(const struct mp_checkpoints *c, struct kind *kind)
{
    uint32_t first = cost_of_forward(c, &kind->forward);
    if (c->planned && !c->by_bytes) kind->forward = (struct cost){0};
    kind->costs = mp_alloc_zeroed(kind->modules + 1, sizeof *kind->costs);
    mp_vec_each (const struct call, call, &kind->calls) {
        if (!call->over || call->turn == first) continue;
        uint32_t last = c->acts.at[call->first + call->count - 1].event + 1;
        if (last < call->end) last = call->end;
        if (last > call->stopped) last = call->stopped;
        add_cost(c, call->begin, last, &kind->costs[call->module]);
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

/* The event behind the block's last use before the turn of backward; *module: of that use. Without a log, MP_NONE. */
static uint32_t last_use(const struct mp_checkpoints *c, uint32_t turn, uint32_t block, uint32_t *module)
{
    size_t count;
    const struct mp_model_use *uses = mp_model_uses_of(c->model, block, &count);
    uint64_t backward = time_at(c, c->phases.turns.at[turn].first), last = 0;
    for (size_t i = 0; i < count; i++) {
        if (uses[i].node || uses[i].time_ns >= backward || uses[i].time_ns < last) continue;
        last = uses[i].time_ns;
        *module = uses[i].module;
    }
    return count ? mp_model_events_before(c->model, last, true) : MP_NONE;
}

/* The event by which each act of the call would be freed without a graph. A block that only its part uses is freed with
 * its last use, or without a log with the part. The result of a Sequential's part is freed with the next part, any
 * other result with the call. */
static void find_ends(struct mp_checkpoints *c, const struct kind *kind, struct mp_map *known, const struct call *call,
                      uint32_t *ends)
{
    const struct mp_act *acts = &c->acts.at[call->first];
    size_t waiting = SIZE_MAX; /* result of the previous part */
    for (size_t i = 0, next; i < call->count; i = next) {
        uint64_t part = part_of(c, kind, known, &acts[i]);
        for (next = i + 1; next < call->count && part_of(c, kind, known, &acts[next]) == part;)
            next++;
        uint32_t over = next < call->count ? acts[next].event : call->end, module;
        size_t result = SIZE_MAX;
        for (size_t k = i; k < next; k++) {
            uint32_t last = last_use(c, call->turn, acts[k].block, &module);
            bool lasts = last == MP_NONE ? c->model->blocks.free_event[acts[k].block] > over : last > over;
            ends[k] = !part || (lasts && last != MP_NONE) ? call->end : last < over ? last : over;
            if (lasts) result = k;
        }
        if (waiting != SIZE_MAX) ends[waiting] = over;
        waiting = part & IN_SEQUENTIAL ? result : SIZE_MAX;
        if (result != SIZE_MAX) ends[result] = call->end;
    }
}

/* ---- changes */

struct maker {
    struct mp_checkpoints *c;
    const struct kind *kind;
    struct mp_map parts;
    const struct mp_torch_step **births; /* by block: the step that allocates it; may be NULL */
    struct mp_change *change;
    enum mp_checkpoint_form form;
};

static struct mp_edit_extra copy_of(const struct maker *m, uint32_t block)
{
    const struct mp_torch_step *birth = m->births[block];
    return (struct mp_edit_extra){.bytes = birth ? birth->bytes : m->c->model->blocks.bytes[block],
                                  .stream = birth ? birth->stream : 0,
                                  .pool = birth ? birth->pool : 0};
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

/* The further life of an act's block, by the log. */
struct fate {
    uint32_t own;    /* the event behind the call's last node that reads it as a saved tensor; 0: none does */
    uint32_t output; /* if code behind the call uses it, the event until which it does; else 0 */
    bool held;       /* a variable holds it beyond that */
};

static struct fate fate_of(const struct maker *m, const struct call *call, uint32_t block)
{
    const struct mp_checkpoints *c = m->c;
    struct fate fate = {0};
    size_t count;
    uint32_t module = 0, last = last_use(c, call->turn, block, &module);
    const struct mp_model_use *uses = mp_model_uses_of(c->model, block, &count);
    const struct mp_node_run *reader = NULL;
    if (last > call->end) fate.output = module_of(&m->kind->within, module) ? call->back : last;
    for (size_t i = 0; i < count; i++) {
        const struct mp_node_run *run =
            mp_node_reads_saved(c->model, &c->phases, &uses[i]) ? mp_node_run_of(&c->nodes, &uses[i]) : NULL;
        uint32_t number = run ? module_of(&m->kind->within, run->module) : 0;
        bool own = number == call->module + 1 && run->event >= call->back;
        /* Another module of the kind holds its input until its own backward is over. */
        uint32_t end = !run ? 0 : number && !own ? call->back : run->end, *most = own ? &fate.own : &fate.output;
        if (end > *most) *most = end;
        if (run && (!reader || run > reader)) reader = run;
    }
    bool behind = reader && reader + 1 < c->nodes.runs.at + c->nodes.runs.count;
    fate.held = behind && c->model->blocks.free_event[block] > reader[1].end;
    return fate;
}

/* Without a log, a block that backward frees was saved, except the call's last one, which something else may hold. */
static struct fate guess_fate(const struct maker *m, const struct call *call, size_t act)
{
    bool last = true;
    for (size_t i = act + 1; i < call->first + call->count; i++)
        last &= freed(m->c, i) <= call->end;
    return (struct fate){.own = !last && is_kept(m->c, call, act) ? freed(m->c, act) : 0};
}

/* The older form runs the whole call again at the begin of its backward, as a graph of its own. It holds the output and
 * its gradient until that is over. */
static void re_enter(const struct maker *m, const struct call *call, size_t act, const struct fate *fate,
                     struct mp_edit_extra *copy)
{
    bool is_output = fate->output && freed(m->c, act) > call->end;
    uint32_t gone = fate->own && freed(m->c, act) > call->back ? freed(m->c, act) : 0;
    copy->made = call->back;
    copy->freed = is_output ? call->over : gone ? gone : fate->own ? fate->own : call->back;
    if (copy->freed > call->back) copy->freed_rank = 0;
}

static void hold_gradient(const struct maker *m, const struct call *call)
{
    const struct mp_operations *log = &m->c->nodes.log;
    for (size_t at = call->run ? call->run->first : 1; call->run && at <= call->run->last; at++)
        for (size_t i = log->ops.at[at].first; i < log->ops.at[at].first + log->ops.at[at].count; i++) {
            uint32_t block = log->uses[i]->block, born = m->c->model->blocks.alloc_event[block];
            if (log->uses[i]->how & MP_USE_READ && born < call->back &&
                born >= m->c->phases.turns.at[call->turn].first && m->c->model->blocks.free_event[block] < call->over)
                end_block(m, block, call->over);
        }
}

static void make_again(struct maker *m, const struct call *call)
{
    uint32_t *ends = mp_alloc_zeroed(call->count, sizeof *ends);
    uint32_t backward = m->c->phases.turns.at[call->turn].first;
    find_ends(m->c, m->kind, &m->parts, call, ends);
    if (m->form == MP_CHECKPOINT_REENTRANT) hold_gradient(m, call);
    for (size_t i = call->first; i < call->first + (m->form == MP_CHECKPOINT_REENTRANT ? call->count : call->remade);
         i++) {
        uint32_t block = m->c->acts.at[i].block, end = freed(m->c, i);
        struct fate fate = m->c->nodes.log.uses ? fate_of(m, call, block) : guess_fate(m, call, i);
        struct mp_edit_extra copy = copy_of(m, block);
        copy.made = call->again;
        copy.made_rank = rank_of(call, m->c->acts.at[i].event);
        copy.freed = fate.own ? fate.own : call->again;
        copy.freed_rank = fate.own ? 0 : rank_of(call, end);
        if (m->form == MP_CHECKPOINT_REENTRANT) re_enter(m, call, i, &fate, &copy);
        if (end == MP_NONE) continue; /* no recomputation needed */
        mp_vec_add(&m->change->edits.extras, copy);
        if (!fate.own) continue;
        if (fate.held) continue;
        uint32_t until = is_cast(m->c, block) ? backward : fate.output ? fate.output : ends[i - call->first];
        end_block(m, block, until < end ? until : end);
        m->change->bytes += copy.bytes;
        m->change->blocks++;
    }
    free(ends);
}

/* Checkpointing keeps the call's inputs until its backward is over: what its operators read, or without a log what is
 * freed while the call runs. */
static void keep_input(const struct maker *m, const struct call *call)
{
    const struct mp_model *model = m->c->model;
    const struct mp_operations *log = &m->c->nodes.log;
    uint64_t end_ns = time_at(m->c, call->end);
    for (uint32_t event = call->begin; !log->uses && event < call->end && event < model->events.count; event++) {
        uint32_t block = model->events.subject[event];
        if (model->events.type[event] != MP_EVENT_FREE || model->blocks.track[block] != m->c->history->track) continue;
        if (model->blocks.alloc_event[block] == MP_NONE || model->blocks.alloc_event[block] >= call->begin) continue;
        if (mp_phase_of_block(&m->c->phases, model, block) == MP_PHASE_FORWARD) end_block(m, block, call->over);
    }
    for (size_t at = mp_operations_before(log, time_at(m->c, call->begin)); at < log->ops.count; at++) {
        const struct mp_operation *op = &log->ops.at[at];
        if (op->ended_ns >= end_ns) break;
        for (size_t i = op->first; i < op->first + op->count; i++) {
            uint32_t block = log->uses[i]->block;
            if (log->uses[i]->how & MP_USE_READ && model->blocks.alloc_event[block] < call->begin &&
                model->blocks.free_event[block] < call->over && model->blocks.track[block] == m->c->history->track)
                end_block(m, block, call->over);
        }
    }
}

/* True if code behind the call uses an act's block. Without a log, true for the last block of the call. */
static bool is_result(const struct maker *m, const struct call *call, size_t act)
{
    uint32_t block = m->c->acts.at[act].block;
    size_t count;
    const struct mp_model_use *uses = mp_model_uses_of(m->c->model, block, &count);
    for (size_t i = 0; i < count; i++)
        if (mp_model_events_before(m->c->model, uses[i].time_ns, true) > call->end) return true;
    for (size_t i = act + 1; !count && i < call->first + call->count; i++)
        if (freed(m->c, i) > call->end) return false;
    return !count;
}

/* The blocks of a call that still live when memory runs out were saved for its backward, but for its result. */
static void let_go(const struct maker *m, const struct call *call)
{
    for (size_t i = call->first; i < call->first + call->count; i++) {
        if (freed(m->c, i) < m->c->oom || is_result(m, call, i)) continue;
        end_block(m, m->c->acts.at[i].block, call->end);
        m->change->bytes += m->c->model->blocks.bytes[m->c->acts.at[i].block];
        m->change->blocks++;
    }
    m->change->before_backward = true;
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

/* ---- saved tensors on the CPU */

/* Bytes of a whole copy of a tensor; 0: not known. */
static uint64_t bytes_of(const struct mp_checkpoints *c, const struct mp_model_use *use)
{
    struct mp_shape shape;
    if (!mp_shape_read(mp_model_text(c->model, use->shape), &shape)) return 0;
    const char *bits = shape.dtype + strcspn(shape.dtype, "0123456789");
    uint64_t bytes = *bits ? strtoull(bits, NULL, 10) / 8 : 1; /* "bool" */
    for (uint32_t i = 0; i < shape.dims; i++)
        bytes *= shape.most[i];
    return bytes;
}

/* Copies of the saved tensors that a node reads live while it runs. An operator that reads several views of a block, or
 * the only operator that reads one, needs as many copies. */
static void bring_back(const struct maker *m, const struct mp_node_run *run)
{
    const struct mp_operations *log = &m->c->nodes.log;
    size_t before = m->change->edits.extras.count;
    for (size_t at = run->first; at <= run->last; at++) {
        const struct mp_operation *op = &log->ops.at[at];
        size_t earlier = m->change->edits.extras.count;
        for (size_t i = op->first; i < op->first + op->count; i++) {
            const struct mp_model_use *use = log->uses[i];
            uint64_t bytes = bytes_of(m->c, use);
            bool known = !bytes || use->how & MP_USE_VIEW || !mp_node_reads_saved(m->c->model, &m->c->phases, use);
            for (size_t k = before; k < earlier && !known; k++)
                known = m->change->edits.extras.at[k].bytes == bytes;
            if (known) continue;
            struct mp_edit_extra copy = copy_of(m, use->block);
            copy.bytes = bytes;
            copy.made = run->event;
            copy.freed = run->end;
            mp_vec_add(&m->change->edits.extras, copy);
            m->change->bytes += bytes;
        }
    }
}

/* The call whose code runs at an event; NULL: none. */
static const struct call *call_at(const struct maker *m, uint32_t event)
{
    mp_vec_each (const struct call, call, &m->kind->calls)
        if (call->begin < event && event <= call->end) return call;
    return NULL;
}

/* A tensor that only nodes of the calls save is freed when forward is done with it. A call's inputs live as long as the
 * call. */
static void offload(struct maker *m)
{
    const struct mp_checkpoints *c = m->c;
    const struct mp_operations *log = &c->nodes.log;
    struct life {
        uint32_t left;         /* event at which its call lets go of it */
        uint32_t mine, others; /* 1 + the last run of a node that reads it: of the calls', of others; 0: none */
    } *lives = mp_alloc_zeroed(c->model->blocks.count + 1, sizeof *lives);
    mp_vec_each (const struct call, call, &m->kind->calls) {
        uint32_t *ends = mp_alloc_zeroed(call->count, sizeof *ends);
        if (call->over) find_ends(m->c, m->kind, &m->parts, call, ends);
        for (size_t i = 0; i < call->count; i++)
            lives[c->acts.at[call->first + i].block].left = ends[i];
        free(ends);
    }
    for (uint32_t number = 0; number < c->nodes.runs.count; number++) {
        const struct mp_node_run *run = &c->nodes.runs.at[number];
        uint32_t module = module_of(&m->kind->within, run->module);
        bool moved = module && module <= m->change->modules;
        size_t end = log->ops.at[run->last].first + log->ops.at[run->last].count;
        if (moved) bring_back(m, run);
        for (size_t i = log->ops.at[run->first].first; i < end; i++) {
            struct life *life = &lives[log->uses[i]->block];
            if (mp_node_reads_saved(c->model, &c->phases, log->uses[i]))
                *(moved ? &life->mine : &life->others) = number + 1;
        }
    }
    for (uint32_t block = 0; block < c->model->blocks.count; block++) {
        const struct life *life = &lives[block];
        uint32_t module, last = life->mine > life->others ? life->mine : life->others;
        uint32_t freed = c->model->blocks.free_event[block];
        if (!life->mine || c->parameters[block]) continue;
        if (last < c->nodes.runs.count && freed > c->nodes.runs.at[last].end) continue; /* a variable holds it */
        uint32_t turn = mp_phase_turn_of(&c->phases, c->nodes.runs.at[life->mine - 1].event);
        uint32_t until = last_use(c, turn, block, &module), others = life->others;
        const struct call *user = call_at(m, until);
        if (user && user->begin > c->model->blocks.alloc_event[block]) until = user->end;
        if (life->left > until) until = life->left;
        if (is_cast(c, block)) until = c->phases.turns.at[turn].first;
        if (others && c->nodes.runs.at[others - 1].end > until) until = c->nodes.runs.at[others - 1].end;
        if (until < freed) mp_change_end(m->change, block, until);
    }
    free(lives);
}

bool mp_checkpoints_offload(const struct mp_checkpoints *checkpoints)
{
    return checkpoints->nodes.log.uses && !checkpoints->keeps_rng;
}

void mp_checkpoints_change(struct mp_checkpoints *checkpoints, size_t number, size_t modules,
                           enum mp_checkpoint_form form, struct mp_change *change)
{
    const struct kind *kind = &checkpoints->kinds.at[number];
    struct maker m = {.c = checkpoints,
                      .kind = kind,
                      .births = mp_births_find(checkpoints->model, checkpoints->history),
                      .change = change,
                      .form = form};
    *change = (struct mp_change){.kind = MP_CHANGE_CHECKPOINT,
                                 .pattern = MP_CHANGE_CHECKPOINTING,
                                 .module = mp_text_copy(mp_intern_get(&checkpoints->texts, kind->pattern, NULL)),
                                 .modules = modules,
                                 .modules_of = kind->modules};
    if (form == MP_CHECKPOINT_OFFLOADED) offload(&m);
    mp_vec_each (const struct call, call, &kind->calls) {
        if (call->cut && call->module < modules) let_go(&m, call);
        if (!call->over || call->module >= modules || form == MP_CHECKPOINT_OFFLOADED) continue;
        make_again(&m, call);
        keep_input(&m, call);
        keep_rng(&m, call);
    }
    struct cost again = {0};
    for (size_t i = 0; i < modules && i < kind->modules; i++) {
        again.time += kind->costs[i].time;
        again.flops += kind->costs[i].flops;
    }
    change->share = kind->forward.time > 0 ? again.time / kind->forward.time : MP_SHARE_UNKNOWN;
    change->flops_share = kind->forward.flops > 0 ? again.flops / kind->forward.flops : MP_SHARE_UNKNOWN;
    change->by_bytes = checkpoints->by_bytes;
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

static uint32_t last_oom(const struct mp_model *model, uint16_t track)
{
    for (size_t i = model->noted.count; i--;)
        if (model->events.type[model->noted.at[i]] == MP_EVENT_OOM && model->events.track[model->noted.at[i]] == track)
            return model->noted.at[i];
    return MP_NONE;
}

struct mp_checkpoints *mp_checkpoints_find(const struct mp_model *model, const struct mp_torch_history *history)
{
    if (!model->blocks.module || !history->steps.count) return NULL;
    struct mp_checkpoints *c = mp_alloc_zeroed(1, sizeof *c);
    *c = (struct mp_checkpoints){.model = model,
                                 .history = history,
                                 .facts = mp_stack_facts(model),
                                 .root = mp_module_root(model),
                                 .oom = last_oom(model, history->track),
                                 .keeps_rng = !strncmp(mp_track_device(model, history->track), "cpu", 3)};
    struct mp_plan plan;
    mp_plan_find(model, &plan);
    c->planned = plan.planned;
    mp_plan_free(&plan);
    mp_phases_find(model, &c->phases);
    find_acts(c);
    fill_first(c);
    find_called(c);
    find_kinds(c);
    find_parameters(c);
    mp_nodes_find(model, &c->phases, &c->nodes);
    if (c->nodes.log.uses) c->work = find_work(c);
    c->by_bytes = c->work && !c->keeps_rng;
    c->marks = mp_alloc_zeroed(model->blocks.count + 1, 1);
    for (size_t i = 0; i < model->frames.count; i++)
        c->stops_early |= c->nodes.log.uses && c->facts->of_frame[i] & MP_FACT_WRAPS_CALL;
    for (size_t i = 0; i < c->kinds.count; i++) {
        struct kind *kind = &c->kinds.at[i];
        kind->within = find_modules(c, kind);
        find_calls(c, kind, &kind->within);
        find_backs(c, kind, &kind->within);
        find_costs(c, kind);
    }
    return c;
}

void mp_checkpoints_free(struct mp_checkpoints *checkpoints)
{
    if (!checkpoints) return;
    for (size_t i = 0; i < checkpoints->kinds.count; i++) {
        mp_vec_free(&checkpoints->kinds.at[i].calls);
        mp_map_free(&checkpoints->kinds.at[i].within);
        free(checkpoints->kinds.at[i].costs);
    }
    mp_vec_free(&checkpoints->kinds);
    mp_vec_free(&checkpoints->acts);
    mp_vec_free(&checkpoints->paths);
    mp_vec_free(&checkpoints->others);
    mp_map_free(&checkpoints->called);
    free(checkpoints->parameters);
    free(checkpoints->marks);
    mp_nodes_free(&checkpoints->nodes);
    mp_intern_free(&checkpoints->texts);
    mp_phases_free(&checkpoints->phases);
    free(checkpoints->work);
    free(checkpoints);
}
