#include "analysis/advise/lifetimes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/advise/graphs.h"
#include "analysis/advise/logits.h"
#include "analysis/categories/categories.h"
#include "analysis/categories/phases.h"
#include "analysis/holders/holders.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/search.h"
#include "base/words.h"
#include "model/module_path.h"
#include "model/stack_facts.h"
#include "model/track.h"
#include "model/uses.h"

#define ACCUMULATES "AccumulateGrad" /* a node of autograd */
#define MOST_IDLE   32               /* variables */

#define LISTS_OF_ADAM (MP_FACT_LISTS | MP_FACT_ADAM)
#define SMALL_STATE   4096 /* elements: both libraries keep a smaller state as it is */
#define SCALED        256  /* elements with a scale of their own */
#define ROOM_OF_ROWS  3    /* copies of a gradient's rows in a step of SparseAdam, measured with PyTorch 1.13 */

/*
 * A training needs gradients from backward to the end of the optimizer's step, and activations from forward to
 * backward. The end of an optimizer's step (an update) ends both needs. Blocks that live on are held by a name or a
 * parameter.
 */

struct update {
    uint32_t event;             /* the step is over just before this event */
    uint32_t forward, backward; /* events with which the next forward and backward begin; MP_NONE */
};

struct finder {
    const struct mp_model *model;
    const struct mp_torch_history *history;
    struct mp_changes *changes;
    const struct mp_stack_facts *facts;
    struct mp_phases phases;
    struct mp_categories *categories;
    MP_VEC(struct update) updates;
    uint32_t *backwards;
    struct mp_idle_view end;
    unsigned char *idle; /* by block: true if an idle variable's change already ends it */
};

/* ---- updates */

static bool is_forward(unsigned phase)
{
    return phase == MP_PHASE_FORWARD;
}

static bool is_end_of_step(const struct mp_model *model, uint32_t event)
{
    return model->events.type[event] == MP_EVENT_STEP &&
           !strcmp(mp_model_text(model, model->notes.at[model->events.subject[event]].name), MP_TORCH_STEP);
}

/* The event at which a turn shows that a step is over: after the optimizer's allocations, or after the mark of the
 * step's end. MP_NONE. */
static uint32_t end_at(const struct finder *f, size_t turn)
{
    const struct mp_phase_turn *at = &f->phases.turns.at[turn];
    uint32_t next = turn + 1 < f->phases.turns.count ? at[1].first : MP_NONE;
    if (at->phase == MP_PHASE_OPTIMIZER) return next;
    return at->phase == MP_PHASE_BOUNDARY && is_end_of_step(f->model, at->first) ? at->first + 1 : MP_NONE;
}

static void find_updates(struct finder *f)
{
    bool fresh = true; /* there was a forward or backward since the last update */
    for (size_t i = 0; i < f->phases.turns.count; i++) {
        unsigned phase = f->phases.turns.at[i].phase;
        uint32_t end = end_at(f, i), first = f->phases.turns.at[i].first;
        if (is_forward(phase) || mp_phase_is_backward(phase)) {
            fresh = true;
            for (size_t k = f->updates.count; k--;) {
                uint32_t *begins = is_forward(phase) ? &f->updates.at[k].forward : &f->updates.at[k].backward;
                if (*begins != MP_NONE) break;
                *begins = first;
            }
        }
        if (end == MP_NONE) continue;
        const struct update update = {end, MP_NONE, MP_NONE};
        if (!fresh && f->updates.count) f->updates.count--;
        mp_vec_add(&f->updates, update);
        fresh = false;
    }
}

/* The index of the first update after an event, or updates.count. */
static size_t update_after(const struct finder *f, uint32_t event)
{
    return MP_COUNT_BEFORE(f->updates.count, i, f->updates.at[i].event <= event);
}

static uint32_t event_of(const struct finder *f, size_t update)
{
    return update < f->updates.count ? f->updates.at[update].event : MP_NONE;
}

/* ---- blocks */

static bool is_ours(const struct finder *f, uint32_t block)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    return blocks->track[block] == f->history->track && blocks->alloc_event[block] != MP_NONE &&
           blocks->bytes[block] != MP_BYTES_UNKNOWN;
}

static uint32_t end_of(const struct finder *f, uint32_t block)
{
    return f->model->blocks.free_event[block]; /* MP_NONE is later than any event */
}

static void propose(struct finder *f, struct mp_change *change)
{
    if (change->edits.ends.count) {
        mp_edits_sort(&change->edits);
        /* Added blocks were never recorded; when forward would free blocks is inferred. */
        change->exact = !change->edits.extras.count && !(change->module && !change->flows);
        mp_vec_add(f->changes, *change);
    } else {
        mp_edits_free(&change->edits);
        free(change->module);
    }
}

/* ---- gradients */

static bool is_gradient(const struct finder *f, uint32_t block, size_t update)
{
    return is_ours(f, block) && update < f->updates.count &&
           mp_phase_is_backward(mp_phase_of_block(&f->phases, f->model, block)) &&
           mp_category_of(f->categories, block, event_of(f, update)) == MP_CATEGORY_GRADIENTS;
}

/* Kept gradients of one module and size. */
struct keepers {
    uint64_t bytes;
    uint32_t kept, seen; /* seen: blocks of a step that are added to them */
};

/* Without a log, blocks of the gradients' modules and sizes that a step's backward makes and frees are added to them.
 * For each one that is missing, there is a gradient from the begin of backward on. */
