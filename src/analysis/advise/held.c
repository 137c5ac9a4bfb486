#include "analysis/advise/held.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/categories/phases.h"
#include "analysis/holders/causes.h"
#include "analysis/sites/peak.h"
#include "base/intern.h"
#include "base/memory.h"

#define MOST 16 /* causes with most bytes */

struct finder {
    const struct mp_model *model;
    uint16_t track;
    uint32_t peak; /* number of events before it */
    struct mp_phases phases;
    struct mp_held_causes causes;
    const struct mp_model_holder **row_of; /* by block; NULL: no look found a holder */
    uint32_t *look_at;                     /* by look: number of events before it */
    unsigned char *is_ended;               /* by block: an earlier change ends it */
    unsigned char *is_dead;                /* by block: its holder is a cycle that no name leads to */
};

static bool lives_at(const struct finder *f, uint32_t block, uint32_t moment)
{
    uint32_t born = f->model->blocks.alloc_event[block], died = f->model->blocks.free_event[block];
    return (born == MP_NONE || born < moment) && (died == MP_NONE || died >= moment);
}

static bool is_of_cause(const struct finder *f, uint32_t block, size_t cause)
{
    return f->causes.of_block[block] == cause + 1;
}

static void end_at(const struct finder *f, struct mp_change *change, uint32_t block, uint32_t end)
{
    uint32_t born = f->model->blocks.alloc_event[block];
    if (end != MP_NONE && born != MP_NONE && end > born && end < f->model->blocks.free_event[block])
        mp_change_end(change, block, end);
}

/* The first allocation of the same stack after a moment: a variable has a new value by then. MP_NONE: none. */
static uint32_t next_birth(const struct finder *f, uint32_t block, uint32_t moment)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    for (uint32_t next = block + 1; next < blocks->count; next++)
        if (blocks->stack[next] == blocks->stack[block] && blocks->track[next] == f->track &&
            blocks->alloc_event[next] != MP_NONE && blocks->alloc_event[next] >= moment)
            return blocks->alloc_event[next];
    return MP_NONE;
}

/* True if a variable leads to the block, or to its graph, and no container. */
static bool is_in_variable(const struct finder *f, const struct mp_model_holder *row)
{
    return (row->kind == MP_HOLDER_LOCAL || row->kind == MP_HOLDER_GRAPH) && row->look < f->model->looks.count &&
           !strchr(mp_model_text(f->model, row->path), '[');
}

/* A graph is of no use after its backward pass. Blocks that other holders keep stay; but a look may have come while a
 * block was still in a variable, and only there. */
static void end_graph(const struct finder *f, uint32_t stack, struct mp_change *change)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    for (uint32_t block = 0; block < blocks->count; block++) {
        if (blocks->stack[block] != stack || blocks->track[block] != f->track || blocks->alloc_event[block] == MP_NONE)
            continue;
        uint32_t its = f->causes.of_block[block]; /* another path may lead to the same container at another time */
        const struct mp_model_holder *row = its ? NULL : f->row_of[block];
        if (its && f->causes.at[its - 1].why != MP_HELD_GRAPH) continue;
        uint32_t end = mp_phase_backward_end(&f->phases, blocks->alloc_event[block]);
        if (row && !is_in_variable(f, row)) continue;
        if (row && end != MP_NONE && f->look_at[row->look] >= end) end = next_birth(f, block, f->look_at[row->look]);
        end_at(f, change, block, end);
    }
}

static bool is_dead(const struct finder *f, const struct mp_model_holder *row)
{
    const struct mp_holder holder = {
        .path = mp_model_text(f->model, row->path), .kind = row->kind, .certain = row->certain};
    return mp_holder_is_cycle(&holder);
}

/* A look that found some of a site's blocks dead, or saw everything, knows which of the others were in use. */
static bool tells_dead(const struct finder *f, const uint32_t *siblings, size_t count, uint32_t look)
{
    bool tells = f->model->looks.at[look].complete;
    for (size_t i = 0; !tells && i < count; i++)
        tells = f->row_of[siblings[i]] && f->is_dead[siblings[i]] && f->row_of[siblings[i]]->since == look;
    return tells;
}

