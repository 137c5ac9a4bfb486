#include "analysis/sites/placement.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/sites/live.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"

/* The trace's allocating calls belong to the track's alloc events, in order. */
static void place_traced(const struct mp_model *model, uint16_t track, struct mp_placements *placements)
{
    const struct mp_model_events *events = &model->events;
    uint32_t event = 0;
    mp_vec_each (const struct mp_allocator_call, call, &model->calls) {
        if (call->track != track || call->action != MP_TORCH_ALLOC) continue;
        while (event < events->count && (events->track[event] != track || events->type[event] != MP_EVENT_ALLOC))
            event++;
        if (event == events->count) return;
        placements->stream[events->subject[event]] = call->stream;
        placements->pool[events->subject[event]] = call->pool;
        event++;
    }
}

/* Blocks that live at the end, but were not born in the trace, are in the segments at the end. */
static void place_held(const struct mp_model *model, struct mp_placements *placements)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    const struct mp_segment **sorted = mp_segments_sorted(model->segments.at, model->segments.count);
    for (size_t i = 0; i < blocks->count; i++) {
        if (blocks->free_event[i] != MP_NONE || placements->stream[i] != MP_PLACE_UNKNOWN) continue;
        const struct mp_segment *segment =
            mp_segment_at(sorted, model->segments.count, blocks->track[i], blocks->address[i]);
        if (!segment) continue;
        placements->stream[i] = segment->stream;
        placements->pool[i] = segment->pool;
    }
    free(sorted);
}

/* Fills in the requests on tracks whose block sizes are the requested sizes. */
static void place_requested(const struct mp_model *model, struct mp_placements *placements)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    for (size_t i = 0; i < blocks->count; i++)
        if (model->tracks.at[blocks->track[i]].size_basis == MP_BASIS_REQUESTED)
            placements->requested[i] = blocks->bytes[i];
}

static void place_known(const struct mp_model *model, struct mp_placements *placements)
{
    mp_vec_each (const struct mp_model_request, known, &model->requests) {
        placements->requested[known->block] = known->request.bytes;
        placements->stream[known->block] = known->request.stream;
        placements->pool[known->block] = known->request.pool;
    }
}

/* The common request of all known blocks of one size and site. MP_PLACE_UNKNOWN: they differ. */
struct usual {
    uint64_t requested, stream, pool;
    uint32_t known;
};
#define USUAL_LEAST 3 /* least number of blocks that must agree */

static uint64_t key_of(const struct mp_model *model, uint32_t block)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    uint64_t key = mp_hash_mix(blocks->bytes[block] << 16 | blocks->track[block]);
    key = mp_hash_mix(key ^ ((uint64_t)mp_model_module(model, block) << 32 | blocks->stack[block]));
    return key ? key : 1;
}

static void agree(uint64_t *with, uint64_t other)
{
    if (*with != other) *with = MP_PLACE_UNKNOWN;
}

static void place_usual(const struct mp_model *model, struct mp_placements *placements)
{
    MP_VEC(struct usual) usual = {0};
    struct mp_map sites = {0};
    for (size_t i = 0; i < model->requests.count; i++) {
        const struct mp_request *known = &model->requests.at[i].request;
        const struct usual first = {known->bytes, known->stream, known->pool, 0};
        bool added;
        uint64_t *slot = mp_map_at(&sites, key_of(model, model->requests.at[i].block), &added);
        if (added) mp_vec_add(&usual, first);
        if (added) *slot = usual.count - 1;
        usual.at[*slot].known++;
        agree(&usual.at[*slot].requested, known->bytes);
        agree(&usual.at[*slot].stream, known->stream);
        agree(&usual.at[*slot].pool, known->pool);
    }
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        if (placements->requested[i] != MP_PLACE_UNKNOWN || !model->blocks.stack[i]) continue;
        const uint64_t *slot = mp_map_find(&sites, key_of(model, i));
        if (!slot || usual.at[*slot].known < USUAL_LEAST) continue;
        placements->requested[i] = usual.at[*slot].requested;
        placements->usual[i] = true;
        if (placements->stream[i] == MP_PLACE_UNKNOWN) placements->stream[i] = usual.at[*slot].stream;
        if (placements->pool[i] == MP_PLACE_UNKNOWN) placements->pool[i] = usual.at[*slot].pool;
    }
    mp_map_free(&sites);
    mp_vec_free(&usual);
}

static bool is_any_known(const struct mp_model *model)
{
    bool known = model->requests.count || model->calls.count || model->segments.count;
    for (size_t i = 0; !known && i < model->tracks.count; i++)
        known = model->tracks.at[i].size_basis == MP_BASIS_REQUESTED;
    return known;
}

void mp_placements_find(const struct mp_model *model, struct mp_placements *placements)
{
    size_t bytes = (model->blocks.count + 1) * sizeof *placements->stream;
    *placements = (struct mp_placements){0};
    if (!is_any_known(model)) return;
    *placements = (struct mp_placements){mp_alloc(bytes), mp_alloc(bytes), mp_alloc(bytes),
                                         mp_alloc_zeroed(model->blocks.count + 1, sizeof *placements->usual)};
    memset(placements->stream, 0xff, bytes); /* MP_PLACE_UNKNOWN */
    memset(placements->pool, 0xff, bytes);
    memset(placements->requested, 0xff, bytes);
    place_requested(model, placements);
    place_known(model, placements);
    if (model->calls.count)
        for (uint16_t track = 0; track < model->tracks.count; track++)
            place_traced(model, track, placements);
    if (model->segments.count) place_held(model, placements);
    if (model->requests.count) place_usual(model, placements);
}

void mp_placements_free(struct mp_placements *placements)
{
    free(placements->stream);
    free(placements->pool);
    free(placements->requested);
    free(placements->usual);
}

static bool has_requests(const struct mp_model *model, uint16_t track)
{
    for (size_t i = 0; i < model->requests.count; i++)
        if (model->blocks.track[model->requests.at[i].block] == track) return true;
    return false;
}

void mp_rounding_at(const struct mp_model *model, uint16_t track, uint32_t moment, struct mp_rounding *rounding)
{
    struct mp_placements placements = {0};
    struct mp_live_blocks live = {0};
    *rounding = (struct mp_rounding){0};
    if (!has_requests(model, track)) return;
    mp_placements_find(model, &placements);
    mp_live_blocks_at(model, track, moment, NULL, &live);
    for (size_t i = 0; i < live.count; i++) {
        uint64_t requested = mp_placed(placements.requested, live.at[i].block), bytes = live.at[i].bytes;
        if (bytes == MP_BYTES_UNKNOWN) continue;
        rounding->bytes += bytes;
        if (requested == MP_PLACE_UNKNOWN) continue;
        rounding->known_bytes += bytes;
        rounding->requested_bytes += requested;
        if (mp_placed_as_usual(&placements, live.at[i].block)) rounding->usual_bytes += bytes;
    }
    mp_live_blocks_free(&live);
    mp_placements_free(&placements);
}