static void replace_alike(struct finder *f, const uint32_t *number, struct mp_change *change)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    MP_VEC(struct keepers) keepers = {0};
    struct mp_map by_key = {0}; /* 1 + the index */
    size_t current = 0;
    for (uint32_t block = 0; block <= blocks->count; block++) {
        bool ours = block < blocks->count && is_ours(f, block);
        size_t update = ours ? update_after(f, blocks->alloc_event[block]) : f->updates.count;
        if (!ours && block < blocks->count) continue;
        for (; current < update; current++) {
            mp_vec_each (struct keepers, at, &keepers) {
                const struct mp_edit_extra extra = {.bytes = at->bytes,
                                                    .made = current ? f->updates.at[current - 1].backward : MP_NONE,
                                                    .freed = event_of(f, current)};
                for (; at->seen < at->kept && extra.made < extra.freed; at->seen++)
                    mp_vec_add(&change->edits.extras, extra);
                at->seen = 0;
            }
        }
        if (block == blocks->count || !mp_phase_is_backward(mp_phase_of_block(&f->phases, f->model, block))) continue;
        uint64_t *at = mp_map_at(&by_key, blocks->bytes[block] << 24 ^ mp_model_module(f->model, block), NULL);
        if (number[block] && !*at) {
            mp_vec_add(&keepers, ((struct keepers){.bytes = blocks->bytes[block]}));
            *at = keepers.count;
        }
        struct keepers *of = *at ? &keepers.at[*at - 1] : NULL;
        if (of && number[block]) {
            of->kept++;
            of->seen++;
        } else if (of && of->seen < of->kept && end_of(f, block) < event_of(f, update)) {
            of->seen++;
            mp_change_end(change, block, event_of(f, update));
        }
    }
    mp_map_free(&by_key);
    mp_vec_free(&keepers);
}

/* True if autograd made the block itself: a copy of a gradient that something else uses, too, or room for copying. */
static bool is_copy(const struct mp_model *model, const struct mp_operations *log, uint32_t block)
{
    uint32_t by = block < model->blocks.count ? log->made_by[block] : 0;
    return by && log->ops.at[by - 1].node && strstr(mp_model_text(model, log->ops.at[by - 1].node), ACCUMULATES);
}

/* A step that adds to a kept gradient makes a block for that. Without the kept one, autograd takes this block, or
 * copies it if it copied the kept one. `number`: by block, nonzero for a kept gradient. */
static void replace_kept(struct finder *f, const uint32_t *number, struct mp_change *change)
{
    const struct mp_model *model = f->model;
    struct mp_operations log = {0};
    uint32_t *done = mp_alloc_zeroed(model->blocks.count + 1, sizeof *done); /* 1 + the last step */
    mp_operations_find(model, &log);
    mp_vec_each (const struct mp_operation, op, &log.ops) {
        uint32_t kept = MP_NONE, added = MP_NONE, at = mp_model_events_before(model, op->ended_ns, false);
        size_t update = update_after(f, at);
        if (!op->node || !strstr(mp_model_text(model, op->node), ACCUMULATES)) continue;
        for (size_t i = op->first; i < op->first + op->count; i++) {
            uint32_t block = log.uses[i]->block;
            if (log.uses[i]->how & MP_USE_WRITTEN && number[block]) kept = block;
            if (!(log.uses[i]->how & MP_USE_WRITTEN)) added = block;
        }
        if (kept == MP_NONE || added == MP_NONE || update == f->updates.count || done[kept] == update + 1 ||
            update_after(f, model->blocks.alloc_event[kept]) == update)
            continue;
        done[kept] = (uint32_t)update + 1;
        const struct mp_edit_extra copy = {
            .bytes = model->blocks.bytes[kept], .made = at, .freed = event_of(f, update)};
        if (is_copy(model, &log, kept))
            mp_vec_add(&change->edits.extras, copy);
        else
            mp_change_end(change, added, event_of(f, update));
        for (uint32_t room = kept + 1; is_copy(model, &log, room - 1) && is_copy(model, &log, room) && !number[room];
             room++) {
            const struct mp_edit_extra passing = {
                .bytes = model->blocks.bytes[room], .made = at, .freed = at, .made_rank = 1, .freed_rank = 2};
            mp_vec_add(&change->edits.extras, passing);
        }
    }
    mp_operations_free(&log);
    free(done);
}

/* True if the log says that an optimizer's step uses the block. */
static bool is_for_optimizer(const struct finder *f, uint32_t block)
{
    size_t count;
    const struct mp_model_use *uses = mp_model_uses_of(f->model, block, &count);
    for (size_t i = 0; i < count; i++)
        if (mp_phase_of_use(&f->phases, f->model, &uses[i]) == MP_PHASE_OPTIMIZER) return true;
    return false;
}

/* Gradients that live to the end belong to parameters that no optimizer has if its steps use others, and none of these.
 * Without a log, if more are freed between two backwards: an optimizer would free all of its own. `freed`, `used`: how
 * many of these are freed so, and used. */
static bool are_idle(const struct finder *f, const struct mp_change *kept, size_t freed, size_t used)
{
    uint32_t last = f->updates.count ? event_of(f, f->updates.count - 1) : 0;
    mp_vec_each (const struct mp_edit_end, end, &kept->edits.ends) {
        if (end_of(f, end->block) <= last || (used && is_for_optimizer(f, end->block))) return false;
    }
    return used || freed > kept->edits.ends.count;
}

