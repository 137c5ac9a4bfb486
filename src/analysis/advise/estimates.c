#include "analysis/advise/estimates.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/advise/estimator.h"
#include "analysis/advise/module_calls.h"
#include "analysis/advise/passes.h"
#include "base/memory.h"
#include "base/search.h"
#include "model/track.h"

#define LEAST_QUANTIZED (4096 * 4) /* bytes: libraries leave smaller state as it is */
#define QUANTIZED_PART  4          /* 8 bits in place of 32 */
#define SCALE_PART      256        /* and four bytes for so many values: a part of so many of their bytes */

bool mp_estimator_has(const struct mp_estimator *e, uint32_t block)
{
    return e->model->blocks.track[block] == e->history->track && e->model->blocks.bytes[block] != MP_BYTES_UNKNOWN;
}

/* At the peak where it lived then, else just before its end. */
static void find_categories(struct mp_estimator *e)
{
    const struct mp_model_blocks *blocks = &e->model->blocks;
    uint32_t peak = e->model->sums.at[e->history->track].peak_event;
    uint32_t end = (uint32_t)e->model->events.count;
    e->category = mp_alloc_zeroed(blocks->count + 1, 1);
    for (uint32_t block = 0; block < blocks->count; block++) {
        if (!mp_estimator_has(e, block)) continue;
        uint32_t born = blocks->alloc_event[block], freed = blocks->free_event[block];
        bool lived = peak != MP_NONE && (born == MP_NONE || born <= peak) && (freed == MP_NONE || freed > peak);
        uint32_t moment = lived ? peak + 1 : freed == MP_NONE ? end : freed;
        unsigned category = mp_category_of(e->categories, block, moment);
        e->category[block] = (unsigned char)(category < MP_CATEGORIES ? category : MP_CATEGORY_NONE);
    }
}

void mp_estimate_resize(const struct mp_estimator *e, struct mp_change *change, uint32_t block, uint64_t bytes,
                        uint32_t made)
{
    const struct mp_model_blocks *blocks = &e->model->blocks;
    const struct mp_torch_step *birth = e->births[block];
    const struct mp_edit_end gone = {.block = block, .gone = true};
    const struct mp_edit_extra extra = {.bytes = bytes,
                                        .stream = birth ? birth->stream : 0,
                                        .pool = birth ? birth->pool : 0,
                                        .made = made,
                                        .freed = blocks->free_event[block]};
    mp_vec_add(&change->edits.ends, gone);
    if (bytes) mp_vec_add(&change->edits.extras, extra);
    change->blocks++;
    change->bytes += blocks->bytes[block];
}

uint32_t mp_estimate_born(const struct mp_estimator *e, uint32_t block)
{
    uint32_t event = e->model->blocks.alloc_event[block];
    return event == MP_NONE ? 0 : event;
}

void mp_estimate_propose(struct mp_estimator *e, struct mp_change *change)
{
    if (change->edits.ends.count) {
        mp_edits_sort(&change->edits);
        mp_vec_add(e->changes, *change);
    } else {
        mp_edits_free(&change->edits);
    }
}

/* ---- sizes of parameters */

static int by_bytes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

static void find_sizes(struct mp_estimator *e)
{
    for (uint32_t block = 0; block < e->model->blocks.count; block++)
        if (mp_estimator_has(e, block) && e->category[block] == MP_CATEGORY_PARAMETERS)
            mp_vec_add(&e->sizes, e->model->blocks.bytes[block]);
    if (e->sizes.count) qsort(e->sizes.at, e->sizes.count, sizeof *e->sizes.at, by_bytes);
}

bool mp_estimate_is_parameters_size(const struct mp_estimator *e, uint32_t block)
{
    uint64_t bytes = e->model->blocks.bytes[block];
    size_t at = MP_COUNT_BEFORE(e->sizes.count, i, e->sizes.at[i] > bytes);
    return at < e->sizes.count && e->sizes.at[at] == bytes;
}

/* ---- optimizer state of 8 bits */

/* Values of which width no recording says. They have 16 bits where a network was converted to such, or where kernels
 * for such run without autocast, which leaves parameters and their state as they are. */
