#include "output/page_lanes.h"

#include <stdlib.h>

#include "analysis/placement.h"
#include "base/vec.h"

/* The lane's number from 1, the latest ones looked at first: a program uses few. 0 where memory is short. */
static uint32_t lane_of(struct mp_page_lanes *lanes, uint64_t stream, uint64_t pool)
{
    for (size_t i = lanes->count; i-- > 0;)
        if (lanes->at[i].stream == stream && lanes->at[i].pool == pool) return (uint32_t)i + 1;
    const struct mp_page_lane lane = {stream, pool};
    return mp_vec_push(lanes, lane) ? (uint32_t)lanes->count : 0;
}

bool mp_page_lanes_find(const struct mp_model *model, struct mp_page_lanes *lanes)
{
    *lanes = (struct mp_page_lanes){.of_block = calloc(model->blocks.count + 1, sizeof *lanes->of_block)};
    if (!lanes->of_block) return false;
    if (!model->calls.count && !model->segments.count && !model->requests.count) return true;
    struct mp_placements placements;
    bool done = mp_placements_find(model, &placements);
    for (size_t i = 0; done && i < model->blocks.count; i++) {
        if (placements.stream[i] == MP_PLACE_UNKNOWN || placements.pool[i] == MP_PLACE_UNKNOWN) continue;
        lanes->of_block[i] = lane_of(lanes, placements.stream[i], placements.pool[i]);
        done = lanes->of_block[i];
    }
    mp_placements_free(&placements);
    return done;
}

void mp_page_lanes_free(struct mp_page_lanes *lanes)
{
    free(lanes->of_block);
    mp_vec_free(lanes);
}