/* True if an optimizer's step uses the gradient; without a log, if it is freed before the last step. */
static bool is_trained(const struct finder *f, uint32_t block)
{
    if (f->model->uses.count) return is_for_optimizer(f, block);
    return end_of(f, block) != MP_NONE && end_of(f, block) <= event_of(f, f->updates.count - 1);
}

/* The path of the module that has the modules of all these gradients and of no other one; NULL: there is none. In its
 * first call, a module may have no name yet. The caller's. */
static char *find_frozen(const struct finder *f, const struct mp_change *idle)
{
    const struct mp_model *model = f->model;
    const char *common = NULL;
    size_t length = 0;
    mp_vec_each (const struct mp_edit_end, end, &idle->edits.ends) {
        uint32_t module = mp_model_module(model, end->block);
        if (!module) continue;
        const char *path = mp_model_text(model, module);
        if (!common) length = strlen(common = path);
        size_t same = 0, whole = 0; /* whole: up to the end of a part of the path */
        while (same < length && common[same] == path[same])
            same++;
        for (size_t i = 0; i <= same; i++)
            if ((i == length || common[i] == '.') && (!path[i] || path[i] == '.')) whole = i;
        length = whole;
    }
    for (uint32_t block = 0; length && block < model->blocks.count; block++) {
        size_t update = is_ours(f, block) ? update_after(f, model->blocks.alloc_event[block]) : 0;
        uint32_t module = is_ours(f, block) ? mp_model_module(model, block) : 0;
        const char *path = module ? mp_model_text(model, module) : "";
        bool under = mp_module_is_under(path, common, length);
        if (under && is_gradient(f, block, update) && is_trained(f, block)) length = 0;
    }
    return length ? mp_text_copy_part(common, length) : NULL;
}

/* Gradients that later steps make anew, and keep as well, are not idle: these are of networks that are not used any
 * more, and only live because something holds the network. */
static bool are_of_dead(const struct finder *f, const struct mp_change *kept)
{
    struct mp_map born = {0}; /* by stack and module: 1 + the update in which the first one was made */
    bool dead = false;
    mp_vec_each (const struct mp_edit_end, end, &kept->edits.ends) {
        uint64_t key = (uint64_t)f->model->blocks.stack[end->block] << 32 | mp_model_module(f->model, end->block);
        size_t update = update_after(f, f->model->blocks.alloc_event[end->block]);
        uint64_t *first = mp_map_at(&born, key + 1, NULL);
        dead |= *first && *first != update + 1;
        if (!*first) *first = update + 1;
    }
    mp_map_free(&born);
    return dead;
}

static void find_gradients(struct finder *f)
{
    struct mp_change late = {.kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_LATE_ZERO_GRAD};
    struct mp_change freed = {.kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_GRADIENTS_KEPT};
    uint32_t *number = mp_alloc_zeroed(f->model->blocks.count + 1, sizeof *number), count = 0;
    size_t others = 0, used = 0;
    for (uint32_t block = 0; block < f->model->blocks.count; block++) {
        size_t update = is_ours(f, block) ? update_after(f, f->model->blocks.alloc_event[block]) : 0;
        if (!is_gradient(f, block, update)) continue;
        const struct update *at = &f->updates.at[update];
        bool lasts = at->backward != MP_NONE && end_of(f, block) > at->backward;
        bool is_freed = at->backward != MP_NONE && !lasts;
        others += is_freed;
        used += is_freed && is_for_optimizer(f, block);
        if (end_of(f, block) <= at->event || end_of(f, block) <= at->forward) continue;
        if (lasts) number[block] = ++count;
        mp_change_end(lasts ? &freed : &late, block, at->event);
    }
    bool idle = are_idle(f, &freed, others, used);
    if (idle && are_of_dead(f, &freed)) {
        freed.edits.ends.count = 0;
    } else if (idle) {
        freed.pattern = MP_CHANGE_GRADIENTS_IDLE;
        for (size_t i = 0; i < freed.edits.ends.count; i++)
            freed.edits.ends.at[i].gone = true;
        freed.module = find_frozen(f, &freed);
        freed.flows = freed.module && !mp_graphs_freeze(f->model, f->history, &f->phases, freed.module, &freed);
    } else if (f->model->uses.count) {
        replace_kept(f, number, &freed);
    } else {
        replace_alike(f, number, &freed);
    }
    propose(f, &late);
    propose(f, &freed);
    free(number);
}

/* ---- what variables hold */

/* True for blocks of forward or of the loss that follows it, except parameters and other lasting blocks. */
static bool is_of_forward(const struct finder *f, uint32_t block)
{
    uint32_t born = f->model->blocks.alloc_event[block], turn = mp_phase_turn_of(&f->phases, born);
    unsigned phase = mp_phase_of_block(&f->phases, f->model, block);
    if (turn == MP_NONE || (phase != MP_PHASE_FORWARD && phase != MP_PHASE_OUTSIDE)) return false;
    if (phase == MP_PHASE_OUTSIDE && (!turn || f->phases.turns.at[turn - 1].phase != MP_PHASE_FORWARD)) return false;
    return true;
}

static bool is_passing_category(unsigned category)
{
    return category == MP_CATEGORY_ACTIVATIONS || category == MP_CATEGORY_PREVIOUS ||
           category == MP_CATEGORY_TEMPORARY || category == MP_CATEGORY_NONE;
}

