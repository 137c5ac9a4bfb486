#include "analysis/advise/graphs.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/advise/module_calls.h"
#include "analysis/holders/holders.h"
#include "base/intern.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/search.h"
#include "model/module_path.h"
#include "model/stack_facts.h"

#define DEPTH_MOST  100 /* nested modules */
#define LEAST_SAVED 8   /* a graph has at least one of so many bytes that a pass makes */
#define PART_OFF    16  /* the parts of a block differ from it by at most one of so many bytes */
#define NUMBER_MOST 512 /* bytes of a block for one number: the smallest block of a CUDA allocator */

/* An allocation outside of backward. */
struct act {
    uint32_t event, block, end; /* end: the event by which it would be freed without a graph */
    uint32_t module;            /* string id of the module's path; 0: none */
    const char *path;           /* that; "": none */
};

/* A module's blocks in passes that a backward follows. */
struct saving {
    uint32_t made, saved; /* saved: backward frees them */
};

struct finder {
    const struct mp_model *model;
    const struct mp_torch_history *history;
    const struct mp_phases *phases;
    MP_VEC(struct act) acts; /* in forward or outside of all phases, in order */
    const struct mp_stack_facts *facts;
    const struct mp_torch_step **births;
    struct saving *savings;  /* by module */
    unsigned char *consumed; /* by turn: a pass whose blocks backward frees */
    unsigned char *trains;   /* by stack: such a pass's caller */
    unsigned char *wastes;   /* by stack: the caller of a pass whose graph was useless */
    unsigned char *joined;   /* by stack: a program keeps these blocks to join them */
    unsigned char *graphed;  /* by stack: the caller of a pass in whose graph a look found a block */
    unsigned char *local;    /* by stack: a look found a block in a variable of a running function */
    struct mp_change evaluation, batches, halves, gathered;
    uint64_t most; /* bytes that the graph keeps in one pass of the evaluation */
    bool trained;  /* some turn is backward */
};

static uint32_t event_of(const struct finder *f, size_t turn)
{
    return turn < f->phases->turns.count ? f->phases->turns.at[turn].first : MP_NONE;
}

static uint32_t freed(const struct finder *f, const struct act *act)
{
    return f->model->blocks.free_event[act->block];
}

static uint64_t bytes(const struct finder *f, const struct act *act)
{
    return f->model->blocks.bytes[act->block];
}

static uint32_t stack(const struct finder *f, const struct act *act)
{
    return f->model->blocks.stack[act->block];
}

static bool is_ours(const struct finder *f, uint32_t event)
{
    uint32_t block = f->model->events.subject[event];
    return f->model->events.type[event] == MP_EVENT_ALLOC && f->model->blocks.track[block] == f->history->track &&
           f->model->blocks.bytes[block] != MP_BYTES_UNKNOWN;
}

static void find_acts(struct finder *f)
{
    for (uint32_t event = 0; event < f->model->events.count; event++) {
        if (!is_ours(f, event)) continue;
        uint32_t block = f->model->events.subject[event], module = mp_model_module(f->model, block);
        enum mp_phase phase = mp_phase_of_block(f->phases, f->model, block);
        if (phase != MP_PHASE_FORWARD && phase != MP_PHASE_OUTSIDE) continue;
        const struct act act = {event, block, MP_NONE, module, module ? mp_model_text(f->model, module) : ""};
        mp_vec_add(&f->acts, act);
    }
}

static size_t act_at(const struct finder *f, uint32_t event)
{
    return MP_COUNT_BEFORE(f->acts.count, i, f->acts.at[i].event < event);
}

static uint32_t event_at(const struct finder *f, size_t act)
{
    return act < f->acts.count ? f->acts.at[act].event : (uint32_t)f->model->events.count;
}

/* ---- a forward without a backward */

