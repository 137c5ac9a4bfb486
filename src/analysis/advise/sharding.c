#include <stdlib.h>
#include <string.h>

#include "analysis/advise/passes.h"
#include "base/memory.h"
#include "model/module_path.h"

/*
 * State, gradients and parameters that ranks divide. ZeRO-1 and 2 give whole parameters to ranks; a gradient that
 * another rank owns goes once it is sent. ZeRO-3, as FSDP 2 does it around each numbered module (`blocks.*`): a unit's
 * parameters are gathered before its forward and before its backward, through a buffer that goes with the next unit's,
 * and its gradients are divided behind its backward through such a buffer; what lies in no unit stays gathered from the
 * beginning of forward to the end of backward.
 */

struct unit {

    uint64_t bytes; /* of its parameters */
};

struct sharder {
    struct mp_estimator *e;
    const struct mp_passes *passes;
    size_t root;
    MP_VEC(struct unit) units; /* the first: what lies in no other */
    struct mp_map of_path;     /* by module's string id + 1: the unit + 1 */
    struct mp_map of_text;
    struct mp_intern texts;
    struct mp_change change;
};

/* ---- whole parameters: ZeRO-1 and 2 */

/* The share of the rank that has most, where whole parameters are given to ranks: the largest first, each to the rank
 * that has least. */
static double largest_share(const struct mp_estimator *e)
{
    unsigned ranks = e->ranks < e->sizes.count ? e->ranks : (unsigned)e->sizes.count; /* others have none */
    uint64_t *held = mp_alloc_zeroed(ranks + 1, sizeof *held), all = 0, most = 0;
    for (size_t i = 0; i < e->sizes.count; i++) {
        unsigned least = 0;
        for (unsigned rank = 1; rank < ranks; rank++)
            if (held[rank] < held[least]) least = rank;
        held[least] += e->sizes.at[i];
        all += e->sizes.at[i];
        if (held[least] > most) most = held[least];
    }
    free(held);
    return all ? (double)most / (double)all : 1;
}

static uint64_t part_of(uint64_t bytes, double share)
{
    return (uint64_t)((double)bytes * share);
}

/* A gradient is whole when it is made. */
static void divide_gradient(const struct mp_estimator *e, struct mp_change *change, uint32_t block, double share,
                            uint32_t until)
{
    uint32_t made = mp_estimate_born(e, block), freed = e->model->blocks.free_event[block];
    const struct mp_torch_step *birth = e->births[block];
    if (until <= made) until = made + 1;
    const struct mp_edit_extra whole = {.bytes = e->model->blocks.bytes[block],
                                        .stream = birth ? birth->stream : 0,
                                        .pool = birth ? birth->pool : 0,
                                        .made = made,
                                        .freed = until < freed ? until : freed};
    mp_estimate_resize(e, change, block, until < freed ? part_of(e->model->blocks.bytes[block], share) : 0, until);
    mp_vec_add(&change->edits.extras, whole);
}

/* ---- temporaries of the step */

/* One that the optimizer made and let go of again. */
struct temporary {
    uint32_t block, stack, born;
};

struct temporaries {
    struct temporary *at;
    size_t count, room;
};

/* What one parameter takes of them. */
struct owner {
    uint64_t sum, largest;
    size_t number; /* in the program's order */
};

static int by_place(const void *a, const void *b)
{
    const struct temporary *x = a, *y = b;
    if (x->stack != y->stack) return x->stack < y->stack ? -1 : 1;
    return (x->born > y->born) - (x->born < y->born);
}

static int by_sum(const void *a, const void *b)
{
    const struct owner *x = a, *y = b;
    if (x->sum != y->sum) return x->sum < y->sum ? 1 : -1;
    return (x->number > y->number) - (x->number < y->number);
}

static bool is_of_lists(const struct mp_model *model, uint32_t stack)
{
    for (; stack; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame == MP_FRAME_CUT) continue;
        const struct mp_model_frame *at = &model->frames.at[frame];
        for (uint32_t i = 0; i < at->line_count; i++)
            if (strstr(mp_model_text(model, model->lines.at[at->first_line + i].function), "_multi_tensor_"))
                return true;
    }
    return false;
}

/* The most that a rank needs at a time, of parameters that it takes one after the other: those of the largest first,
 * and what a variable still holds of the one before. Of the rank that needs most, which need not be the one that has
 * most in all. */
