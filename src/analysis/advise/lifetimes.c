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
#include "model/stack_facts.h"
#include "model/track.h"
#include "model/uses.h"

struct mp_step_block {
    uint32_t stack, module, block, born;
    uint64_t bytes;
    bool fixed; /* its size does not depend on the batch */
};

#define LOOK_AHEAD 256 /* allocations that only one of the two steps has */

/* A module that is called for the first time may lack its name; batches may differ in size. */
static bool is_same(const struct mp_step_block *first, const struct mp_step_block *later)
{
    return first->stack == later->stack && (!first->module || !later->module || first->module == later->module) &&
           (!first->fixed || first->bytes == later->bytes);
}

/* to[i]: the index in `later` of the same block as first[i]; SIZE_MAX: none. */
static void steps_align(const struct mp_step_block *first, size_t first_count, const struct mp_step_block *later,
                    size_t later_count, size_t *to)
{
    size_t i = 0, k = 0;
    while (i < first_count && k < later_count) {
        size_t skip = 0;
        bool of_first = false, of_later = false;
        for (; skip < LOOK_AHEAD && !of_first && !of_later; skip++) {
            of_first = i + skip < first_count && is_same(&first[i + skip], &later[k]);
            of_later = !of_first && k + skip < later_count && is_same(&first[i], &later[k + skip]);
        }
        for (size_t end = of_first ? i + skip - 1 : of_later ? i : i + 1; i < end;)
            to[i++] = SIZE_MAX;
        if (of_later) k += skip - 1;
        if (of_first || of_later) to[i++] = k;
        k++;
    }
    while (i < first_count)
        to[i++] = SIZE_MAX;
}

#define COPY_FAR    4096 /* allocations, or events, to search for the moment of a copy */
#define MOST_BIRTHS 8    /* most steps whose kept gradients are compared */
#define MOST_IDLE   32   /* variables */

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

/* Blocks that forward and backward make in a step, in order. */
struct made {
    struct mp_step_block *at;
    size_t count, room;
};

/* The same for the step that ends with an update. `number`: by block, 1 + the index of a kept gradient. */
static void find_made(const struct finder *f, size_t update, const uint32_t *number, struct made *made)
{
    const struct mp_model *model = f->model;
    uint32_t event = update ? event_of(f, update - 1) : 0, end = event_of(f, update);
    made->count = 0;
    for (; event < end && event < model->events.count; event++) {
        uint32_t block = model->events.subject[event];
        if (model->events.type[event] != MP_EVENT_ALLOC || !is_ours(f, block)) continue;
        unsigned phase = mp_phase_of_block(&f->phases, model, block);
        if (!is_forward(phase) && !mp_phase_is_backward(phase)) continue;
        const struct mp_step_block one = {.stack = model->blocks.stack[block],
                                          .module = mp_model_module(model, block),
                                          .block = block,
                                          .born = event,
                                          .bytes = model->blocks.bytes[block],
                                          .fixed = number[block] != 0};
        mp_vec_add(made, one);
    }
}

/* A step that made gradients, and a later step that added to them. */
struct pair {
    struct made first, later;
    size_t *to;   /* by block of the first step: the same block's index in the later one; SIZE_MAX: none */
    size_t *from; /* the reverse */
};

static void align(struct pair *pair)
{
    free(pair->to);
    free(pair->from);
    pair->to = mp_alloc((pair->first.count + 1) * sizeof *pair->to);
    pair->from = mp_alloc((pair->later.count + 1) * sizeof *pair->from);
    steps_align(pair->first.at, pair->first.count, pair->later.at, pair->later.count, pair->to);
    for (size_t i = 0; i < pair->later.count; i++)
        pair->from[i] = SIZE_MAX;
    for (size_t i = 0; i < pair->first.count; i++)
        if (pair->to[i] != SIZE_MAX) pair->from[pair->to[i]] = i;
}

/* True if the counterpart of a later step's freed block was freed in the first step, before an event. */
static bool was_freed_before(const struct finder *f, const struct pair *pair, uint32_t block, uint32_t event)
{
    const struct made *later = &pair->later;
    uint32_t born = f->model->blocks.alloc_event[block];
    size_t at = MP_COUNT_BEFORE(later->count, i, later->at[i].born < born);
    if (at == later->count || later->at[at].block != block || pair->from[at] == SIZE_MAX) return false;
    return end_of(f, pair->first.at[pair->from[at]].block) < event;
}

/* If a parameter has no gradient yet, autograd takes the new one, or copies it if something else reads it, too. Returns
 * the event at which a later step would make this copy. It comes after the blocks and frees that both steps have before
 * it. `otherwise`: the result if the steps have nothing in common. */