/* By turn: the last event of backward up to that turn; MP_NONE: none. */
static void find_backwards(struct finder *f)
{
    uint32_t last = MP_NONE;
    f->backwards = mp_alloc_zeroed(f->phases.turns.count + 1, sizeof *f->backwards);
    for (size_t i = 0; i < f->phases.turns.count; i++) {
        if (mp_phase_is_backward(f->phases.turns.at[i].phase)) last = (uint32_t)i;
        f->backwards[i] = last;
    }
}

/* The first event after the last backward between two events; MP_NONE: there is no backward. */
static uint32_t end_of_backward(const struct finder *f, uint32_t from, uint32_t to)
{
    uint32_t first = mp_phase_turn_of(&f->phases, from), turn = mp_phase_turn_of(&f->phases, to);
    if (first == MP_NONE || turn == MP_NONE || turn <= first + 1) return MP_NONE;
    uint32_t last = f->backwards[turn - 1];
    return last != MP_NONE && last > first ? f->phases.turns.at[last + 1].first : MP_NONE;
}

/* The blocks of a site, step by step. */
struct alike {
    uint32_t stack, module, block;
    uint64_t bytes;
    uint32_t born;
};
struct likes {
    struct alike *at;
    size_t count, room;
};

static void add_alike(const struct finder *f, struct likes *likes, uint32_t block)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    const struct alike alike = {blocks->stack[block], mp_model_module(f->model, block), block, blocks->bytes[block],
                                blocks->alloc_event[block]};
    mp_vec_add(likes, alike);
}

static int by_time(const void *a, const void *b)
{
    const struct alike *x = a, *y = b;
    if (x->stack != y->stack) return x->stack < y->stack ? -1 : 1;
    if (x->module != y->module) return x->module < y->module ? -1 : 1;
    return (x->born > y->born) - (x->born < y->born);
}

/* Decides whether a variable holds the block until the next block replaces it: after a backward, the site makes another
 * block, and the first is freed within the other's step. Returns the event from which the block is not needed; MP_NONE:
 * there is no such variable. */
static uint32_t needed_until(const struct finder *f, const struct likes *made, const struct alike *block)
{
    uint32_t end = end_of(f, block->block), turn = mp_phase_turn_of(&f->phases, block->born);
    uint32_t backward = turn == MP_NONE ? MP_NONE : f->phases.turns.at[turn].backward;
    if (end == MP_NONE || backward == MP_NONE || backward + 1 >= f->phases.turns.count) return MP_NONE;
    struct alike sought = *block;
    sought.born = f->phases.turns.at[backward + 1].first;
    size_t at = MP_COUNT_BEFORE(made->count, i, by_time(&made->at[i], &sought) < 0);
    const struct alike *next = at < made->count ? &made->at[at] : NULL;
    if (!next || next->stack != block->stack || next->module != block->module || next->born >= end) return MP_NONE;
    uint32_t behind = end_of_backward(f, block->born, next->born), over = event_of(f, update_after(f, next->born));
    if (over == MP_NONE) over = mp_phase_backward_end(&f->phases, next->born); /* no optimizer, or its last step */
    return behind != MP_NONE && end <= over ? behind : MP_NONE;
}

/* The backward that follows a block's forward; MP_NONE. */
static uint32_t round_of(const struct finder *f, const struct alike *block)
{
    uint32_t turn = mp_phase_turn_of(&f->phases, block->born);
    return turn == MP_NONE ? MP_NONE : f->phases.turns.at[turn].backward;
}

/* The last block of a site has no successor in the recording. A variable holds it if it outlives its step and the
 * site's previous block was held. `until`, by block of `made`; `end`: the index after the site's last block. */
static void find_last_held(const struct finder *f, const struct likes *made, size_t first, size_t end, uint32_t *until)
{
    size_t last = end - 1, before;
    while (last > first && round_of(f, &made->at[last - 1]) == round_of(f, &made->at[end - 1]))
        last--;
    before = last;
    while (before > first && round_of(f, &made->at[before - 1]) == round_of(f, &made->at[last - 1]))
        before--;
    if (last == first || last - before != end - last) return;
    for (size_t i = last; i < end; i++) {
        const struct alike *block = &made->at[i];
        uint32_t over = event_of(f, update_after(f, block->born));
        if (until[i] != MP_NONE || until[before + i - last] == MP_NONE || over == MP_NONE ||
            end_of(f, block->block) <= over)
            continue;
        until[i] = end_of_backward(f, block->born, over - 1);
    }
}

static uint32_t *find_held(const struct finder *f, const struct likes *made)
{
    uint32_t *until = mp_alloc((made->count + 1) * sizeof *until);
    for (size_t i = 0; i < made->count; i++)
        until[i] = needed_until(f, made, &made->at[i]);
    for (size_t first = 0, end; first < made->count; first = end) {
        const struct alike *place = &made->at[first];
        for (end = first + 1;
             end < made->count && made->at[end].stack == place->stack && made->at[end].module == place->module;)
            end++;
        find_last_held(f, made, first, end, until);
    }
    return until;
}