static uint64_t most_of_ranks(struct owner *owners, size_t count, unsigned ranks)
{
    if (count) qsort(owners, count, sizeof *owners, by_sum);
    if (ranks >= count) return count ? owners[0].sum : 0; /* one each: no rank has one before */
    struct rank {
        uint64_t held, before, most;
    } *all = mp_alloc_zeroed(ranks, sizeof *all);
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned least = 0;
        for (unsigned rank = 1; rank < ranks; rank++)
            if (all[rank].held < all[least].held) least = rank;
        struct rank *at = &all[least];
        at->held += owners[i].sum;
        if (owners[i].sum + at->before > at->most) at->most = owners[i].sum + at->before;
        at->before = owners[i].largest;
        if (at->most > most) most = at->most;
    }
    free(all);
    return most;
}

/* Those of one step, of an optimizer that takes one parameter after the other: the k-th that a place makes is the k-th
 * parameter's. `undivided`: the most of them at a time, which no rank exceeds: a parameter's need not all live at
 * once. */
static void divide_sequence(const struct mp_estimator *e, struct mp_change *change, struct temporaries *step,
                            uint64_t undivided, uint32_t end)
{
    const struct mp_model_blocks *blocks = &e->model->blocks;
    MP_VEC(struct owner) owners = {0};
    uint32_t first = MP_NONE, like = step->at[0].block;
    qsort(step->at, step->count, sizeof *step->at, by_place);
    for (size_t i = 0, number = 0; i < step->count; i++) {
        uint64_t bytes = blocks->bytes[step->at[i].block];
        number = i && step->at[i].stack == step->at[i - 1].stack ? number + 1 : 0;
        while (owners.count <= number) {
            const struct owner one = {.number = owners.count};
            mp_vec_add(&owners, one);
        }
        owners.at[number].sum += bytes;
        if (bytes > owners.at[number].largest) owners.at[number].largest = bytes;
        if (step->at[i].born < first) first = step->at[i].born;
        mp_estimate_resize(e, change, step->at[i].block, 0, 0);
    }
    const struct mp_torch_step *birth = e->births[like];
    uint64_t most = most_of_ranks(owners.at, owners.count, e->ranks);
    const struct mp_edit_extra extra = {.bytes = most < undivided ? most : undivided,
                                        .stream = birth ? birth->stream : 0,
                                        .pool = birth ? birth->pool : 0,
                                        .made = first,
                                        .freed = end};
    if (extra.bytes) mp_vec_add(&change->edits.extras, extra);
    mp_vec_free(&owners);
}

static void divide_temporaries(const struct mp_estimator *e, struct mp_change *change, double share)
{
    const struct mp_model *model = e->model;
    const struct mp_phases *phases = &e->phases;
    struct temporaries step = {0};
    unsigned char *lists = mp_alloc_zeroed(model->stacks.count + 1, 1); /* by stack: 1 none, 2 of lists */
    for (size_t turn = 0; turn < phases->turns.count; turn++) {
        if (phases->turns.at[turn].phase != MP_PHASE_OPTIMIZER) continue;
        uint32_t end =
            turn + 1 < phases->turns.count ? phases->turns.at[turn + 1].first : (uint32_t)model->events.count;
        uint32_t first = phases->turns.at[turn].first;
        uint64_t held = 0, most = 0; /* of those in `step` */
        step.count = 0;
        for (uint32_t event = first; event < end; event++) {
            uint32_t block = model->events.subject[event], type = model->events.type[event];
            if ((type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) || !mp_estimator_has(e, block)) continue;
            if (e->category[block] != MP_CATEGORY_TEMPORARY || model->blocks.free_event[block] > end) continue;
            if (type == MP_EVENT_FREE) {
                bool is_of_step = mp_estimate_born(e, block) >= first && lists[model->blocks.stack[block]] == 1;
                if (is_of_step) held -= model->blocks.bytes[block];
                continue;
            }
            const struct temporary one = {block, model->blocks.stack[block], event};
            if (!lists[one.stack]) lists[one.stack] = is_of_lists(model, one.stack) ? 2 : 1;
            if (lists[one.stack] == 2) {
                mp_estimate_resize(e, change, block, part_of(model->blocks.bytes[block], share), event);
                continue;
            }
            mp_vec_add(&step, one);
            held += model->blocks.bytes[block];
            if (held > most) most = held;
        }
        if (step.count) divide_sequence(e, change, &step, most, end);
    }
    free(lists);
    mp_vec_free(&step);
}