/* The length of the first `parts` parts of a path, at most its length. */
static size_t prefix_of(const char *path, size_t parts)
{
    const char *at = path;
    while (parts-- && *at) {
        at += *at == '.';
        at += strcspn(at, ".");
    }
    return (size_t)(at - path);
}

/* True if a statement of the module itself made the block, not an inner module. */
static bool is_own(const struct act *act, size_t parts)
{
    return !act->path[prefix_of(act->path, parts)];
}

/* True if both blocks are from one statement of the module at that depth, or from one inner module. */
static bool is_same_part(const struct finder *f, const struct act *a, const struct act *b, size_t parts)
{
    if (is_own(a, parts) != is_own(b, parts)) return false;
    if (is_own(a, parts)) return mp_module_line(f->model, stack(f, a), 0) == mp_module_line(f->model, stack(f, b), 0);
    size_t length = prefix_of(a->path, parts + 1);
    return length == prefix_of(b->path, parts + 1) && !memcmp(a->path, b->path, length);
}

static size_t end_of_part(const struct finder *f, size_t first, size_t end, size_t parts)
{
    size_t next = first + 1;
    while (next < end && is_same_part(f, &f->acts.at[first], &f->acts.at[next], parts))
        next++;
    return next;
}

/* Sets the ends of all blocks of a module except its result, the last block that outlives its call. A variable holds a
 * part's result until the module's next statement is over; in a Sequential, until the next part is over. SIZE_MAX: no
 * result. */
static size_t find_ends(struct finder *f, size_t first, size_t end, size_t parts)
{
    size_t last = SIZE_MAX, waiting = first; /* waiting: from here on, results have no end yet */
    for (size_t i = first, next; i < end; i = next) {
        bool own = is_own(&f->acts.at[i], parts);
        next = end_of_part(f, i, end, parts);
        uint32_t over = event_at(f, next);
        size_t result = SIZE_MAX;
        if (!own && parts < DEPTH_MOST) {
            result = find_ends(f, i, next, parts + 1);
        } else {
            for (size_t k = i; k < next; k++) {
                f->acts.at[k].end = over;
                if (freed(f, &f->acts.at[k]) > over) result = k;
            }
        }
        bool chained = !own && last != SIZE_MAX && !is_own(&f->acts.at[last], parts);
        if (chained) f->acts.at[last].end = over;
        for (size_t k = waiting; own && k < i; k++)
            if (f->acts.at[k].end == MP_NONE) f->acts.at[k].end = over;
        if (own) waiting = i;
        if (result != SIZE_MAX) f->acts.at[result].end = MP_NONE;
        last = result;
    }
    for (size_t k = first; k < end; k++)
        if (k != last && f->acts.at[k].end == MP_NONE) f->acts.at[k].end = event_at(f, end);
    return last;
}

static bool is_freed_in_backward(const struct finder *f, const struct act *act)
{
    uint32_t turn = freed(f, act) == MP_NONE ? MP_NONE : mp_phase_turn_of(f->phases, freed(f, act));
    return turn != MP_NONE && mp_phase_is_backward(f->phases->turns.at[turn].phase);
}

static uint32_t caller(const struct finder *f, size_t first)
{
    return mp_module_caller(f->model, stack(f, &f->acts.at[first]));
}

/* Finds passes that a backward follows, and what their modules save for it. Backward also frees a few results of passes
 * without a graph, such as a teacher's. */
static void find_consumed(struct finder *f)
{
    for (size_t turn = 0; turn < f->phases->turns.count; turn++) {
        size_t first = act_at(f, event_of(f, turn)), end = act_at(f, event_of(f, turn + 1));
        uint64_t made = 0, saved = 0;
        if (f->phases->turns.at[turn].phase != MP_PHASE_FORWARD || first == end) continue;
        for (size_t i = first; i < end; i++) {
            made += bytes(f, &f->acts.at[i]);
            saved += is_freed_in_backward(f, &f->acts.at[i]) ? bytes(f, &f->acts.at[i]) : 0;
        }
        f->consumed[turn] = saved > 0;
        if (saved * LEAST_SAVED < made) continue;
        f->trains[caller(f, first)] = true;
        for (size_t i = first; i < end; i++) {
            f->savings[f->acts.at[i].module].made++;
            f->savings[f->acts.at[i].module].saved += is_freed_in_backward(f, &f->acts.at[i]);
        }
    }
}

