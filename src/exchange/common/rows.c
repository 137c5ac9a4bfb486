#include "exchange/common/rows.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/module_path.h"
#include "model/steps_infer.h"
#include "model/track.h"
#include "model/uses.h"

void mp_block_rows_start(const struct mp_model *model, const struct mp_window *window, const struct mp_filter *filter,
                         struct mp_block_rows *rows)
{
    *rows = (struct mp_block_rows){.model = model, .window = window, .filter = filter};
    rows->regions = mp_regions_of_births(model);
    rows->root = mp_module_root(model);
    mp_steps_find(model, &rows->steps);
    mp_placements_find(model, &rows->placements);
    if (model->uses.count) mp_phases_find(model, &rows->phases);
}

bool mp_block_rows_pick(const struct mp_block_rows *rows, uint32_t block)
{
    const struct mp_model_blocks *blocks = &rows->model->blocks;
    uint32_t born = blocks->alloc_event[block], died = blocks->free_event[block];
    bool lives = (born == MP_NONE || born < rows->window->last) && (died == MP_NONE || died >= rows->window->first);
    return lives && mp_filter_picks(rows->filter, block);
}

static uint64_t time_of(const struct mp_block_rows *rows, uint32_t event)
{
    return event == MP_NONE ? UINT64_MAX : rows->model->events.time_ns[event];
}

static uint64_t step_of(const struct mp_block_rows *rows, uint32_t event)
{
    uint32_t step = event == MP_NONE ? 0 : mp_step_of(&rows->steps, event);
    return step ? step : UINT64_MAX;
}

static uint64_t thread_of(const struct mp_model *model, uint32_t event)
{
    uint32_t thread = event == MP_NONE ? MP_NONE : model->events.thread[event];
    return thread < model->threads.count ? model->threads.at[thread].tid : UINT64_MAX;
}

static void fill_row(const struct mp_block_rows *rows, struct mp_row *row)
{
    const struct mp_model *model = rows->model;
    const struct mp_model_blocks *blocks = &model->blocks;
    const struct mp_track *track = &model->tracks.at[blocks->track[row->block]];
    uint32_t born = blocks->alloc_event[row->block], died = blocks->free_event[row->block];
    uint32_t region = rows->regions[row->block];
    row->bytes = blocks->bytes[row->block];
    row->alloc_ns = time_of(rows, born);
    row->free_ns = time_of(rows, died);
    row->alloc_step = step_of(rows, born);
    row->free_step = step_of(rows, died);
    row->thread = thread_of(model, born);
    row->track_device = mp_track_device(model, blocks->track[row->block]);
    row->layer = mp_layer_name(track->layer);
    row->pool = track->name ? mp_model_text(model, track->name) : NULL;
    row->kind = mp_kind_name(blocks->kind[row->block]);
    row->region = region == MP_NONE ? NULL : mp_model_text(model, region);
    row->stack = blocks->stack[row->block];
    /* Rows have only facts about the block itself. */
    bool usual = mp_placed_as_usual(&rows->placements, row->block);
    row->requested = usual ? UINT64_MAX : mp_placed(rows->placements.requested, row->block);
    row->stream = usual ? UINT64_MAX : mp_placed(rows->placements.stream, row->block);
    uint64_t pool = mp_placed(rows->placements.pool, row->block);
    *row->torch_pool = '\0';
    if (pool != MP_PLACE_UNKNOWN && !usual)
        snprintf(row->torch_pool, sizeof row->torch_pool, "%u,%u", (unsigned)(pool >> 32), (unsigned)pool);
    uint32_t module = mp_model_module(model, row->block);
    const struct mp_model_label *label = mp_model_label_at(model, row->block, MP_NONE);
    row->module = module ? mp_module_path(model, rows->root, module) : NULL;
    struct mp_tensor tensor;
    mp_tensor_of(model, row->block, &tensor);
    row->shape = tensor.shape ? mp_model_text(model, tensor.shape) : NULL;
    row->made_by = tensor.operator? mp_model_text(model, tensor.operator) : NULL;
    row->node = tensor.node ? mp_model_text(model, tensor.node) : NULL;
    row->phase = row->saved_for = NULL;
    if (model->uses.count) {
        uint32_t saved = mp_phase_saved_for(&rows->phases, model, row->block);
        row->phase = mp_phase_name(mp_phase_of_block(&rows->phases, model, row->block));
        row->saved_for = saved ? mp_model_text(model, saved) : NULL;
    }
    row->role = label ? mp_role_name(label->role) : NULL;
    row->label = label && label->name ? mp_model_text(model, label->name) : NULL;
}

bool mp_block_rows_next(const struct mp_block_rows *rows, struct mp_row *row)
{
    while (row->block < rows->model->blocks.count && !mp_block_rows_pick(rows, row->block))
        row->block++;
    if (row->block >= rows->model->blocks.count) return false;
    fill_row(rows, row);
    return true;
}

void mp_block_rows_free(struct mp_block_rows *rows)
{
    mp_steps_free(&rows->steps);
    free(rows->regions);
    mp_placements_free(&rows->placements);
    mp_phases_free(&rows->phases);
    rows->regions = NULL;
}