static bool may_be_half(const struct mp_estimator *e)
{
    const struct mp_model *model = e->model;
    bool half = false, casts = false, converted = false;
    for (size_t i = 0; i < model->lines.count; i++) {
        const char *name = mp_model_text(model, model->lines.at[i].function), *last = strrchr(name, '.');
        const char *file = mp_model_text(model, model->lines.at[i].file);
        last = last ? last + 1 : name;
        casts |= strstr(name, "autocast::cached_cast") != NULL;
        half |=
            strstr(name, "BFloat16") || strstr(name, "bfloat16") || strstr(name, "bf16") || strstr(name, "c10::Half");
        if (!strstr(file, "torch/nn/modules/module.py")) continue;
        converted |=
            !strcmp(last, "half") || !strcmp(last, "bfloat16") || strstr(name, ".half.") || strstr(name, ".bfloat16.");
    }
    bool on_host = !strncmp(mp_track_device(model, e->history->track), "cpu", 3);
    for (uint32_t block = 0; on_host && block < model->blocks.count; block++) {
        if (!mp_estimator_has(e, block) || e->category[block] != MP_CATEGORY_PARAMETERS) continue;
        for (uint32_t stack = model->blocks.stack[block]; stack; stack = model->stacks.at[stack].parent) {
            uint32_t frame = model->stacks.at[stack].frame; /* to the device where it is anyway: for its type alone */
            converted |= frame != MP_FRAME_CUT && mp_frame_is(model, frame, "convert", "torch/nn/modules/module.py");
        }
    }
    return converted || (half && !casts);
}

static bool is_cast(const struct mp_model *model)
{
    for (size_t i = 0; i < model->lines.count; i++)
        if (strstr(mp_model_text(model, model->lines.at[i].function), "autocast::cached_cast")) return true;
    return false;
}

/* By the innermost file or class of that name; NULL: another one, or not known. */
static const char *adam_of(const struct mp_model *model, uint32_t stack)
{
    for (; stack; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame == MP_FRAME_CUT || model->frames.at[frame].raw.language != MP_PYTHON) continue;
        if (!model->frames.at[frame].line_count) continue;
        const struct mp_model_line *line = &model->lines.at[model->frames.at[frame].first_line];
        const char *name = mp_model_text(model, line->function);
        if (mp_frame_is(model, frame, NULL, "optim/adamw.py") || !strncmp(name, "AdamW.", 6)) return "AdamW";
        if (mp_frame_is(model, frame, NULL, "optim/adam.py") || !strncmp(name, "Adam.", 5)) return "Adam";
    }
    return NULL;
}

/* State of Adam alone, of its parameter's width: other optimizers have no form of 8 bits that is known to hold as much.
 */
static void find_quantized(struct mp_estimator *e)
{
    const struct mp_model_blocks *blocks = &e->model->blocks;
    struct mp_change change = {.kind = MP_CHANGE_OPTIMIZER, .what = MP_CHANGE_EIGHT_BIT, .estimated = true};
    bool half = may_be_half(e);
    for (uint32_t block = 0; !half && block < blocks->count; block++) {
        uint64_t bytes = blocks->bytes[block];
        if (!mp_estimator_has(e, block) || e->category[block] != MP_CATEGORY_OPTIMIZER_STATE || bytes < LEAST_QUANTIZED)
            continue;
        const char *adam = mp_estimate_is_parameters_size(e, block) ? adam_of(e->model, blocks->stack[block]) : NULL;
        if (!adam) continue;
        change.optimizer = adam;
        mp_estimate_resize(e, &change, block, bytes / QUANTIZED_PART + bytes / SCALE_PART, mp_estimate_born(e, block));
    }
    for (uint32_t block = 0; change.optimizer && block < blocks->count; block++)
        if (mp_estimator_has(e, block) && e->category[block] == MP_CATEGORY_TEMPORARY &&
            mp_phase_of_block(&e->phases, e->model, block) == MP_PHASE_OPTIMIZER &&
            adam_of(e->model, blocks->stack[block]))
            mp_estimate_resize(e, &change, block, 0, 0); /* its kernels need none */
    mp_estimate_propose(e, &change);
}

/* ---- micro-batches of half the size */

/* Where the forward begins that the backward of an event follows; MP_NONE. */
static uint32_t forward_of(const struct mp_estimator *e, uint32_t event)
{
    uint32_t turn = mp_phase_turn_of(&e->phases, event), first = MP_NONE;
    if (turn == MP_NONE || !mp_phase_is_backward(e->phases.turns.at[turn].phase)) return MP_NONE;
    for (uint32_t at = turn; at--;) {
        const struct mp_phase_turn *before = &e->phases.turns.at[at];
        if (before->backward != turn) break;
        if (before->phase == MP_PHASE_FORWARD) first = before->first;
    }
    return first;
}