/* The share of a module's blocks that backward would need, as far as trainings show. */
static double share_of(const struct finder *f, const struct act *act)
{
    const struct saving *saving = &f->savings[act->module];
    return saving->made ? (double)saving->saved / saving->made : 1;
}

/* The time between two allocations in which a pass's block is freed, if the block outlives the pass; SIZE_MAX: it does
 * not. */
static size_t gap_of(const struct finder *f, size_t act, uint32_t done)
{
    return freed(f, &f->acts.at[act]) > done ? act_at(f, freed(f, &f->acts.at[act])) : SIZE_MAX;
}

/* Finds the time in which most of a pass's blocks are freed that outlive it. */
static size_t common_gap(const struct finder *f, size_t first, size_t end, size_t result, uint32_t done)
{
    size_t common = SIZE_MAX, votes = 0;
    for (size_t i = first; i < end; i++) {
        size_t gap = i == result ? SIZE_MAX : gap_of(f, i, done);
        if (gap == SIZE_MAX) continue;
        if (!votes) common = gap;
        votes += gap == common ? 1 : (size_t)-1;
    }
    return common;
}

/* True if a backward between a pass and the end of its graph may have used the graph, as with retain_graph=True. Other
 * backwards free the blocks of later passes. The graph of a training's last step may live to the end, too; so does the
 * last one of a loop without backward. */
static bool is_retained(struct finder *f, size_t turn, uint32_t over)
{
    uint32_t by = caller(f, act_at(f, event_of(f, turn)));
    unsigned char *trains = &f->trains[by];
    bool ends = over == MP_NONE || f->phases->last_alloc == MP_NONE || over > f->phases->last_alloc;
    bool follows = false, other = false; /* a backward runs; it has blocks of another pass */
    if (ends && (*trains || (over == MP_NONE && !f->trained && !f->wastes[by]))) return true;
    while (f->trained && ++turn < f->phases->turns.count && event_of(f, turn) < over) {
        unsigned phase = f->phases->turns.at[turn].phase;
        if (phase == MP_PHASE_FORWARD) {
            other = f->consumed[turn] || (other && !follows);
            follows = false;
        }
        follows |= mp_phase_is_backward(phase);
        *trains |= follows && !other;
        if (follows && !other) return true;
    }
    return false;
}

/* Marks callers of passes whose graphs the looks found, and stacks whose blocks lay in variables. */
static void find_graphed(struct finder *f)
{
    mp_vec_each (const struct mp_model_holder, row, &f->model->holders) {
        uint32_t born = f->model->blocks.alloc_event[row->block];
        const char *path = mp_model_text(f->model, row->path);
        if (row->kind == MP_HOLDER_LOCAL && !strchr(path, '[')) f->local[f->model->blocks.stack[row->block]] = true;
        if (born == MP_NONE || !is_ours(f, born) || !strstr(path, ".grad_fn")) continue;
        size_t turn = mp_phase_turn_of(f->phases, born), first = act_at(f, event_of(f, turn));
        if (turn < f->phases->turns.count && f->phases->turns.at[turn].phase == MP_PHASE_FORWARD &&
            first < f->acts.count)
            f->graphed[caller(f, first)] = true;
    }
}

static bool is_under(const char *path, const char *module)
{
    return mp_module_is_under(path, module, strlen(module));
}

/* The event at which the module's call is over that made a block of a pass. A variable of its forward may hold the
 * block until then. */
static uint32_t end_of_call(const struct finder *f, size_t act, size_t end)
{
    size_t next = act + 1;
    while (next < end && is_under(f->acts.at[next].path, f->acts.at[act].path))
        next++;
    return event_at(f, next);
}