static uint32_t copied_at(const struct finder *f, const struct pair *pair, size_t gradient, uint32_t otherwise)
{
    size_t before = gradient, after = gradient + 1;
    while (before && gradient - before < COPY_FAR && pair->to[before - 1] == SIZE_MAX)
        before--;
    while (after < pair->first.count && after - gradient < COPY_FAR && pair->to[after] == SIZE_MAX)
        after++;
    if (!before || pair->to[before - 1] == SIZE_MAX || pair->later.at[pair->to[before - 1]].born < otherwise)
        return otherwise;
    uint32_t made = pair->later.at[pair->to[before - 1]].born + 1;
    uint32_t end = made + COPY_FAR, most = (uint32_t)f->model->events.count;
    if (after < pair->first.count) end = pair->to[after] == SIZE_MAX ? made : pair->later.at[pair->to[after]].born;
    if (end > most) end = most;
    for (uint32_t event = made; event < end; event++) {
        bool frees = f->model->events.type[event] == MP_EVENT_FREE;
        if (frees && was_freed_before(f, pair, f->model->events.subject[event], pair->first.at[gradient].born))
            made = event + 1;
    }
    return made;
}

/* Adds the copy, and a temporary of copying that is made after it and freed at once. */
static void add_copy(struct finder *f, const struct pair *pair, size_t gradient, uint32_t begin, uint32_t end,
                     struct mp_change *change)
{
    const struct made *first = &pair->first;
    const struct mp_edit_extra copy = {
        .bytes = first->at[gradient].bytes, .made = copied_at(f, pair, gradient, begin), .freed = end};
    mp_vec_add(&change->edits.extras, copy);
    for (size_t i = gradient + 1; i < first->count && pair->to[i] == SIZE_MAX && !first->at[i].fixed; i++) {
        if (i + 1 < first->count && end_of(f, first->at[i].block) > first->at[i + 1].born) break;
        const struct mp_edit_extra passing = {
            .bytes = first->at[i].bytes, .made = copy.made, .freed = copy.made, .made_rank = 1, .freed_rank = 2};
        mp_vec_add(&change->edits.extras, passing);
    }
}

/* A step may add to existing gradients. Without them, the added block would become the gradient, or autograd would copy
 * it. The step that made the gradients shows which. `found`, by gradient: 0 not asked yet, 1 copied, 2 the added block
 * itself. False if steps differ, for instance when optimizers take turns. */
static bool stand_in(struct finder *f, const struct pair *pair, size_t update, const uint32_t *number,
                     unsigned char *found, struct mp_change *change)
{
    uint32_t end = event_of(f, update), begin = f->updates.at[update - 1].backward;
    for (size_t i = 0; i < pair->first.count; i++) {
        const struct mp_step_block *gradient = &pair->first.at[i];
        if (!number[gradient->block] || end_of(f, gradient->block) < end) continue;
        unsigned char *is = &found[number[gradient->block]];
        bool is_there = pair->to[i] != SIZE_MAX;
        if (*is && *is != 1 + is_there) return false;
        *is = (unsigned char)(1 + is_there);
        if (is_there)
            mp_change_end(change, pair->later.at[pair->to[i]].block, end);
        else
            add_copy(f, pair, i, begin, end, change);
    }
    return true;
}

/* The event that frees the last of a step's kept gradients; 0: the step made none. */
static uint32_t last_kept(const struct finder *f, const struct made *made, const uint32_t *number)
{
    uint32_t last = 0;
    for (size_t i = 0; i < made->count; i++) {
        uint32_t block = made->at[i].block;
        if (number[block] && end_of(f, block) > last) last = end_of(f, block);
    }
    return last;
}

/* `number`: by block, 1 + the index of a kept gradient; `count` gradients. False: the steps differ. */
static bool replace_kept(struct finder *f, const uint32_t *number, size_t count, struct mp_change *change)
{
    struct pair pair = {0};
    unsigned char *found = mp_alloc_zeroed(count + 1, 1);
    bool steady = true;
    size_t births = 0;
    for (size_t first = 0; steady && count && first + 1 < f->updates.count; first++) {
        find_made(f, first, number, &pair.first);
        uint32_t last = last_kept(f, &pair.first, number);
        if (!last) continue;
        steady = ++births <= MOST_BIRTHS;
        for (size_t at = first + 1; steady && at < f->updates.count && event_of(f, at - 1) < last; at++) {
            if (f->updates.at[at - 1].backward > event_of(f, at)) continue;
            find_made(f, at, number, &pair.later);
            align(&pair);
            steady = stand_in(f, &pair, at, number, found, change);
        }
    }
    mp_vec_free(&pair.first);
    mp_vec_free(&pair.later);
    free(pair.to);
    free(pair.from);
    free(found);
    return steady;
}

/* Gradients that live to the end, while more are freed between two backwards, belong to parameters that no optimizer
 * has: it would free all of its own. */