static void find_variables(struct finder *f)
{
    struct mp_change change = {.kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_HELD_VARIABLES};
    struct likes made = {0};
    uint64_t most = 0;
    for (uint32_t block = 0; block < f->model->blocks.count; block++)
        if (is_ours(f, block) && is_of_forward(f, block)) add_alike(f, &made, block);
    if (made.count) qsort(made.at, made.count, sizeof *made.at, by_time);
    uint32_t *until = find_held(f, &made);
    for (size_t i = 0; i < made.count; i++) {
        if (until[i] == MP_NONE || f->idle[made.at[i].block]) continue;
        unsigned category = mp_category_of(f->categories, made.at[i].block, until[i]);
        if (!is_passing_category(category)) continue;
        mp_change_end(&change, made.at[i].block, until[i]);
        if (made.at[i].bytes <= most) continue;
        most = made.at[i].bytes;
        change.stack = made.at[i].stack;
    }
    propose(f, &change);
    free(until);
    mp_vec_free(&made);
}

/* ---- variables that are not read again */

/* How a variable is used, from the holder's path of one of its blocks. `function` is the variable's function on the
 * stack; 0: the module itself. */
struct use {
    const char *path;
    enum mp_holder_use use;
    uint32_t line;
    const char *function; /* "train" of "train().state"; "<module>" */
    size_t length;        /* length of `function` */
    size_t first;         /* index into the model's holders */
};

static struct use use_of(const struct mp_model *model, size_t holder)
{
    const char *path = mp_model_text(model, model->holders.at[holder].path), *of_frame = strstr(path, "().");
    struct use use = {.path = path, .function = "<module>", .length = strlen("<module>"), .first = holder};
    use.use = mp_holder_use(path, &use.line);
    if (of_frame && of_frame < path + mp_holder_variable(path)) {
        use.function = path;
        use.length = (size_t)(of_frame - path);
    }
    return use;
}

static bool is_same_variable(const char *path, const char *other)
{
    size_t length = mp_holder_variable(path);
    return mp_holder_variable(other) == length && !memcmp(path, other, length);
}

/* True if the stack's innermost frame is the variable's function, at a line after the last one that reads the variable.
 * *in: true if the frame is the function's. */
static bool is_behind(const struct mp_model *model, uint32_t frame, const struct use *use, bool *in)
{
    *in = false;
    if (frame == MP_FRAME_CUT || model->frames.at[frame].raw.language != MP_PYTHON) return false;
    if (!model->frames.at[frame].line_count) return false;
    const struct mp_model_line *line = &model->lines.at[model->frames.at[frame].first_line];
    const char *function = mp_model_text(model, line->function);
    *in = strlen(function) == use->length && !memcmp(function, use->function, use->length);
    return *in && line->line >= use->line;
}

/* By event: the first allocation at or after it by code that is behind the variable's last read; MP_NONE: none. A
 * parent comes before its children, so one pass over the nodes settles every stack. The array has one more element at
 * its end. */
static uint32_t *find_behind(const struct mp_model *model, const struct use *use)
{
    unsigned char *behind = mp_alloc_zeroed(model->stacks.count + 1, 1);
    uint32_t *next = mp_alloc((model->events.count + 1) * sizeof *next);
    for (size_t i = 1; i < model->stacks.count; i++) {
        bool in, here = is_behind(model, model->stacks.at[i].frame, use, &in);
        behind[i] = in ? here : behind[model->stacks.at[i].parent];
    }
    next[model->events.count] = MP_NONE;
    for (size_t i = model->events.count; i--;) {
        bool allocates = model->events.type[i] == MP_EVENT_ALLOC;
        bool here = allocates && behind[model->blocks.stack[model->events.subject[i]]];
        next[i] = here ? (uint32_t)i : next[i + 1];
    }
    free(behind);
    return next;
}

/* The first event at which a graph may have saved a block born at that event. */
static uint32_t forward_from(const struct finder *f, uint32_t turn, uint32_t born)
{
    while (turn < f->phases.turns.count && !is_forward(f->phases.turns.at[turn].phase))
        turn++;
    if (turn == f->phases.turns.count) return MP_NONE;
    return f->phases.turns.at[turn].first > born ? f->phases.turns.at[turn].first : born;
}

/* The event from which the variable's block is not needed: the begin of backward, else the function's first allocation
 * after the last line that reads the variable, but at the latest the step's end. MP_NONE: the block is freed by then.
 * `behind`: the result of find_behind(). */
static uint32_t idle_from(const struct finder *f, uint32_t block, const struct use *use, const uint32_t *behind)
{
    const struct mp_model *model = f->model;
    uint32_t born = model->blocks.alloc_event[block], turn = mp_phase_turn_of(&f->phases, born), event;
    uint32_t backward = turn == MP_NONE ? MP_NONE : f->phases.turns.at[turn].backward;
    if (use->use == MP_HOLDER_NOT_IN_BACKWARD) {
        event = backward == MP_NONE ? MP_NONE : f->phases.turns.at[backward].first;
    } else {
        uint32_t last = event_of(f, update_after(f, born));
        if (last > model->events.count) last = (uint32_t)model->events.count;
        event = behind[born + 1] < last ? behind[born + 1] : last;
        if (backward != MP_NONE && event > forward_from(f, turn, born) && backward + 1 < f->phases.turns.count &&
            event < f->phases.turns.at[backward + 1].first)
            event = last;
    }
    return event < end_of(f, block) ? event : MP_NONE;
}