/* Judges one call of the network. It made a graph if half of the blocks that a training would save are freed together
 * after it, between two allocations; a cache of keys and values is less. A look that found a graph proves it. The graph
 * was useless if no backward ran before that, or a backward of another pass. */
static void look_at_pass(struct finder *f, size_t turn)
{
    size_t first = act_at(f, event_of(f, turn)), end = act_at(f, event_of(f, turn + 1)), together = 0;
    uint64_t kept = 0, made = 0;
    uint32_t over = 0;
    double expected = 0;
    if (end - first < 3 || f->consumed[turn]) return;
    size_t result = find_ends(f, first, end, 0);
    for (size_t i = first; i < end; i++) {
        uint32_t last = f->local[stack(f, &f->acts.at[i])] ? end_of_call(f, i, end) : 0;
        if (f->acts.at[i].end < last) f->acts.at[i].end = last;
    }
    uint32_t done = f->acts.at[end - 1].event; /* the call's last allocation */
    size_t gap = common_gap(f, first, end, result, done);
    for (size_t i = first; i < end; i++) {
        const struct act *act = &f->acts.at[i];
        if (i == result) continue;
        expected += share_of(f, act);
        made += bytes(f, act);
        if (gap == SIZE_MAX || gap_of(f, i, done) != gap) continue;
        together++;
        kept += bytes(f, act);
        if (freed(f, act) > over) over = freed(f, act);
    }
    bool is_graph = (double)together * 2 > expected || f->graphed[caller(f, first)];
    if (together < 2 || !is_graph || kept * LEAST_SAVED < made || is_retained(f, turn, over)) return;
    for (size_t i = first; i < end; i++)
        if (i != result && gap_of(f, i, done) == gap && f->acts.at[i].end < freed(f, &f->acts.at[i]))
            mp_change_end(&f->evaluation, f->acts.at[i].block, f->acts.at[i].end);
    f->evaluation.passes++;
    f->wastes[caller(f, first)] = true;
    if (kept <= f->most) return;
    f->most = f->evaluation.bytes = kept;
    f->evaluation.stack = caller(f, first);
}

/* The length of the name that holds a path's graph: a variable or an attribute, without keys of entries. */
static size_t name_of(const char *path)
{
    size_t length = mp_holder_variable(path);
    const char *graph = strstr(path, ".grad_fn");
    length += strcspn(path + length, "[ ");
    return graph && (size_t)(graph - path) < length ? (size_t)(graph - path) : length;
}

/* Names the variable or attribute through which the looks found at least half of the graphs' bytes. */
static void name_holder(struct finder *f)
{
    const struct mp_model *model = f->model;
    struct mp_intern variables = {0};
    struct mp_map sums = {0}; /* by number of a variable: bytes */
    uint64_t most = 0, all = 0;
    const char *best = NULL;
    unsigned char *ends = mp_alloc_zeroed(model->blocks.count + 1, 1);
    mp_vec_each (const struct mp_edit_end, end, &f->evaluation.edits.ends) {
        all += ends[end->block] ? 0 : model->blocks.bytes[end->block];
        ends[end->block] = 1;
    }
    for (size_t i = 0; i < model->holders.count; i++) {
        uint32_t block = model->holders.at[i].block;
        const char *path = mp_model_text(model, model->holders.at[i].path);
        unsigned kind = model->holders.at[i].kind;
        if (!ends[block] || kind == MP_HOLDER_UNKNOWN || kind == MP_HOLDER_NATIVE || kind == MP_HOLDER_TRACEBACK)
            continue;    /* an error's frames hold what was alive when it came */
        ends[block] = 0; /* a later look finds the same block again */
        uint64_t variable = mp_intern_add(&variables, path, name_of(path));
        uint64_t *sum = mp_map_at(&sums, variable + 1, NULL);
        *sum += model->blocks.bytes[block];
        if (*sum <= most) continue;
        most = *sum;
        best = path;
    }
    if (best && most * 2 >= all) f->evaluation.variable = mp_text_copy_part(best, name_of(best));
    mp_map_free(&sums);
    mp_intern_free(&variables);
    free(ends);
}