/* The most blocks of a site that were in use at one look that tells; 0: none. */
static size_t most_used(const struct finder *f, const uint32_t *siblings, size_t count)
{
    size_t most = 0;
    for (uint32_t look = 0; look < f->model->looks.count; look++) {
        size_t used = 0, asked = tells_dead(f, siblings, count, look) ? count : 0;
        for (size_t i = 0; i < asked; i++) {
            const struct mp_model_holder *row = f->row_of[siblings[i]];
            used += row && row->look >= look && lives_at(f, siblings[i], f->look_at[look]) &&
                    (row->since > look || !f->is_dead[siblings[i]]);
        }
        if (used > most) most = used;
    }
    return most;
}

/* Objects die in the order in which they were made. A block is dead as soon as so many younger ones were made as are
 * used at a time, and at the latest when a look found it dead. */
static void end_dead(const struct finder *f, uint32_t stack, struct mp_change *change)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    MP_VEC(uint32_t) siblings = {0};
    for (uint32_t block = 0; block < blocks->count; block++)
        if (blocks->stack[block] == stack && blocks->track[block] == f->track) mp_vec_add(&siblings, block);
    size_t used = most_used(f, siblings.at, siblings.count);
    for (size_t i = 0; i < siblings.count; i++) {
        uint32_t block = siblings.at[i], end = MP_NONE;
        const struct mp_model_holder *row = f->row_of[block];
        if (row && f->is_dead[block] && row->since < f->model->looks.count) end = f->look_at[row->since];
        if (used && i + used < siblings.count && blocks->alloc_event[siblings.at[i + used]] < end)
            end = blocks->alloc_event[siblings.at[i + used]];
        end_at(f, change, block, end);
    }
    mp_vec_free(&siblings);
}

/* True if changes for leaks already end most of the cause's blocks. */
static bool is_leak(const struct finder *f, size_t cause, const struct mp_changes *changes)
{
    uint64_t ended = 0;
    for (size_t i = 0; i < changes->count; i++)
        for (size_t k = 0; changes->at[i].pattern == MP_CHANGE_LEAK && k < changes->at[i].edits.ends.count; k++)
            ended += is_of_cause(f, changes->at[i].edits.ends.at[k].block, cause);
    return 2 * ended > f->causes.at[cause].blocks;
}

static void propose(const struct finder *f, size_t number, struct mp_changes *changes)
{
    static const enum mp_change_pattern patterns[MP_HELD_WHYS] = {MP_CHANGE_GARBAGE, MP_CHANGE_CYCLE,
                                                                  MP_CHANGE_KEPT_GRAPH};
    const struct mp_held_cause *cause = &f->causes.at[number];
    struct mp_change change = {.kind = MP_CHANGE_LIFETIME,
                               .pattern = patterns[cause->why],
                               .variable = mp_text_copy(cause->root),
                               .advice = cause->advice,
                               .stack = cause->stack,
                               .bytes = cause->bytes};
    unsigned char *stacks = mp_alloc_zeroed(f->model->stacks.count + 1, 1);
    for (uint32_t block = 0; block < f->model->blocks.count; block++)
        if (is_of_cause(f, block, number)) stacks[f->model->blocks.stack[block]] = 1;
    for (uint32_t stack = 0; stack <= f->model->stacks.count; stack++) {
        if (!stacks[stack]) continue;
        if (cause->why == MP_HELD_GRAPH)
            end_graph(f, stack, &change);
        else
            end_dead(f, stack, &change);
    }
    free(stacks);
    size_t known = 0;
    for (size_t i = 0; i < change.edits.ends.count; i++) {
        unsigned char *is_ended = &f->is_ended[change.edits.ends.at[i].block];
        known += *is_ended;
        *is_ended = 1;
    }
    if (change.edits.ends.count &&
        known == change.edits.ends.count) { /* another name of what an earlier change drops */
        free(change.variable);
        mp_edits_free(&change.edits);
        return;
    }
    mp_edits_sort(&change.edits);
    mp_vec_add(changes, change);
}

uint64_t mp_held_unknown(const struct mp_model *model, uint16_t track)
{
    const struct mp_window window = mp_window_all(model);
    struct finder f = {.model = model, .track = track};
    struct mp_peak peak = {0};
    struct mp_holders holders = {0};
    uint64_t unknown = 0;
    if (model->tracks.at[track].layer != MP_LAYER_TORCH || !mp_model_has_source(model, "shim")) return 0;
    mp_peak_locate(model, track, &window, false, &peak);
    mp_holders_find_at(model, track, peak.moment, &holders);
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        if (model->blocks.track[block] != track || model->blocks.bytes[block] == MP_BYTES_UNKNOWN ||
            !lives_at(&f, block, peak.moment))
            continue;
        const struct mp_holders_site *site = mp_holders_of(&holders, track, model->blocks.stack[block]);
        if (!site || mp_holder_awaits_gc(&holders.holders.at[site->first])) unknown += model->blocks.bytes[block];
    }
    mp_holders_free(&holders);
    return unknown;
}