static void end_idle(struct finder *f, struct mp_change *change, uint32_t block, uint32_t event, uint64_t *most)
{
    if (event == MP_NONE) return;
    f->idle[block] = 1;
    mp_change_end(change, block, event);
    if (f->model->blocks.bytes[block] <= *most) return;
    *most = f->model->blocks.bytes[block];
    change->stack = f->model->blocks.stack[block];
}

/* Adds the blocks that a look found, and other blocks of their sites without another holder. */
static void add_idle(struct finder *f, const struct use *use)
{
    const struct mp_model *model = f->model;
    struct mp_change change = {.kind = MP_CHANGE_LIFETIME,
                               .pattern = MP_CHANGE_IDLE_VARIABLE,
                               .variable = mp_text_copy_part(use->path, mp_holder_variable(use->path)),
                               .before_backward = use->use == MP_HOLDER_NOT_IN_BACKWARD};
    unsigned char *stacks = mp_alloc_zeroed(model->stacks.count + 1, 1);
    unsigned char *others = mp_alloc_zeroed(model->blocks.count + 1, 1);
    uint32_t *behind = use->use == MP_HOLDER_NOT_READ ? find_behind(model, use) : NULL;
    uint64_t most = 0;
    for (size_t i = use->first; i < model->holders.count; i++) {
        uint32_t line, block = model->holders.at[i].block;
        const char *other = mp_model_text(model, model->holders.at[i].path);
        bool same = is_same_variable(use->path, other);
        others[block] |= !same;
        if (same && mp_holder_use(other, &line) == use->use) stacks[model->blocks.stack[block]] = 1;
    }
    for (uint32_t block = 0; block < model->blocks.count; block++)
        if (stacks[model->blocks.stack[block]] && !others[block] && is_ours(f, block) && !f->idle[block])
            end_idle(f, &change, block, idle_from(f, block, use, behind), &most);
    free(stacks);
    free(others);
    free(behind);
    if (!change.edits.ends.count) free(change.variable);
    propose(f, &change);
}

/* Each variable costs a pass over the recording, so only the first MOST_IDLE are tried. */
static void find_idle(struct finder *f)
{
    const struct mp_model *model = f->model;
    struct use uses[MOST_IDLE];
    size_t count = 0, k;
    for (size_t i = 0; i < model->holders.count && count < MOST_IDLE; i++) {
        const struct use use = use_of(model, i);
        if (use.use == MP_HOLDER_READ || f->idle[model->holders.at[i].block]) continue;
        for (k = 0; k < count && (uses[k].use != use.use || !is_same_variable(uses[k].path, use.path)); k++)
            ;
        if (k < count) continue;
        uses[count++] = use;
        add_idle(f, &use);
    }
}

/* ---- blocks that no operator uses again, by the log */

/* The first allocation after the block's last use; MP_NONE: the block is freed by then, or may be used behind the end.
 */
static uint32_t unread_from(const struct finder *f, uint32_t block)
{
    struct mp_idle idle;
    const struct mp_model_events *events = &f->model->events;
    mp_idle_of(&f->end, block, &idle);
    if (!idle.never) return MP_NONE;
    uint32_t event = (uint32_t)MP_COUNT_BEFORE(events->count, i, events->time_ns[i] <= idle.since_ns);
    while (event < end_of(f, block) && event < events->count && events->type[event] != MP_EVENT_ALLOC)
        event++;
    return event < end_of(f, block) && event < events->count ? event : MP_NONE;
}

/* A graph's own blocks go with the graph. */
static bool is_by_name(const struct mp_model_holder *holder)
{
    return holder->certain && holder->kind != MP_HOLDER_GRAPH && holder->kind < MP_HOLDER_THREAD;
}

/* Ends the blocks that the looks found under the same root, and other blocks of their sites that no look found: the
 * variable of another step holds them. */
static void end_unread(struct finder *f, const struct mp_model_holder *first)
{
    const struct mp_model *model = f->model;
    const char *root = mp_model_text(model, first->path);
    const char *note = strstr(root, " (not "); /* what the look adds about its use */
    size_t length = mp_holder_root(root), named = note && note < root + length ? (size_t)(note - root) : length;
    if (named > 3 && !strncmp(root + named - 3, "[*]", 3)) named -= 3;
    struct mp_change change = {
        .kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_IDLE_VARIABLE, .variable = mp_text_copy_part(root, named)};
    unsigned char *stacks = mp_alloc_zeroed(model->stacks.count + 1, 1);
    unsigned char *found = mp_alloc_zeroed(model->blocks.count + 1, 1);
    uint64_t most = 0;
    mp_vec_each (const struct mp_model_holder, row, &model->holders)
        found[row->block] = 1;
    for (const struct mp_model_holder *row = first; row < model->holders.at + model->holders.count; row++) {
        const char *path = mp_model_text(model, row->path);
        if (!is_by_name(row) || !is_ours(f, row->block) || f->idle[row->block] || mp_holder_root(path) != length ||
            memcmp(path, root, length) != 0)
            continue;
        uint32_t from = unread_from(f, row->block);
        stacks[model->blocks.stack[row->block]] |= from != MP_NONE;
        end_idle(f, &change, row->block, from, &most);
    }
    for (uint32_t block = 0; block < model->blocks.count; block++)
        if (stacks[model->blocks.stack[block]] && !found[block] && is_ours(f, block) && !f->idle[block])
            end_idle(f, &change, block, unread_from(f, block), &most);
    free(stacks);
    free(found);
    if (!change.edits.ends.count) free(change.variable);
    propose(f, &change);
}

