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
    uint32_t block, stack, born, freed;
    uint64_t bytes;
    size_t number; /* of the parameter that it is for, in the program's order */
};

struct temporaries {
    struct temporary *at;
    size_t count, room;
};

/* What one parameter takes of them: in all, the most at a time, and what is still held when the next one takes most. */
struct owner {
    uint64_t sum, most, held;
    size_t number;
};

struct owners {
    struct owner *at;
    size_t count, room;
};

static int by_place(const void *a, const void *b)
{
    const struct temporary *x = a, *y = b;
    if (x->stack != y->stack) return x->stack < y->stack ? -1 : 1;
    return (x->born > y->born) - (x->born < y->born);
}

static int by_number(const void *a, const void *b)
{
    const struct temporary *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return (x->born > y->born) - (x->born < y->born);
}

static int by_end(const void *a, const void *b)
{
    const struct temporary *x = *(struct temporary *const *)a, *y = *(struct temporary *const *)b;
    return (x->freed > y->freed) - (x->freed < y->freed);
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

/* The most that a rank needs at a time, of parameters that it takes one after the other, the largest first: beside
 * those of one, what variables still hold of the one before, which in the program may have been a smaller one's. Of the
 * rank that needs most, which need not be the one that has most in all. */
static uint64_t most_of_ranks(struct owner *owners, size_t count, unsigned ranks)
{
    if (count) qsort(owners, count, sizeof *owners, by_sum);
    if (ranks > count) ranks = (unsigned)count; /* others have none */
    struct rank {
        uint64_t sum, held;
    } *all = mp_alloc_zeroed(ranks + 1, sizeof *all);
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned least = 0;
        for (unsigned rank = 1; ranks < count && rank < ranks; rank++)
            if (all[rank].sum < all[least].sum) least = rank;
        if (ranks == count) least = (unsigned)i;
        struct rank *at = &all[least];
        at->sum += owners[i].sum;
        if (owners[i].most + at->held > most) most = owners[i].most + at->held;
        at->held = owners[i].held;
    }
    free(all);
    return most;
}

/* Of the temporaries of one parameter, by birth: the most at a time, and when. `ends` has room for them. */
static uint64_t most_at_a_time(const struct temporary *at, size_t count, const struct temporary **ends, uint32_t *when)
{
    uint64_t held = 0, most = 0;
    for (size_t i = 0; i < count; i++)
        ends[i] = &at[i];
    qsort(ends, count, sizeof *ends, by_end);
    for (size_t i = 0, end = 0; i < count; i++) {
        for (; end < count && ends[end]->freed < at[i].born; end++)
            held -= ends[end]->bytes;
        held += at[i].bytes;
        if (held <= most) continue;
        most = held;
        *when = at[i].born;
    }
    return most;
}

/* The k-th that a place makes is the k-th parameter's. Of the last parameter's it is not seen what the next one would
 * find held: as much of them as of the first's. */
static void find_owners(struct temporaries *step, struct owners *owners)
{
    const struct temporary **ends = mp_alloc_zeroed(step->count, sizeof *ends);
    qsort(step->at, step->count, sizeof *step->at, by_place);
    for (size_t i = 0; i < step->count; i++)
        step->at[i].number = i && step->at[i].stack == step->at[i - 1].stack ? step->at[i - 1].number + 1 : 0;
    qsort(step->at, step->count, sizeof *step->at, by_number);
    for (size_t from = 0, before = 0, next; from < step->count; before = from, from = next) {
        struct owner one = {.number = step->at[from].number};
        uint32_t when = 0;
        for (next = from; next < step->count && step->at[next].number == one.number; next++)
            one.sum += step->at[next].bytes;
        one.most = most_at_a_time(&step->at[from], next - from, ends, &when);
        for (size_t i = before; i < from; i++)
            if (step->at[i].freed > when) owners->at[owners->count - 1].held += step->at[i].bytes;
        mp_vec_add(owners, one);
    }
    struct owner *last = &owners->at[owners->count - 1], *first = owners->at;
    if (owners->count > 1 && first->sum) last->held = part_of(last->sum, (double)first->held / (double)first->sum);
    free(ends);
}

/* Those of one step, of an optimizer that takes one parameter after the other. */
static void divide_sequence(const struct mp_estimator *e, struct mp_change *change, struct temporaries *step,
                            uint32_t end)
{
    struct owners owners = {0};
    const struct mp_torch_step *birth = e->births[step->at[0].block];
    uint32_t first = step->at[0].born;
    for (size_t i = 0; i < step->count; i++)
        mp_estimate_resize(e, change, step->at[i].block, 0, 0);
    find_owners(step, &owners);
    const struct mp_edit_extra extra = {.bytes = most_of_ranks(owners.at, owners.count, e->ranks),
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
        step.count = 0;
        for (uint32_t event = first; event < end; event++) {
            uint32_t block = model->events.subject[event], type = model->events.type[event];
            if (type != MP_EVENT_ALLOC || !mp_estimator_has(e, block)) continue;
            if (e->category[block] != MP_CATEGORY_TEMPORARY || model->blocks.free_event[block] > end) continue;
            const struct temporary one = {.block = block,
                                          .stack = model->blocks.stack[block],
                                          .born = event,
                                          .freed = model->blocks.free_event[block],
                                          .bytes = model->blocks.bytes[block]};
            if (!lists[one.stack]) lists[one.stack] = is_of_lists(model, one.stack) ? 2 : 1;
            if (lists[one.stack] == 2) {
                mp_estimate_resize(e, change, block, part_of(model->blocks.bytes[block], share), event);
                continue;
            }
            mp_vec_add(&step, one);
        }
        if (step.count) divide_sequence(e, change, &step, end);
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
