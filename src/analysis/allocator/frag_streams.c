#include <stdlib.h>

#include "analysis/allocator/frag.h"
#include "analysis/sites/placement.h"
#include "base/order.h"
#include "base/search.h"
#include "model/track.h"

/* Bytes of the segments of one stream and pool. PyTorch's allocator gives them to no other stream or pool. */

struct made {
    struct mp_frag_segment segment;
    uint64_t stream, largest; /* bytes of a block */
    uint32_t stack;
};

static struct mp_frag_segment *segment_of(struct mp_frag *frag, uint64_t address)
{
    size_t before = MP_COUNT_BEFORE(frag->segments.count, i, frag->segments.at[i].address <= address);
    struct mp_frag_segment *segment = before ? &frag->segments.at[before - 1] : NULL;
    return segment && address - segment->address < segment->bytes ? segment : NULL;
}

/* The largest block that ever lay in a segment counts as its cause. The last block shows the stream if the allocator
 * does not. */
static struct made *find_made(const struct mp_model *model, const struct mp_placements *placements,
                              struct mp_frag *frag)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    struct made *made = mp_alloc_zeroed(frag->segments.count + 1, sizeof *made);
    for (size_t i = 0; i < frag->segments.count; i++)
        made[i] = (struct made){.segment = frag->segments.at[i], .stream = frag->segments.at[i].stream};
    for (uint32_t i = 0; i < blocks->count; i++) {
        uint64_t stream = mp_placed(placements->stream, i);
        if (blocks->track[i] != frag->track || blocks->bytes[i] == MP_BYTES_UNKNOWN ||
            (blocks->alloc_event[i] != MP_NONE && blocks->alloc_event[i] >= frag->events))
            continue;
        const struct mp_frag_segment *segment = segment_of(frag, blocks->address[i]);
        if (!segment) continue;
        struct made *of = &made[segment - frag->segments.at];
        if (stream != of->stream && segment->stream != MP_BYTES_UNKNOWN && stream != MP_PLACE_UNKNOWN) continue;
        if (stream != of->stream && stream != MP_PLACE_UNKNOWN)
            *of = (struct made){.segment = *segment, .stream = stream};
        if (blocks->bytes[i] <= of->largest) continue;
        of->largest = blocks->bytes[i];
        of->stack = blocks->stack[i];
    }
    return made;
}

MP_ORDER(by_free, struct mp_frag_stream, MP_FALLING(free_bytes) ?: MP_RISING(stream) ?: MP_RISING(pool))

MP_ORDER(by_stream, struct made, MP_RISING(stream) ?: MP_RISING(segment.pool) ?: MP_RISING(stack))

static void add_rows(struct made *made, struct mp_frag *frag)
{
    uint64_t of_stack = 0; /* bytes of segments */
    struct mp_frag_stream *row = NULL;
    if (frag->segments.count) qsort(made, frag->segments.count, sizeof *made, by_stream);
    for (size_t i = 0; i < frag->segments.count; i++) {
        const struct mp_frag_segment *segment = &made[i].segment;
        bool fresh = !row || row->stream != made[i].stream || row->pool != segment->pool;
        if (fresh) {
            const struct mp_frag_stream new_row = {.stream = made[i].stream, .pool = segment->pool};
            mp_vec_add(&frag->streams, new_row);
            row = &frag->streams.at[frag->streams.count - 1];
        }
        if (fresh || made[i].stack != made[i - 1].stack) of_stack = 0;
        of_stack += segment->bytes;
        if (of_stack > row->made_bytes && made[i].stack) {
            row->made_bytes = of_stack;
            row->stack = made[i].stack;
        }
        row->segments++;
        row->reserved += segment->bytes;
        row->free_bytes += segment->bytes - segment->held;
    }
    if (frag->streams.count) qsort(frag->streams.at, frag->streams.count, sizeof *frag->streams.at, by_free);
}

bool mp_frag_has_streams(const struct mp_model *model, const struct mp_placements *placements, uint16_t track)
{
    uint64_t first = MP_PLACE_UNKNOWN;
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        uint64_t stream = mp_placed(placements->stream, i);
        if (model->blocks.track[i] != track || stream == MP_PLACE_UNKNOWN) continue;
        if (first != MP_PLACE_UNKNOWN && stream != first) return true;
        first = stream;
    }
    return false;
}

/* Both replays know no frees that wait for a stream, so they compare with each other. */
static void replay_one_stream(const struct mp_model *model, struct mp_torch_history *history, struct mp_frag *frag)
{
    struct mp_torch_replay as_is, one;
    mp_torch_replay_with(model, history, &history->settings, MP_TORCH_UNLIMITED, MP_TORCH_UNLIMITED,
                         MP_TORCH_TO_THE_END, &as_is);
    mp_vec_each (struct mp_torch_step, step, &history->steps)
        step->stream = 0;
    mp_vec_each (struct mp_torch_base, base, &history->base)
        base->stream = 0;
    mp_torch_replay_with(model, history, &history->settings, MP_TORCH_UNLIMITED, MP_TORCH_UNLIMITED,
                         MP_TORCH_TO_THE_END, &one);
    frag->streams_peak = as_is.reserved_peak;
    frag->one_stream_peak = one.reserved_peak;
}

void mp_frag_find_streams(const struct mp_model *model, const struct mp_placements *placements,
                          struct mp_torch_history *history, struct mp_frag *frag)
{
    struct made *made = find_made(model, placements, frag);
    add_rows(made, frag);
    free(made);
    if (mp_frag_has_streams(model, placements, frag->track)) replay_one_stream(model, history, frag);
}