static void find_unread(struct finder *f)
{
    size_t tried = 0;
    mp_vec_each (const struct mp_model_holder, row, &f->model->holders) {
        if (tried == MOST_IDLE || !is_by_name(row) || !is_ours(f, row->block) || f->idle[row->block] ||
            unread_from(f, row->block) == MP_NONE)
            continue;
        end_unread(f, row);
        tried++;
    }
}

/* ---- temporaries of optimizers */

/* All of these facts. */
static bool shows(const struct finder *f, uint32_t block, uint32_t facts)
{
    return (f->facts->of_stack[f->model->blocks.stack[block]] & facts) == facts;
}

static void leave_out(struct mp_change *change, uint32_t block)
{
    mp_vec_add(&change->edits.ends, ((struct mp_edit_end){.block = block, .gone = true}));
    change->blocks++;
}

/* True if the block is freed by the end of the optimizer's step. */
static bool is_temporary(const struct finder *f, uint32_t block)
{
    uint32_t born = f->model->blocks.alloc_event[block];
    return end_of(f, block) <= event_of(f, update_after(f, born)) && end_of(f, block) != MP_NONE;
}

/* The fused form counts steps on the device: it makes a number for each parameter in the first step. A site makes one
 * temporary for each parameter. `first`: a block of the first step. */
static void add_counters(const struct finder *f, uint32_t first, struct mp_change *change)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    const struct mp_edit_extra counter = {.bytes = sizeof(float), .made = blocks->alloc_event[first], .freed = MP_NONE};
    size_t update = update_after(f, blocks->alloc_event[first]);
    for (size_t i = 0, count = change->edits.ends.count; i < count; i++) {
        uint32_t block = change->edits.ends.at[i].block;
        if (blocks->stack[block] == blocks->stack[first] && update_after(f, blocks->alloc_event[block]) == update)
            mp_vec_add(&change->edits.extras, counter);
    }
}

static void find_fused(struct finder *f)
{
    const struct mp_model *model = f->model;
    struct mp_change change = {.kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_FUSED};
    uint32_t first = MP_NONE;
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        if (!is_ours(f, block) || !shows(f, block, LISTS_OF_ADAM) || !is_temporary(f, block)) continue;
        leave_out(&change, block);
        change.stack = model->blocks.stack[block];
        if (first == MP_NONE || model->blocks.alloc_event[block] < model->blocks.alloc_event[first]) first = block;
    }
    if (first != MP_NONE) add_counters(f, first, &change);
    propose(f, &change);
}

struct parameter {
    uint64_t sum, largest; /* bytes of its temporaries */
    bool of_adam;
};

/* Sums the temporaries of one step, site by site. Working on one parameter after the other needs the temporaries of
 * only one parameter, from all sites. In addition, a variable may still hold a block of the previous parameter. Adam
 * needs a root and a quotient at one time, even where the list form divides in place. */
static void replace_by_largest(struct finder *f, struct likes *step, size_t update, struct mp_change *change)
{
    uint64_t most = 0;
    MP_VEC(struct parameter) parameters = {0}; /* parameters[i] has block i of each site */
    uint32_t first = MP_NONE;
    qsort(step->at, step->count, sizeof *step->at, by_time);
    for (size_t i = 0, number = 0; i < step->count; i++) {
        const struct alike *block = &step->at[i];
        number = i && block->stack == block[-1].stack ? number + 1 : 0;
        while (parameters.count <= number)
            mp_vec_add(&parameters, (struct parameter){0});
        struct parameter *parameter = &parameters.at[number];
        parameter->sum += block->bytes;
        if (block->bytes > parameter->largest) parameter->largest = block->bytes;
        parameter->of_adam = parameter->of_adam || shows(f, block->block, LISTS_OF_ADAM);
        if (block->born < first) first = block->born;
        leave_out(change, block->block);
        change->stack = block->stack;
    }
    for (size_t i = 0; i < parameters.count; i++) {
        const struct parameter *at = &parameters.at[i];
        uint64_t bytes = at->of_adam && at->sum < 2 * at->largest ? 2 * at->largest : at->sum;
        if (i) bytes += at[-1].largest;
        if (bytes > most) most = bytes;
    }
    const struct mp_edit_extra extra = {.bytes = most, .made = first, .freed = event_of(f, update)};
    if (most) mp_vec_add(&change->edits.extras, extra);
    mp_vec_free(&parameters);
}

static void find_foreach(struct finder *f)
{
    const struct mp_model *model = f->model;
    struct mp_change change = {.kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_ONE_BY_ONE};
    struct likes step = {0};
    size_t current = 0;
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        if (!is_ours(f, block) || !shows(f, block, MP_FACT_LISTS) || !is_temporary(f, block)) continue;
        size_t update = update_after(f, model->blocks.alloc_event[block]);
        if (update != current && step.count) replace_by_largest(f, &step, current, &change);
        if (update != current) step.count = 0;
        current = update;
        add_alike(f, &step, block);
    }
    if (step.count) replace_by_largest(f, &step, current, &change);
    propose(f, &change);
    mp_vec_free(&step);
}

/* ---- smaller state and gradients */

/* 4 without a log. */
static uint64_t element_bytes(const struct mp_model *model, uint32_t block)
{
    struct mp_tensor tensor = {0};
    struct mp_shape shape;
    if (model->uses.count) mp_tensor_of(model, block, &tensor);
    bool known = tensor.shape && mp_shape_read(mp_model_text(model, tensor.shape), &shape);
    return known && strstr(shape.dtype, "float16") ? 2 : sizeof(float);
}