/* ---- an evaluation, whose batch can be smaller */

static size_t next_forward(const struct finder *f, size_t turn)
{
    do
        turn++;
    while (turn < f->phases->turns.count && f->phases->turns.at[turn].phase != MP_PHASE_FORWARD);
    return turn;
}

static void halve(struct finder *f, const struct act *act)
{
    const struct mp_edit_end gone = {.block = act->block, .gone = true};
    const struct mp_torch_step *birth = f->births[act->block];
    const struct mp_edit_extra half = {.bytes = bytes(f, act) / 2,
                                       .made = act->event,
                                       .freed = freed(f, act),
                                       .stream = birth ? birth->stream : 0,
                                       .pool = birth ? birth->pool : 0};
    mp_vec_add(&f->halves.edits.ends, gone);
    mp_vec_add(&f->halves.edits.extras, half);
    f->halves.blocks++;
    if (bytes(f, act) <= f->halves.bytes) return;
    f->halves.bytes = bytes(f, act);
    f->halves.stack = mp_module_caller(f->model, stack(f, act));
}

/* A pass belongs to an evaluation if the next pass comes before backward, and few of its blocks wait for backward.
 * Blocks freed by the end of the next pass are proportional to the batch. Workspaces, copies of parameters and results
 * that are joined over the batches are not. */
static void look_at_evaluation(struct finder *f, size_t turn)
{
    const uint32_t fixed = MP_FACT_WORKSPACE | MP_FACT_CASTS | MP_FACT_JOINS;
    size_t next = next_forward(f, turn), behind = next_forward(f, next), waiting = 0;
    uint32_t backward = f->phases->turns.at[turn].backward;
    size_t first = act_at(f, event_of(f, turn)), end = act_at(f, event_of(f, next));
    if (backward != MP_NONE && backward < next) return;
    for (size_t i = first; backward != MP_NONE && i < end; i++)
        waiting += freed(f, &f->acts.at[i]) >= event_of(f, backward);
    if (waiting * 4 > end - first) return;
    for (size_t i = first; i < end; i++) {
        const struct act *act = &f->acts.at[i];
        if (bytes(f, act) > NUMBER_MOST && freed(f, act) < event_of(f, behind) &&
            !(f->facts->of_stack[stack(f, act)] & fixed) && !f->joined[stack(f, act)])
            halve(f, act);
    }
}

/* ---- outputs that are gathered */

struct living {
    uint64_t bytes;
    uint32_t count;
    bool is_output; /* of a module */
};

static bool is_about(uint64_t bytes, uint64_t wanted)
{
    return (bytes > wanted ? bytes - wanted : wanted - bytes) <= wanted / PART_OFF;
}

/* A block that the program joins, outside of modules: of the same block for earlier batches and an output of a module,
 * or of a list of such outputs. After the output, a module may have made other blocks, such as a loss. `living`: by
 * stack. */
static void look_at_join(struct finder *f, uint32_t block, const struct living *living)
{
    uint32_t own = f->model->blocks.stack[block], list = 0;
    uint64_t whole = f->model->blocks.bytes[block],
             added = living[own].count == 1 && living[own].bytes < whole ? whole - living[own].bytes : 0;
    bool grows = false;
    for (uint32_t i = 1; !grows && !list && i < f->model->stacks.count; i++) {
        if (!living[i].is_output || !living[i].count) continue;
        grows = added > NUMBER_MOST && is_about(living[i].bytes / living[i].count, added);
        if (!grows && living[i].count > 2 && is_about(living[i].bytes, whole)) list = i;
    }
    if (!grows && !list) return;
    f->joined[list] = list > 0;
    f->gathered.stack = own;
    f->gathered.blocks++;
    mp_vec_add(&f->gathered.edits.ends, ((struct mp_edit_end){.block = block, .gone = true}));
}

