#include "analysis/advise/edits.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"

MP_ORDER(by_block, struct mp_edit_end, MP_RISING(block) ?: MP_FALLING(gone) ?: MP_RISING(freed))

void mp_edits_join(struct mp_edits *edits, const struct mp_edits *more)
{
    if (more->one_stream) edits->stream = more->stream;
    edits->one_stream |= more->one_stream;
    for (size_t i = 0; i < more->ends.count; i++)
        mp_vec_add(&edits->ends, more->ends.at[i]);
    for (size_t i = 0; i < more->extras.count; i++)
        mp_vec_add(&edits->extras, more->extras.at[i]);
    mp_edits_sort(edits);
}

void mp_edits_sort(struct mp_edits *edits)
{
    if (!edits->ends.count) return;
    qsort(edits->ends.at, edits->ends.count, sizeof *edits->ends.at, by_block);
    size_t kept = 1;
    for (size_t i = 1; i < edits->ends.count; i++)
        if (edits->ends.at[i].block != edits->ends.at[kept - 1].block) edits->ends.at[kept++] = edits->ends.at[i];
    edits->ends.count = kept;
}

void mp_edits_free(struct mp_edits *edits)
{
    mp_vec_free(&edits->ends);
    mp_vec_free(&edits->extras);
}

/* A step that goes in before an event. */
struct insert {
    uint32_t event, rank, order;
    struct mp_torch_step step;
};

struct editor {
    const struct mp_model *model;
    const struct mp_torch_history *history;
    const struct mp_edits *edits;
    struct mp_torch_history *edited;
    struct mp_map ends; /* block + 1 to index */
    MP_VEC(struct insert) inserts;
};

static const struct mp_edit_end *edit_of(const struct editor *e, uint32_t block)
{
    const uint64_t *found = block == MP_NONE ? NULL : mp_map_find(&e->ends, (uint64_t)block + 1);
    return found ? &e->edits->ends.at[*found] : NULL;
}