static void divide_whole(struct mp_estimator *e, enum mp_change_what what, double share)
{
    struct mp_change change = {.kind = MP_CHANGE_SHARD, .what = what, .estimated = true, .ranks = e->ranks};
    for (uint32_t block = 0; block < e->model->blocks.count; block++) {
        if (!mp_estimator_has(e, block)) continue;
        if (e->category[block] == MP_CATEGORY_OPTIMIZER_STATE)
            mp_estimate_resize(e, &change, block, part_of(e->model->blocks.bytes[block], share),
                               mp_estimate_born(e, block));
        else if (what == MP_CHANGE_ZERO_2 && e->category[block] == MP_CATEGORY_GRADIENTS)
            divide_gradient(e, &change, block, share, mp_estimate_born(e, block) + 2);
    }
    if (change.edits.ends.count) divide_temporaries(e, &change, share);
    mp_estimate_propose(e, &change);
}

/* ---- units: ZeRO-3 */

/* The bytes of a path up to its first number; 0: it has none. */
static size_t unit_of_path(const char *path)
{
    for (const char *at = path; *at;) {
        size_t part = strcspn(at, ".");
        if (part && strspn(at, "0123456789") == part) return (size_t)(at - path) + part;
        at += part + (at[part] == '.');
    }
    return 0;
}

static size_t unit_of(struct sharder *s, uint32_t module)
{
    bool added;
    uint64_t *known = mp_map_at(&s->of_path, (uint64_t)module + 1, &added);
    if (!added) return *known;
    const char *path = module ? mp_module_path(s->e->model, s->root, module) : "";
    size_t length = unit_of_path(path), unit = 0;
    if (length) {
        bool first;
        uint64_t *found = mp_map_at(&s->of_text, (uint64_t)mp_intern_add(&s->texts, path, length) + 1, &first);
        const struct unit more = {0};
        if (first) *found = s->units.count;
        if (first) mp_vec_add(&s->units, more);
        unit = *found;
    }
    *mp_map_at(&s->of_path, (uint64_t)module + 1, NULL) = unit;
    return unit;
}

static void find_units(struct sharder *s)
{
    const struct unit outside = {0};
    mp_vec_add(&s->units, outside);
    for (size_t i = 0; i < s->passes->parameters.room; i++) {
        const struct mp_map_slot *slot = &s->passes->parameters.slots[i];
        if (!slot->key) continue;
        size_t unit = unit_of(s, (uint32_t)(slot->key - 1)); /* first: it may move the units */
        s->units.at[unit].bytes += slot->value;
    }
}

/* Where the pass of a turn is over: with the first turn behind it that is neither. */
static uint32_t end_of(const struct sharder *s, uint32_t backward)
{
    const struct mp_phases *phases = &s->e->phases;
    size_t turn = backward;
    while (turn < phases->turns.count && mp_phase_is_backward(phases->turns.at[turn].phase))
        turn++;
    return turn < phases->turns.count ? phases->turns.at[turn].first : (uint32_t)s->e->model->events.count;
}

static void add(struct sharder *s, uint32_t like, uint64_t bytes, uint32_t made, uint32_t gone)
{
    mp_pass_add(s->passes, &s->change, like, bytes, made, gone);
}

/* A run of acts in one unit; `next`: the event at which the next unit's begins. */
static void pass_unit(struct sharder *s, size_t at, size_t over, uint32_t next)
{
    const struct mp_pass_act *act = &s->passes->acts.at[at];
    size_t unit = unit_of(s, act->module); /* first: it may move the units */
    uint64_t bytes = s->units.at[unit].bytes;
    uint32_t after = mp_pass_after(s->passes, over);
    bool backward = mp_pass_phase(s->passes, at) == MP_PHASE_BACKWARD;
    add(s, act->block, bytes, act->event, after);
    if (!backward) add(s, act->block, bytes, act->event, next);
    if (backward) add(s, act->block, bytes, after, next > after ? next : after + 1);
}