static void find_gathered(struct finder *f)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    struct living *living = mp_alloc_zeroed(f->model->stacks.count + 1, sizeof *living);
    for (uint32_t event = 0; event < f->model->events.count; event++) {
        uint32_t block = f->model->events.subject[event];
        bool begins = is_ours(f, event), dies = f->model->events.type[event] == MP_EVENT_FREE;
        if (!begins && (!dies || blocks->track[block] != f->history->track || blocks->alloc_event[block] == MP_NONE))
            continue;
        struct living *of = &living[blocks->stack[block]];
        if (begins && f->facts->of_stack[blocks->stack[block]] & MP_FACT_JOINS && blocks->bytes[block] > NUMBER_MOST &&
            mp_phase_of_block(f->phases, f->model, block) == MP_PHASE_OUTSIDE)
            look_at_join(f, block, living);
        of->is_output |= begins && mp_model_module(f->model, block);
        of->count += begins ? 1 : (uint32_t)-1;
        of->bytes += begins ? blocks->bytes[block] : -blocks->bytes[block];
    }
    for (size_t i = 0; i < f->acts.count; i++) {
        const struct act *act = &f->acts.at[i];
        uint32_t next =
            f->joined[stack(f, act)] ? event_of(f, next_forward(f, mp_phase_turn_of(f->phases, act->event))) : MP_NONE;
        if (next < freed(f, act)) mp_change_end(&f->gathered, act->block, next);
    }
    free(living);
}

/* ---- micro-batches that wait for one backward */

static bool is_outside(const struct finder *f, const struct act *act)
{
    return mp_phase_of_block(f->phases, f->model, act->block) == MP_PHASE_OUTSIDE;
}

/* Finds the loss: the first number made outside of modules between two events that lives until backward. Returns the
 * loss's stack; 0: none. `sought`: only a loss of this stack counts; 0: any. `outside`: the number of blocks outside of
 * modules that live until backward. */
static uint32_t loss_of(const struct finder *f, size_t first, size_t end, uint32_t backward, uint32_t sought,
                        size_t *outside)
{
    uint32_t loss = 0;
    *outside = 0;
    for (size_t i = first; i < end; i++) {
        const struct act *act = &f->acts.at[i];
        if (freed(f, act) <= backward || !is_outside(f, act)) continue;
        if (!loss && bytes(f, act) <= NUMBER_MOST && (!sought || stack(f, act) == sought)) loss = stack(f, act);
        ++*outside;
    }
    return loss;
}

/* True if the program makes data between a loss and the next pass. Otherwise the next pass may continue this one, like
 * the steps of a recurrent network. */
static bool has_data(const struct finder *f, size_t first, size_t end, uint32_t loss)
{
    while (end-- > first && stack(f, &f->acts.at[end]) != loss)
        if (is_outside(f, &f->acts.at[end]) && bytes(f, &f->acts.at[end]) > NUMBER_MOST) return true;
    return false;
}

static void take_batches(struct finder *f, const size_t *starts, size_t count, uint32_t loss, size_t backward,
                         size_t stop)
{
    uint32_t begin = event_of(f, backward), over = event_of(f, stop), second = event_at(f, starts[1]);
    if (over == MP_NONE) over = (uint32_t)f->model->events.count;
    for (size_t batch = 0; batch + 1 < count; batch++)
        for (size_t i = starts[batch]; i < starts[batch + 1]; i++)
            if (freed(f, &f->acts.at[i]) >= begin && freed(f, &f->acts.at[i]) < over)
                mp_change_end(&f->batches, f->acts.at[i].block, event_at(f, starts[batch + 1]));
    for (uint32_t event = begin; event < over; event++) {
        if (!is_ours(f, event)) continue;
        uint32_t block = f->model->events.subject[event];
        if (!mp_phase_is_backward(mp_phase_of_block(f->phases, f->model, block)) ||
            f->model->blocks.free_event[block] < over)
            continue;
        const struct mp_edit_extra gradient = {.bytes = f->model->blocks.bytes[block], .made = second, .freed = event};
        mp_vec_add(&f->batches.edits.extras, gradient);
    }
    if (!f->batches.stack) f->batches.stack = loss;
}