/* Adam's state as bitsandbytes and torchao keep it: a byte for each element and a scale for each 256 of them. Their
 * steps need no other memory. */
static void find_eight_bit(struct finder *f)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    struct mp_change change = {.kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_EIGHT_BIT};
    for (uint32_t block = 0; block < blocks->count; block++) {
        if (!is_ours(f, block) || !shows(f, block, MP_FACT_ADAM) ||
            mp_phase_of_block(&f->phases, f->model, block) != MP_PHASE_OPTIMIZER)
            continue;
        bool passes = is_temporary(f, block);
        if (passes) leave_out(&change, block);
        if (passes || mp_category_of(f->categories, block, end_of(f, block)) != MP_CATEGORY_OPTIMIZER_STATE) continue;
        uint64_t elements = blocks->bytes[block] / element_bytes(f->model, block);
        if (elements < SMALL_STATE) continue;
        struct mp_edit_extra part = {
            .bytes = elements, .made = blocks->alloc_event[block], .freed = blocks->free_event[block]};
        leave_out(&change, block);
        mp_vec_add(&change.edits.extras, part);
        part.bytes = (elements + SCALED - 1) / SCALED * sizeof(float);
        mp_vec_add(&change.edits.extras, part);
        change.stack = blocks->stack[block];
    }
    if (!change.edits.extras.count) change.edits.ends.count = 0;
    propose(f, &change);
}

/* The bytes of the gradient that flows into an embedding: a sparse gradient of its parameter keeps only these rows.
 * Autograd frees it behind the dense one. 0: not found. */
static uint64_t rows_of(const struct finder *f, uint32_t gradient)
{
    const struct mp_model_events *events = &f->model->events;
    for (uint32_t i = f->model->blocks.alloc_event[gradient]; i < events->count && i < end_of(f, gradient); i++) {
        uint32_t block = events->subject[i];
        if (events->type[i] == MP_EVENT_FREE && is_ours(f, block) && !shows(f, block, MP_FACT_EMBEDS))
            return f->model->blocks.bytes[block];
    }
    return 0;
}

static void find_sparse(struct finder *f)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    struct mp_change change = {.kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_SPARSE, .bytes = UINT64_MAX};
    struct mp_map dense = {0}; /* sizes */
    uint64_t most = 0;
    for (uint32_t block = 0; block < blocks->count; block++) {
        size_t update = is_ours(f, block) ? update_after(f, blocks->alloc_event[block]) : 0;
        if (!shows(f, block, MP_FACT_EMBEDS) || !is_gradient(f, block, update)) continue;
        uint64_t rows = rows_of(f, block);
        if (!rows || rows > blocks->bytes[block] / 2) continue;
        leave_out(&change, block);
        const struct mp_edit_extra part = {
            .bytes = rows, .made = blocks->alloc_event[block], .freed = blocks->free_event[block]};
        mp_vec_add(&change.edits.extras, part);
        (void)mp_map_at(&dense, blocks->bytes[block] + 1, NULL);
        if (rows > most) most = rows;
        if (blocks->bytes[block] < change.bytes) change.bytes = blocks->bytes[block];
        change.stack = blocks->stack[block];
    }
    size_t current = MP_NONE;
    for (uint32_t block = 0; change.blocks && block < blocks->count; block++) {
        bool lists = is_ours(f, block) && shows(f, block, LISTS_OF_ADAM) && is_temporary(f, block);
        if (!lists || !mp_map_find(&dense, blocks->bytes[block] + 1)) continue;
        leave_out(&change, block);
        size_t update = update_after(f, blocks->alloc_event[block]);
        const struct mp_edit_extra part = {
            .bytes = ROOM_OF_ROWS * most, .made = blocks->alloc_event[block], .freed = event_of(f, update)};
        if (update != current) mp_vec_add(&change.edits.extras, part);
        current = update;
    }
    mp_map_free(&dense);
    propose(f, &change);
}

void mp_lifetimes_propose(const struct mp_model *model, const struct mp_torch_history *history,
                          struct mp_changes *changes)
{
    struct finder f = {.model = model, .history = history, .changes = changes};
    if (model->tracks.at[history->track].layer != MP_LAYER_TORCH || !history->steps.count) return;
    mp_phases_find(model, &f.phases);
    if (f.phases.any) {
        f.facts = mp_stack_facts(model);
        f.categories = mp_categories_make(model, NULL);
        find_updates(&f);
        find_backwards(&f);
        f.idle = mp_alloc_zeroed(model->blocks.count + 1, 1);
        mp_idle_view_at(model, MP_BYTES_UNKNOWN, &f.end);
        find_gradients(&f);
        if (model->uses.count)
            find_unread(&f);
        else
            find_idle(&f);
        find_variables(&f);
        if (strncmp(mp_track_device(model, history->track), "cpu", 3)) find_fused(&f);
        find_foreach(&f);
        find_eight_bit(&f);
        find_sparse(&f);
        mp_graphs_propose(model, history, &f.phases, changes);
        mp_logits_propose(model, history, &f.phases, changes);
    }
    mp_categories_free(f.categories);
    mp_phases_free(&f.phases);
    mp_vec_free(&f.updates);
    free(f.backwards);
    free(f.idle);
}