static int by_time(const void *a, const void *b)
{
    const struct insert *x = a, *y = b;
    if (x->event != y->event) return x->event < y->event ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    bool makes = x->step.action == MP_TORCH_ALLOC, makes_other = y->step.action == MP_TORCH_ALLOC;
    if (makes != makes_other) return makes ? 1 : -1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void insert(struct editor *e, uint32_t event, uint32_t rank, const struct mp_torch_step *step)
{
    const struct insert one = {event, rank, (uint32_t)e->inserts.count, *step};
    if (event != MP_NONE) mp_vec_add(&e->inserts, one);
}

static struct mp_torch_step free_of(const struct mp_torch_step *birth)
{
    struct mp_torch_step step = *birth;
    step.action = MP_TORCH_FREE_COMPLETED;
    step.event = MP_NONE;
    return step;
}

static void insert_ends(struct editor *e)
{
    const struct mp_torch_history *history = e->history;
    mp_vec_each (const struct mp_torch_base, base, &history->base) {
        const struct mp_edit_end *edit = edit_of(e, base->block);
        if (!edit || edit->gone) continue;
        const struct mp_torch_step birth = {.address = base->address,
                                            .bytes = base->requested,
                                            .stream = base->stream,
                                            .pool = base->pool,
                                            .block = base->block};
        const struct mp_torch_step end = free_of(&birth);
        insert(e, edit->freed, 0, &end);
    }
    for (size_t i = 0; i < history->steps.count; i++) {
        const struct mp_edit_end *edit =
            history->steps.at[i].action == MP_TORCH_ALLOC ? edit_of(e, history->steps.at[i].block) : NULL;
        if (!edit || edit->gone) continue;
        const struct mp_torch_step end = free_of(&history->steps.at[i]);
        insert(e, edit->freed, 0, &end);
    }
}

static void insert_extras(struct editor *e)
{
    uint32_t block = (uint32_t)e->model->blocks.count + e->history->made_up;
    for (size_t i = 0; i < e->edits->extras.count; i++) {
        const struct mp_edit_extra *extra = &e->edits->extras.at[i];
        struct mp_torch_step step = {.address = MP_BYTES_UNKNOWN,
                                     .bytes = extra->bytes,
                                     .stream = extra->stream,
                                     .pool = extra->pool,
                                     .block = block++,
                                     .event = MP_NONE,
                                     .action = MP_TORCH_ALLOC};
        insert(e, extra->made, extra->made_rank, &step);
        const struct mp_torch_step end = free_of(&step);
        insert(e, extra->freed, extra->freed_rank, &end);
    }
    e->edited->made_up = block - (uint32_t)e->model->blocks.count;
}

static void merge_steps(struct editor *e)
{
    const struct mp_torch_history *history = e->history;
    size_t next = 0, emptied = 0;
    for (size_t i = 0; i <= history->steps.count; i++) {
        const struct mp_torch_step *step = i < history->steps.count ? &history->steps.at[i] : NULL;
        while (next < e->inserts.count &&
               (!step || (step->event != MP_NONE && e->inserts.at[next].event <= step->event)))
            mp_vec_add(&e->edited->steps, e->inserts.at[next++].step);
        for (; emptied < history->emptied.count && history->emptied.at[emptied] <= i; emptied++)
            mp_vec_add(&e->edited->emptied, (uint32_t)e->edited->steps.count);
        if (!step) break;
        const struct mp_edit_end *edit = step->action < MP_TORCH_CALL ? edit_of(e, step->block) : NULL;
        bool ends = step->action == MP_TORCH_FREE_REQUESTED || step->action == MP_TORCH_FREE_COMPLETED;
        if (edit && (ends || edit->gone)) continue;
        mp_vec_add(&e->edited->steps, *step);
    }
}

void mp_edits_apply(const struct mp_model *model, const struct mp_torch_history *history, const struct mp_edits *edits,
                    struct mp_torch_history *edited)
{
    struct editor e = {.model = model, .history = history, .edits = edits, .edited = edited};
    *edited = *history;
    edited->steps.at = NULL;
    edited->base.at = NULL;
    edited->emptied.at = NULL;
    edited->steps.count = edited->steps.room = edited->base.count = edited->base.room = 0;
    edited->emptied.count = edited->emptied.room = 0;
    for (size_t i = 0; i < edits->ends.count; i++)
        *mp_map_at(&e.ends, (uint64_t)edits->ends.at[i].block + 1, NULL) = i;
    insert_ends(&e);
    insert_extras(&e);
    if (e.inserts.count) qsort(e.inserts.at, e.inserts.count, sizeof *e.inserts.at, by_time);
    for (size_t i = 0; i < history->base.count; i++) {
        const struct mp_edit_end *edit = edit_of(&e, history->base.at[i].block);
        if (!edit || !edit->gone) mp_vec_add(&edited->base, history->base.at[i]);
    }
    merge_steps(&e);
    for (size_t i = 0; edits->one_stream && i < edited->steps.count; i++)
        edited->steps.at[i].stream = edits->stream;
    mp_vec_free(&e.inserts);
    mp_map_free(&e.ends);
}

void mp_edited_free(struct mp_torch_history *edited)
{
    mp_vec_free(&edited->steps);
    mp_vec_free(&edited->base);
    mp_vec_free(&edited->emptied);
}

static uint64_t bytes_of(const struct mp_model *model, uint32_t block, uint64_t otherwise)
{
    uint64_t bytes = block < model->blocks.count ? model->blocks.bytes[block] : otherwise;
    return bytes == MP_BYTES_UNKNOWN ? 0 : bytes;
}

uint64_t mp_edited_peak(const struct mp_model *model, const struct mp_torch_history *history, mp_torch_watch *watch,
                        void *context)
{
    uint64_t level = 0, peak = 0;
    for (size_t i = 0; i < history->base.count; i++)
        level += bytes_of(model, history->base.at[i].block, history->base.at[i].requested);
    peak = level;
    if (watch) watch(context, MP_TORCH_BEFORE_STEPS, level, level);
    for (size_t i = 0; i < history->steps.count; i++) {
        const struct mp_torch_step *step = &history->steps.at[i];
        if (step->action == MP_TORCH_ALLOC) level += bytes_of(model, step->block, step->bytes);
        if (step->action == MP_TORCH_FREE_COMPLETED && step->block != MP_NONE)
            level -= bytes_of(model, step->block, step->bytes);
        if (level > peak && level < UINT64_MAX / 2) peak = level;
        if (watch && level < UINT64_MAX / 2) watch(context, i, level, level);
    }
    return peak;
}

const struct mp_torch_step **mp_births_find(const struct mp_model *model, const struct mp_torch_history *history)
{
    const struct mp_torch_step **births = mp_alloc_zeroed(model->blocks.count + 1, sizeof *births);
    mp_vec_each (const struct mp_torch_step, step, &history->steps) {
        if (step->action == MP_TORCH_ALLOC && step->block < model->blocks.count) births[step->block] = step;
    }
    return births;
}