/* Finds similar passes, each with its own loss, whose graphs live until the same backward. After the last pass, a
 * program may make something for each pass, such as rewards of an episode. The losses then cannot exist sooner. */
static void look_at_batches(struct finder *f, size_t from, size_t backward, size_t stop)
{
    MP_VEC(size_t) starts = {0};
    uint32_t begin = event_of(f, backward), loss = 0;
    size_t least = SIZE_MAX, outside = 0;
    bool alike = true;
    for (size_t turn = from; turn < backward; turn++) {
        if (f->phases->turns.at[turn].phase != MP_PHASE_FORWARD) continue;
        size_t act = act_at(f, event_of(f, turn));
        if (act >= f->acts.count || f->acts.at[act].event >= begin) continue;
        const struct act *first = starts.count ? &f->acts.at[starts.at[0]] : &f->acts.at[act];
        if (stack(f, first) == stack(f, &f->acts.at[act])) mp_vec_add(&starts, act);
    }
    for (size_t i = 0; alike && i < starts.count; i++) {
        size_t end = i + 1 < starts.count ? starts.at[i + 1] : act_at(f, begin);
        loss = loss_of(f, starts.at[i], end, begin, loss, &outside);
        alike = loss && (i + 1 == starts.count || has_data(f, starts.at[i], end, loss));
        if (outside < least) least = outside;
    }
    if (alike && starts.count > 1 && outside < least + starts.count)
        take_batches(f, starts.at, starts.count, loss, backward, stop);
    mp_vec_free(&starts);
}

/* ---- a network without a use for its gradients */

static bool is_made_under(const struct finder *f, uint32_t block, const char *module)
{
    uint32_t of = mp_model_module(f->model, block);
    return of && is_under(mp_model_text(f->model, of), module);
}

/* True if a block that the network's backward makes still lives when another module's backward makes one: it is a
 * gradient that flows on. `gone`: by block, true for gradients of parameters. */
static bool does_flow(const struct finder *f, const char *module, const unsigned char *gone)
{
    const struct mp_model *model = f->model;
    size_t live = 0;
    unsigned char *counted = mp_alloc_zeroed(model->blocks.count + 1, 1);
    bool flows = false;
    for (uint32_t event = 0; event < model->events.count && !flows; event++) {
        uint32_t block = model->events.subject[event];
        bool dies = model->events.type[event] == MP_EVENT_FREE && model->blocks.track[block] == f->history->track;
        if (dies && counted[block]) live--;
        if (!is_ours(f, event) || !mp_phase_is_backward(mp_phase_of_block(f->phases, model, block)) || gone[block])
            continue;
        bool under = is_made_under(f, block, module);
        flows = live && !under && mp_model_module(model, block);
        counted[block] = under;
        live += under;
    }
    free(counted);
    return flows;
}

