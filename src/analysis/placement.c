#include "analysis/placement.h"

#include <stdlib.h>
#include <string.h>

/* Calls that allocate belong to the alloc events of their track, in order. */
static void place_traced(const struct mp_model *model, uint16_t track, struct mp_placements *placements)
{
    const struct mp_model_events *events = &model->events;
    uint32_t event = 0;
    for (size_t i = 0; i < model->calls.count; i++) {
        const struct mp_allocator_call *call = &model->calls.at[i];
        if (call->track != track || call->action != MP_TORCH_ALLOC) continue;
        while (event < events->count && (events->track[event] != track || events->type[event] != MP_EVENT_ALLOC))
            event++;
        if (event == events->count) return;
        placements->stream[events->subject[event]] = call->stream;
        placements->pool[events->subject[event]] = call->pool;
        event++;
    }
}

static int by_address(const void *left, const void *right)
{
    const struct mp_segment *a = *(const struct mp_segment *const *)left, *b = *(const struct mp_segment *const *)right;
    if (a->track != b->track) return a->track < b->track ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* The segment that holds an address; NULL where none does. */
static const struct mp_segment *segment_at(const struct mp_segment *const *sorted, size_t count, uint16_t track,
                                           uint64_t address)
{
    size_t low = 0, high = count; /* how many begin at or before it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct mp_segment *segment = sorted[middle];
        if (segment->track < track || (segment->track == track && segment->address <= address))
            low = middle + 1;
        else
            high = middle;
    }
    const struct mp_segment *found = low ? sorted[low - 1] : NULL;
    return found && found->track == track && address - found->address < found->bytes ? found : NULL;
}

/* Blocks that are live at the end, and whose birth the trace does not have, lie in the segments of the end. */
static bool place_held(const struct mp_model *model, struct mp_placements *placements)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    const struct mp_segment **sorted = malloc((model->segments.count + 1) * sizeof *sorted);
    if (!sorted) return false;
    for (size_t i = 0; i < model->segments.count; i++)
        sorted[i] = &model->segments.at[i];
    qsort(sorted, model->segments.count, sizeof *sorted, by_address);
    for (size_t i = 0; i < blocks->count; i++) {
        if (blocks->free_event[i] != MP_NONE || placements->stream[i] != MP_PLACE_UNKNOWN) continue;
        const struct mp_segment *segment =
            segment_at(sorted, model->segments.count, blocks->track[i], blocks->address[i]);
        if (!segment) continue;
        placements->stream[i] = segment->stream;
        placements->pool[i] = segment->pool;
    }
    free(sorted);
    return true;
}

bool mp_placements_find(const struct mp_model *model, struct mp_placements *placements)
{
    size_t bytes = (model->blocks.count + 1) * sizeof *placements->stream;
    *placements = (struct mp_placements){malloc(bytes), malloc(bytes)};
    if (!placements->stream || !placements->pool) return false;
    memset(placements->stream, 0xff, bytes); /* MP_PLACE_UNKNOWN */
    memset(placements->pool, 0xff, bytes);
    if (model->calls.count)
        for (uint16_t track = 0; track < model->tracks.count; track++)
            place_traced(model, track, placements);
    return !model->segments.count || place_held(model, placements);
}

void mp_placements_free(struct mp_placements *placements)
{
    free(placements->stream);
    free(placements->pool);
}
