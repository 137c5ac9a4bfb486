#include "analysis/sites/peak.h"

#include <math.h>

#include "analysis/sites/level.h"
#include "base/sampling.h"
#include "model/steps_infer.h"

/* The highest level within the window, including the level at its beginning. */
static void find_in_window(const struct mp_model *model, const struct mp_window *window, struct mp_peak *peak)
{
    struct mp_level level = mp_level_start(model, peak->track);
    for (uint32_t event = 0; event < window->first; event++)
        mp_level_apply(&level, model, peak->track, event);
    peak->bytes = level.bytes;
    peak->blocks = level.blocks;
    peak->moment = window->first;
    peak->ns = window->from_ns;
    for (uint32_t event = window->first; event < window->last; event++) {
        if (!mp_level_apply(&level, model, peak->track, event) || level.bytes <= peak->bytes) continue;
        peak->bytes = level.bytes;
        peak->blocks = level.blocks;
        peak->moment = event + 1;
        peak->ns = model->events.time_ns[event];
    }
}

static void take_sum(const struct mp_model *model, struct mp_peak *peak)
{
    const struct mp_model_track_sum *sum = &model->sums.at[peak->track];
    peak->bytes = sum->peak_bytes;
    peak->blocks = sum->peak_blocks;
    peak->ns = sum->peak_ns;
    peak->moment = sum->peak_event == MP_NONE ? 0 : sum->peak_event + 1;
    peak->in_past = sum->peak_in_past;
}

void mp_peak_locate(const struct mp_model *model, uint16_t track, const struct mp_window *window, bool with_past,
                    struct mp_peak *peak)
{
    *peak = (struct mp_peak){.track = track};
    if (window->whole && (with_past || !model->sums.at[track].peak_in_past))
        take_sum(model, peak);
    else
        find_in_window(model, window, peak);
}

/* Finds the sampling error of the sum over all blocks of the track; the filter does not change it. */
static void find_error(const struct mp_model *model, struct mp_peak *peak)
{
    uint64_t mean = mp_model_sample_of(model, peak->track);
    struct mp_live_blocks live = {0};
    double variance = 0;
    if (!mean) return;
    mp_live_blocks_at(model, peak->track, peak->moment, NULL, &live);
    for (size_t i = 0; i < live.count; i++)
        if (live.at[i].bytes != MP_BYTES_UNKNOWN) variance += mp_sampling_variance(live.at[i].bytes, mean);
    peak->standard_error = sqrt(variance);
    mp_live_blocks_free(&live);
}

/* A graph is freed at one site and time: where its largest block is freed. */
static void find_previous(const struct mp_model *model, const struct mp_live_blocks *live,
                          const struct mp_categories *categories, struct mp_peak_previous *previous)
{
    uint64_t largest = 0;
    *previous = (struct mp_peak_previous){.freed = MP_NONE};
    for (size_t i = 0; i < live->count; i++) {
        uint32_t block = live->at[i].block;
        uint64_t bytes = live->at[i].bytes;
        bool guessed;
        if (bytes == MP_BYTES_UNKNOWN ||
            mp_category_look(categories, block, live->moment, &guessed) != MP_CATEGORY_PREVIOUS)
            continue;
        previous->bytes += bytes;
        previous->blocks++;
        if (guessed) previous->guessed_bytes += bytes;
        if (bytes <= largest) continue;
        largest = bytes;
        previous->freed_at = mp_model_freed_at(model, block);
        previous->freed = model->blocks.free_event[block];
    }
}

void mp_peak_find(const struct mp_model *model, const struct mp_peak_query *query, struct mp_peak *peak)
{
    mp_peak_locate(model, query->track, &query->window, !query->filter, peak);
    struct mp_live_blocks live = {0};
    struct mp_steps steps = {0};
    if (peak->in_past) {
        peak->step = (uint32_t)model->sums.at[query->track].past.step;
        peak->standard_error = NAN;
        mp_sites_of_past(model, query->track, &query->grouping, &peak->sites);
        return;
    }
    mp_live_blocks_at(model, query->track, peak->moment, query->filter, &live);
    mp_steps_find(model, &steps);
    find_error(model, peak);
    mp_rounding_at(model, query->track, peak->moment, &peak->rounding);
    mp_regions_at(model, peak->moment, &peak->regions);
    peak->step = peak->moment ? mp_step_of(&steps, peak->moment - 1) : 0;
    peak->behind_step = peak->step && peak->moment > steps.at[steps.count - 1].end;
    mp_sites_make(model, &live, &steps, &query->grouping, &peak->sites);
    if (query->categories) {
        const struct mp_grouping by_category = {.by = MP_GROUP_CATEGORY, .categories = query->categories};
        peak->phase = mp_category_phase(query->categories, peak->moment);
        find_previous(model, &live, query->categories, &peak->previous);
        mp_sites_make(model, &live, &steps, &by_category, &peak->categories);
    }
    mp_live_blocks_free(&live);
    mp_steps_free(&steps);
}

void mp_peak_free(struct mp_peak *peak)
{
    mp_open_regions_free(&peak->regions);
    mp_sites_free(&peak->sites);
    mp_sites_free(&peak->categories);
}