bool mp_graphs_freeze(const struct mp_model *model, const struct mp_torch_history *history,
                      const struct mp_phases *phases, const char *module, struct mp_change *change)
{
    struct finder f = {.model = model, .history = history, .phases = phases};
    unsigned char *gone = mp_alloc_zeroed(model->blocks.count + 1, 1);
    size_t parts = 1;
    for (const char *at = module; *at; at++)
        parts += *at == '.';
    mp_vec_each (const struct mp_edit_end, end, &change->edits.ends)
        gone[end->block] = 1;
    bool flows = does_flow(&f, module, gone);
    if (!flows) find_acts(&f);
    for (size_t first = 0, end; first < f.acts.count; first = end) {
        for (end = first + 1;
             end < f.acts.count && is_under(f.acts.at[first].path, module) && is_under(f.acts.at[end].path, module);)
            end++;
        if (!is_under(f.acts.at[first].path, module)) continue;
        size_t result = find_ends(&f, first, end, parts);
        for (size_t i = first; i < end; i++)
            if (i != result && is_freed_in_backward(&f, &f.acts.at[i]) && f.acts.at[i].end < freed(&f, &f.acts.at[i]))
                mp_change_end(change, f.acts.at[i].block, f.acts.at[i].end);
    }
    for (uint32_t block = 0; !flows && block < model->blocks.count; block++) {
        uint32_t born = model->blocks.alloc_event[block];
        if (born == MP_NONE || !is_ours(&f, born) || gone[block] || !is_made_under(&f, block, module) ||
            !mp_phase_is_backward(mp_phase_of_block(phases, model, block)))
            continue;
        mp_vec_add(&change->edits.ends, ((struct mp_edit_end){.block = block, .gone = true}));
    }
    mp_vec_free(&f.acts);
    free(gone);
    return !flows;
}

static void propose(struct mp_change *change, struct mp_changes *changes)
{
    mp_edits_sort(&change->edits);
    if (change->edits.ends.count)
        mp_vec_add(changes, *change);
    else
        mp_edits_free(&change->edits);
}

void mp_graphs_propose(const struct mp_model *model, const struct mp_torch_history *history,
                       const struct mp_phases *phases, struct mp_changes *changes)
{
    struct finder f = {.model = model,
                       .history = history,
                       .phases = phases,
                       .facts = mp_stack_facts(model),
                       .births = mp_births_find(model, history),
                       .evaluation = {.kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_NO_GRAD},
                       .batches = {.kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_BACKWARD_SOONER},
                       .halves = {.kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_SMALLER_BATCH},
                       .gathered = {.kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_GATHERED}};
    size_t from = 0;
    for (size_t i = 0; i < phases->turns.count; i++)
        f.trained |= mp_phase_is_backward(phases->turns.at[i].phase);
    f.savings = mp_alloc_zeroed(model->strings.count + 1, sizeof *f.savings);
    f.consumed = mp_alloc_zeroed(phases->turns.count + 1, 1);
    f.trains = mp_alloc_zeroed(model->stacks.count + 1, 1);
    f.wastes = mp_alloc_zeroed(model->stacks.count + 1, 1);
    f.joined = mp_alloc_zeroed(model->stacks.count + 1, 1);
    f.graphed = mp_alloc_zeroed(model->stacks.count + 1, 1);
    f.local = mp_alloc_zeroed(model->stacks.count + 1, 1);
    find_acts(&f);
    find_consumed(&f);
    find_gathered(&f);
    find_graphed(&f);
    for (size_t i = 0; i < phases->turns.count; i++) {
        unsigned phase = phases->turns.at[i].phase;
        if (phase == MP_PHASE_FORWARD) look_at_pass(&f, i);
        if (phase == MP_PHASE_FORWARD && f.trained) look_at_evaluation(&f, i);
        if (!mp_phase_is_backward(phase)) continue;
        size_t stop = i;
        while (stop < phases->turns.count &&
               (mp_phase_is_backward(phases->turns.at[stop].phase) || phases->turns.at[stop].phase == MP_PHASE_OUTSIDE))
            stop++;
        look_at_batches(&f, from, i, stop);
        from = stop;
        i = stop - 1;
    }
    name_holder(&f);
    propose(&f.evaluation, changes);
    propose(&f.batches, changes);
    propose(&f.halves, changes);
    propose(&f.gathered, changes);
    mp_vec_free(&f.acts);
    free(f.births);
    free(f.savings);
    free(f.consumed);
    free(f.trains);
    free(f.wastes);
    free(f.joined);
    free(f.graphed);
    free(f.local);
}