/* True if the path begins at a name of the program, and leads to the block or through a container's entries. A
 * variable's own graph is a training's activations. */
static bool is_from_name(const struct mp_holder *holder)
{
    const char *graph = strstr(holder->path, ".grad_fn");
    return holder->certain && holder->kind < MP_HOLDER_NATIVE && !mp_holder_is_cycle(holder) && *holder->path != '<' &&
           (!graph || memchr(holder->path, '[', (size_t)(graph - holder->path)));
}

struct mp_held_most mp_held_most_find(const struct mp_model *model, uint16_t track)
{
    const struct mp_window window = mp_window_all(model);
    struct finder f = {.model = model, .track = track};
    struct mp_peak peak = {0};
    struct mp_holders holders = {0};
    struct mp_intern roots = {0};
    struct mp_held_most most = {0};
    MP_VEC(uint64_t) sums = {0}; /* by root */
    unsigned char *labelled = mp_alloc_zeroed(model->blocks.count + 1, 1);
    mp_vec_each (const struct mp_model_label, label, &model->labels)
        labelled[label->block] = label->role != MP_ROLE_NONE;
    mp_peak_locate(model, track, &window, false, &peak);
    mp_holders_find_at(model, track, peak.moment, &holders);
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        if (model->blocks.track[block] != track || model->blocks.bytes[block] == MP_BYTES_UNKNOWN || labelled[block] ||
            !lives_at(&f, block, peak.moment))
            continue;
        const struct mp_holders_site *site = mp_holders_of(&holders, track, model->blocks.stack[block]);
        const struct mp_holder *holder = site && site->count ? &holders.holders.at[site->first] : NULL;
        if (!holder || !is_from_name(holder)) continue;
        uint32_t root = mp_intern_add(&roots, holder->path, mp_holder_root(holder->path));
        while (sums.count <= root)
            mp_vec_add(&sums, 0);
        sums.at[root] += model->blocks.bytes[block];
        if (sums.at[root] <= most.bytes) continue;
        most.bytes = sums.at[root];
        free(most.path);
        most.path = mp_text_copy(mp_intern_get(&roots, root, NULL));
    }
    free(labelled);
    mp_vec_free(&sums);
    mp_intern_free(&roots);
    mp_holders_free(&holders);
    return most;
}

void mp_held_propose(const struct mp_model *model, uint16_t track, struct mp_changes *changes)
{
    struct finder f = {.model = model, .track = track};
    const struct mp_window window = mp_window_all(model);
    struct mp_peak peak = {0};
    mp_peak_locate(model, track, &window, false, &peak);
    f.peak = peak.moment;
    mp_held_causes_find(model, track, f.peak, &f.causes);
    if (f.causes.count) {
        mp_phases_find(model, &f.phases);
        f.row_of = mp_alloc_zeroed(model->blocks.count + 1, sizeof(void *));
        f.look_at = mp_alloc((model->looks.count + 1) * sizeof *f.look_at);
        f.is_dead = mp_alloc_zeroed(model->blocks.count + 1, 1);
        f.is_ended = mp_alloc_zeroed(model->blocks.count + 1, 1);
        for (size_t i = 0; i < model->holders.count; i++) {
            f.row_of[model->holders.at[i].block] = &model->holders.at[i];
            f.is_dead[model->holders.at[i].block] = is_dead(&f, &model->holders.at[i]);
        }
        for (size_t i = 0; i < model->looks.count; i++)
            f.look_at[i] = mp_model_events_before(model, model->looks.at[i].time_ns, true);
        for (size_t i = 0; i < f.causes.count && i < MOST; i++)
            if (f.causes.at[i].bytes && !is_leak(&f, i, changes)) propose(&f, i, changes);
        mp_phases_free(&f.phases);
        free(f.row_of);
        free(f.is_dead);
        free(f.is_ended);
        free(f.look_at);
    }
    mp_held_causes_free(&f.causes);
}