static bool is_of_pass(unsigned phase)
{
    return phase == MP_PHASE_FORWARD || mp_phase_is_backward(phase);
}

static bool has_optimizer(const struct mp_estimator *e)
{
    for (size_t i = 0; i < e->phases.turns.count; i++)
        if (e->phases.turns.at[i].phase == MP_PHASE_OPTIMIZER) return true;
    return false;
}

/* Copies of parameters, and temporaries of their gradients, do not grow with a batch. What has a parameter's size may
 * be one, but where an operator makes it that works on a batch, or in a module that has no parameter of that size. */
static bool may_be_of_parameter(const struct mp_estimator *e, const struct mp_passes *passes, uint32_t block)
{
    const struct mp_model *model = e->model;
    const struct mp_operator_of *operator= & passes->operators.of_stack[model->blocks.stack[block]];
    uint32_t module = mp_model_module(model, block);
    if (!mp_estimate_is_parameters_size(e, block)) return false;
    bool is_forward = mp_phase_of_block(&e->phases, model, block) == MP_PHASE_FORWARD;
    if (is_forward ? mp_operator_is_of_batch(operator->number) : mp_operator_is_of_values(operator->node)) return false;
    return !module || mp_pass_has_parameter(passes, module, model->blocks.bytes[block]);
}

/* How many samples a batch has no recording says. */
static void find_halved(struct mp_estimator *e, const struct mp_passes *passes)
{
    const struct mp_model *model = e->model;
    struct mp_change change = {.kind = MP_CHANGE_OPTIMIZER, .what = MP_CHANGE_MICRO_BATCH, .estimated = true};
    change.steps = has_optimizer(e);
    for (uint32_t block = 0; e->sizes.count && block < model->blocks.count; block++) {
        uint32_t made = model->blocks.alloc_event[block], freed = model->blocks.free_event[block];
        if (!mp_estimator_has(e, block) || made == MP_NONE) continue;
        unsigned phase = mp_phase_of_block(&e->phases, model, block), category = e->category[block];
        if (category == MP_CATEGORY_GRADIENTS && mp_phase_is_backward(phase)) {
            uint32_t forward = forward_of(e, made);
            if (forward == MP_NONE) continue;
            const struct mp_edit_extra again = {
                .bytes = model->blocks.bytes[block], .made = made, .freed = made + 2 < freed ? made + 2 : freed};
            mp_estimate_resize(e, &change, block, model->blocks.bytes[block], forward);
            mp_vec_add(&change.edits.extras, again);
        } else if ((category == MP_CATEGORY_ACTIVATIONS || category == MP_CATEGORY_TEMPORARY) && is_of_pass(phase) &&
                   freed != MP_NONE && !may_be_of_parameter(e, passes, block)) {
            mp_estimate_resize(e, &change, block, model->blocks.bytes[block] / 2, made);
        }
    }
    mp_estimate_propose(e, &change);
}

enum mp_status mp_estimates_propose(const struct mp_model *model, const struct mp_torch_history *history,
                                    unsigned ranks, uint64_t link, struct mp_changes *changes, struct mp_error *error)
{
    struct mp_estimator e = {.model = model, .history = history, .changes = changes, .ranks = ranks, .link = link};
    if (model->tracks.at[history->track].layer != MP_LAYER_TORCH || !history->steps.count) return MP_OK;
    enum mp_status status = mp_phases_find(model, &e.phases, error);
    if (!status && e.phases.any) status = mp_categories_make(model, NULL, &e.categories, error);
    if (!status && e.phases.any) {
        find_categories(&e);
        e.births = mp_births_find(model, history);
        find_sizes(&e);
        struct mp_passes passes;
        mp_passes_find(&e, &passes);
        find_quantized(&e);
        mp_sharding_find(&e, &passes);
        find_halved(&e, &passes);
        if (!may_be_half(&e) && !is_cast(model)) mp_precision_find(&e, &passes);
        mp_offload_find(&e, &passes);
        mp_passes_free(&passes);
    }
    mp_categories_free(e.categories);
    mp_phases_free(&e.phases);
    free(e.category);
    free(e.births);
    mp_vec_free(&e.sizes);
    return status;
}