/* From an act on, within its phase, else where that is over: the first act in a unit, and the first behind it in
 * another unit. Found from the back, as each run of a module that a loop calls would look through all that follow. */
struct ahead {
    size_t first, other;
};

static struct ahead *look_ahead(struct sharder *s)
{
    const struct mp_passes *p = s->passes;
    size_t count = p->acts.count;
    struct ahead *found = mp_alloc_zeroed(count + 1, sizeof *found);
    found[count] = (struct ahead){count, count};
    for (size_t at = count; at--;) {
        size_t unit = unit_of(s, p->acts.at[at].module);
        bool ends = at + 1 == count || mp_pass_phase(p, at + 1) != mp_pass_phase(p, at);
        struct ahead next = ends ? (struct ahead){at + 1, at + 1} : found[at + 1];
        found[at] = next;
        if (!unit) continue;
        bool same = next.first < count && mp_pass_phase(p, next.first) == mp_pass_phase(p, at) &&
                    unit_of(s, p->acts.at[next.first].module) == unit;
        found[at] = (struct ahead){at, same ? next.other : next.first};
    }
    return found;
}

static void pass_units(struct sharder *s)
{
    const struct mp_passes *p = s->passes;
    struct ahead *ahead = look_ahead(s);
    uint32_t gathered = MP_NONE; /* the backward before which what lies in no unit was gathered */
    for (size_t at = 0, over; at < p->acts.count; at = over) {
        size_t unit = unit_of(s, p->acts.at[at].module);
        unsigned phase = mp_pass_phase(p, at);
        for (over = at + 1;
             over < p->acts.count && unit_of(s, p->acts.at[over].module) == unit && mp_pass_phase(p, over) == phase;)
            over++;
        uint32_t turn = mp_phase_turn_of(&s->e->phases, p->acts.at[at].event);
        uint32_t backward = turn == MP_NONE               ? MP_NONE
                            : mp_phase_is_backward(phase) ? turn
                                                          : s->e->phases.turns.at[turn].backward;
        if (backward == MP_NONE) continue;
        if (backward != gathered)
            add(s, p->acts.at[at].block, s->units.at[0].bytes, p->acts.at[at].event, end_of(s, backward));
        gathered = backward;
        size_t next = ahead[at].other;
        if (unit) pass_unit(s, at, over, next < p->acts.count ? p->acts.at[next].event : mp_pass_after(p, over));
    }
    free(ahead);
}

/* Parameters and state are divided for ever, a gradient once its unit's backward is over. */
static void divide_all(struct sharder *s)
{
    const struct mp_estimator *e = s->e;
    for (uint32_t block = 0; block < e->model->blocks.count; block++) {
        if (!mp_estimator_has(e, block)) continue;
        unsigned category = e->category[block];
        uint64_t part = (e->model->blocks.bytes[block] + e->ranks - 1) / e->ranks;
        if (category == MP_CATEGORY_OPTIMIZER_STATE || category == MP_CATEGORY_PARAMETERS)
            mp_estimate_resize(e, &s->change, block, part, mp_estimate_born(e, block));
        else if (category == MP_CATEGORY_GRADIENTS)
            divide_gradient(e, &s->change, block, 1.0 / e->ranks, mp_estimate_born(e, block) + 2);
    }
}

static void divide_units(struct mp_estimator *e, const struct mp_passes *passes)
{
    struct sharder s = {
        .e = e,
        .passes = passes,
        .root = mp_module_root(e->model),
        .change = {.kind = MP_CHANGE_SHARD, .what = MP_CHANGE_ZERO_3, .estimated = true, .ranks = e->ranks}};
    if (!e->model->blocks.module) return;
    if (passes->parameters.count) {
        find_units(&s);
        divide_all(&s);
        pass_units(&s);
    }
    mp_estimate_propose(e, &s.change);
    mp_vec_free(&s.units);
    mp_map_free(&s.of_path);
    mp_map_free(&s.of_text);
    mp_intern_free(&s.texts);
}

void mp_sharding_find(struct mp_estimator *e, const struct mp_passes *passes)
{
    double share = e->ranks > 1 ? largest_share(e) : 1;
    if (share >= 1) return;
    divide_whole(e, MP_CHANGE_ZERO_1, share);
    divide_whole(e, MP_CHANGE_ZERO_2, share);
    divide_units(e, passes);
}