static bool are_idle(const struct finder *f, const struct mp_change *kept, size_t freed)
{
    uint32_t last = f->updates.count ? event_of(f, f->updates.count - 1) : 0;
    mp_vec_each (const struct mp_edit_end, end, &kept->edits.ends) {
        if (end_of(f, end->block) <= last) return false;
    }
    return freed > kept->edits.ends.count;
}

/* The path of the module that has the modules of all these gradients and of no other one; NULL: there is none. The
 * caller's. */
static char *find_frozen(const struct finder *f, const struct mp_change *idle)
{
    const struct mp_model *model = f->model;
    const char *common = NULL;
    size_t length = 0;
    mp_vec_each (const struct mp_edit_end, end, &idle->edits.ends) {
        uint32_t module = mp_model_module(model, end->block);
        const char *path = module ? mp_model_text(model, module) : "";
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
        bool under = !strncmp(path, common, length) && (!path[length] || path[length] == '.');
        if (under && is_gradient(f, block, update) && end_of(f, block) != MP_NONE &&
            end_of(f, block) <= event_of(f, f->updates.count - 1))
            length = 0;
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
    size_t others = 0;
    for (uint32_t block = 0; block < f->model->blocks.count; block++) {
        size_t update = is_ours(f, block) ? update_after(f, f->model->blocks.alloc_event[block]) : 0;
        if (!is_gradient(f, block, update)) continue;
        const struct update *at = &f->updates.at[update];
        bool lasts = at->backward != MP_NONE && end_of(f, block) > at->backward;
        others += at->backward != MP_NONE && !lasts;
        if (end_of(f, block) <= at->event || end_of(f, block) <= at->forward) continue;
        if (lasts) number[block] = ++count;
        mp_change_end(lasts ? &freed : &late, block, at->event);
    }
    bool idle = are_idle(f, &freed, others);
    if (idle && are_of_dead(f, &freed)) {
        freed.edits.ends.count = 0;
    } else if (idle) {
        freed.pattern = MP_CHANGE_GRADIENTS_IDLE;
        for (size_t i = 0; i < freed.edits.ends.count; i++)
            freed.edits.ends.at[i].gone = true;
        freed.module = find_frozen(f, &freed);
        freed.flows = freed.module && !mp_graphs_freeze(f->model, f->history, &f->phases, freed.module, &freed);
    } else if (!replace_kept(f, number, count, &freed)) {
        freed.edits.ends.count = freed.edits.extras.count = 0;
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
    uint32_t behind = end_of_backward(f, block->born, next->born);
    return behind != MP_NONE && end <= event_of(f, update_after(f, next->born)) ? behind : MP_NONE;
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

/* Ends the blocks that the looks found under the same root. */
static void end_unread(struct finder *f, const struct mp_model_holder *first)
{
    const struct mp_model *model = f->model;
    const char *root = mp_model_text(model, first->path);
    size_t length = mp_holder_root(root);
    struct mp_change change = {
        .kind = MP_CHANGE_LIFETIME,
        .pattern = MP_CHANGE_IDLE_VARIABLE,
        .variable = mp_text_copy_part(
            root, length - (length > 3 && root[length - 1] == ']' && root[length - 2] == '*' ? strlen("[*]") : 0))};
    uint64_t most = 0;
    for (const struct mp_model_holder *row = first; row < model->holders.at + model->holders.count; row++) {
        const char *path = mp_model_text(model, row->path);
        if (is_by_name(row) && is_ours(f, row->block) && !f->idle[row->block] && mp_holder_root(path) == length &&
            !memcmp(path, root, length))
            end_idle(f, &change, row->block, unread_from(f, row->block), &most);
    }
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

static bool shows(const struct finder *f, uint32_t block, uint32_t fact)
{
    return f->facts->of_stack[f->model->blocks.stack[block]] & fact;
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
        if (!is_ours(f, block) || !shows(f, block, MP_FACT_LISTS_OF_ADAM) || !is_temporary(f, block)) continue;
        const struct mp_edit_end gone = {.block = block, .gone = true};
        mp_vec_add(&change.edits.ends, gone);
        change.blocks++;
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
        parameter->of_adam = parameter->of_adam || shows(f, block->block, MP_FACT_LISTS_OF_ADAM);
        if (block->born < first) first = block->born;
        const struct mp_edit_end gone = {.block = block->block, .gone = true};
        mp_vec_add(&change->edits.ends, gone);
        change->blocks++;
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
        mp_graphs_propose(model, history, &f.phases, changes);
        mp_logits_propose(model, history, &f.phases, changes);
    }
    mp_categories_free(f.categories);
    mp_phases_free(&f.phases);
    mp_vec_free(&f.updates);
    free(f.backwards);
    free(f.idle);
}
