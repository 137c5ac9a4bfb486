#include "output/page_lanes.h"

#include <stdlib.h>

#include "base/vec.h"

/* The lane's number from 1, the latest ones looked at first: a program uses few. 0 where memory is short. */
static uint32_t lane_of(struct mp_page_lanes *lanes, uint64_t stream, uint64_t pool)
{
    for (size_t i = lanes->count; i-- > 0;)
        if (lanes->at[i].stream == stream && lanes->at[i].pool == pool) return (uint32_t)i + 1;
    const struct mp_page_lane lane = {stream, pool};
    return mp_vec_push(lanes, lane) ? (uint32_t)lanes->count : 0;
}

/* The next call of a track that allocates, from *at on; NULL where there is none. */
static const struct mp_allocator_call *next_alloc(const struct mp_model *model, uint16_t track, size_t *at)
{
    while (*at < model->calls.count) {
        const struct mp_allocator_call *call = &model->calls.at[(*at)++];
        if (call->track == track && call->action == MP_TORCH_ALLOC) return call;
    }
    return NULL;
}

/* Calls that allocate belong, in their order, to the alloc events of their track. */
static bool follow_calls(const struct mp_model *model, struct mp_page_lanes *lanes)
{
    size_t *next = calloc(model->tracks.count + 1, sizeof *next);
    bool done = next;
    for (size_t i = 0; done && i < model->events.count; i++) {
        if (model->events.type[i] != MP_EVENT_ALLOC) continue;
        uint32_t block = model->events.subject[i];
        uint16_t track = model->blocks.track[block];
        const struct mp_allocator_call *call = next_alloc(model, track, &next[track]);
        if (!call) continue;
        lanes->of_block[block] = lane_of(lanes, call->stream, call->pool);
        done = lanes->of_block[block];
    }
    free(next);
    return done;
}

/* Blocks that no call tells of lie in a segment that was there at the end. */
static bool look_into_segments(const struct mp_model *model, struct mp_page_lanes *lanes)
{
    for (size_t i = 0; i < model->blocks.count; i++) {
        if (lanes->of_block[i] || model->blocks.alloc_event[i] != MP_NONE) continue;
        for (size_t j = 0; j < model->segments.count; j++) {
            const struct mp_segment *segment = &model->segments.at[j];
            if (segment->track != model->blocks.track[i] ||
                model->blocks.address[i] - segment->address >= segment->bytes)
                continue;
            lanes->of_block[i] = lane_of(lanes, segment->stream, segment->pool);
            if (!lanes->of_block[i]) return false;
            break;
        }
    }
    return true;
}

bool mp_page_lanes_find(const struct mp_model *model, struct mp_page_lanes *lanes)
{
    *lanes = (struct mp_page_lanes){.of_block = calloc(model->blocks.count + 1, sizeof *lanes->of_block)};
    if (!lanes->of_block) return false;
    if (!model->calls.count && !model->segments.count) return true;
    return follow_calls(model, lanes) && look_into_segments(model, lanes);
}

void mp_page_lanes_free(struct mp_page_lanes *lanes)
{
    free(lanes->of_block);
    mp_vec_free(lanes);
}
