#include "analysis/advise/logits.h"

#include <stdlib.h>

#include "base/memory.h"
#include "model/stack_facts.h"

#define SHIFT     8 /* a copy without the last tokens lacks at most 1/SHIFT of the logits' bytes */
#define KEPT_MOST 2 /* logits: the pass's, and those that a variable still holds */
#define HEAD_MOST 8 /* allocations of the head's backward */

/*
 * Logits, the blocks that a loss makes from them, and their gradients have one size, or half or twice that size in
 * another type. They are made between the head's forward and its backward. If the loss takes its input in chunks, only
 * one chunk of each lives at a time. But the head's gradients live from the first chunk's backward on, and later chunks
 * add to them.
 */
struct finder {
    const struct mp_model *model;
    const struct mp_stack_facts *facts;
    const struct mp_torch_step **births;
    struct mp_change change;
    uint32_t logits, loss;   /* blocks: the head's output; the first block that the loss made from it, or MP_NONE */
    uint32_t *living;        /* by stack: live blocks */
    uint32_t back;           /* event: the first of their gradients, or MP_NONE */
    uint32_t over;           /* event: the first behind the head's backward, or MP_NONE */
    MP_VEC(uint32_t) family; /* blocks of the logits' size, from them on */
    MP_VEC(uint32_t) head;   /* blocks that the head's backward made */
};

static bool is_of_size(uint64_t bytes, uint64_t size)
{
    for (uint64_t like = size / 2; like && like <= size * 2; like *= 2)
        if ((bytes > like ? bytes - like : like - bytes) <= like / SHIFT) return true;
    return false;
}

/* `like`: a block of the same stream and pool. */
static void add_extra(struct finder *f, struct mp_edit_extra extra, uint32_t like)
{
    const struct mp_torch_step *birth = f->births[like];
    extra.stream = birth ? birth->stream : 0;
    extra.pool = birth ? birth->pool : 0;
    mp_vec_add(&f->change.edits.extras, extra);
}

static void shrink(struct finder *f, uint32_t block)
{
    const struct mp_edit_end gone = {.block = block, .gone = true};
    const struct mp_edit_extra part = {.bytes = f->model->blocks.bytes[block] / MP_LOGITS_CHUNKS,
                                       .made = f->model->blocks.alloc_event[block],
                                       .freed = f->model->blocks.free_event[block]};
    mp_vec_add(&f->change.edits.ends, gone);
    add_extra(f, part, block);
    f->change.blocks++;
}

/* Backward of the head begins: the blocks so far are the logits'. If the program keeps those of many passes, chunks
 * would save nothing: they would be kept, too. */
static void take_family(struct finder *f)
{
    bool kept = f->living[f->model->blocks.stack[f->logits]] > KEPT_MOST;
    for (size_t i = 0; !kept && i < f->family.count; i++)
        shrink(f, f->family.at[i]);
    f->change.stack = f->model->blocks.stack[f->loss];
    f->family.count = 0;
    f->loss = f->logits = MP_NONE;
}

/* Called after the head's backward. A parameter's gradient lives from the first chunk on, and later chunks add to it.
 * The gradient of the hidden states is made in pieces, which are joined at the end. On a GPU, a bias needs room for its
 * sum over the tokens of a chunk. */
static void end_head(struct finder *f, uint32_t next)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    for (size_t i = 0; i < f->head.count; i++) {
        uint32_t block = f->head.at[i];
        bool lasts = blocks->free_event[block] > next;
        struct mp_edit_extra extra = {.bytes = blocks->bytes[block],
                                      .made = f->back,
                                      .freed = lasts ? f->over : blocks->alloc_event[block],
                                      .made_rank = 1,
                                      .freed_rank = 2};
        if (blocks->free_event[block] > f->over) {
            add_extra(f, extra, block);
            extra.made = extra.freed = f->over;
            add_extra(f, extra, block);
        } else if (f->facts->of_stack[blocks->stack[block]] & MP_FACT_SUMS) {
            shrink(f, block);
        }
    }
    f->head.count = 0;
    f->back = f->over = MP_NONE;
}

static void look_at(struct finder *f, uint32_t block, bool backward)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    uint32_t born = blocks->alloc_event[block], facts = f->facts->of_stack[blocks->stack[block]];
    bool multiplies = facts & MP_FACT_MULTIPLIES;
    if (f->head.count && f->over == MP_NONE && (!multiplies || f->head.count == HEAD_MOST)) f->over = born;
    if (f->over != MP_NONE && (multiplies || !backward)) end_head(f, born);
    bool passing = facts & MP_FACT_WORKSPACE || blocks->free_event[block] == born + 1;
    if (!backward && multiplies && !passing && !(facts & MP_FACT_CLASS_LOSS)) {
        f->logits = block;
        f->loss = f->back = MP_NONE;
        f->family.count = 0;
    }
    bool begins = backward && multiplies && !passing && f->loss != MP_NONE && f->back != MP_NONE;
    if (begins) take_family(f);
    bool within = begins || (f->head.count && f->over == MP_NONE);
    if (within && passing) shrink(f, block); /* a library's scratch memory for the product of a chunk */
    if (within && !passing) mp_vec_add(&f->head, block);
    if (f->logits == MP_NONE || !is_of_size(blocks->bytes[block], blocks->bytes[f->logits])) return;
    if (!backward && f->loss == MP_NONE && facts & MP_FACT_CLASS_LOSS) f->loss = block;
    if (backward && f->back == MP_NONE) f->back = born;
    mp_vec_add(&f->family, block);
}

void mp_logits_propose(const struct mp_model *model, const struct mp_torch_history *history,
                       const struct mp_phases *phases, struct mp_changes *changes)
{
    struct finder f = {.model = model,
                       .facts = mp_stack_facts(model),
                       .births = mp_births_find(model, history),
                       .living = mp_alloc_zeroed(model->stacks.count + 1, sizeof(uint32_t)),
                       .change = {.kind = MP_CHANGE_CHECKPOINT, .pattern = MP_CHANGE_CHUNKED_LOSS},
                       .logits = MP_NONE,
                       .loss = MP_NONE,
                       .back = MP_NONE,
                       .over = MP_NONE};
    for (uint32_t event = 0; event < model->events.count; event++) {
        uint32_t block = model->events.subject[event];
        bool dies = model->events.type[event] == MP_EVENT_FREE;
        if ((model->events.type[event] != MP_EVENT_ALLOC && !dies) || model->blocks.track[block] != history->track ||
            model->blocks.bytes[block] == MP_BYTES_UNKNOWN || model->blocks.alloc_event[block] == MP_NONE)
            continue;
        f.living[model->blocks.stack[block]] += dies ? (uint32_t)-1 : 1;
        if (dies) continue;
        look_at(&f, block, mp_phase_is_backward(mp_phase_of_block(phases, model, block)));
    }
    mp_edits_sort(&f.change.edits);
    if (f.change.blocks)
        mp_vec_add(changes, f.change);
    else
        mp_edits_free(&f.change.edits);
    mp_vec_free(&f.family);
    mp_vec_free(&f.head);
    free(f.births);
    free(f.living);
}
