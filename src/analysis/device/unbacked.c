#include "analysis/device/unbacked.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "base/vec.h"
#include "base/words.h"

enum use {
    NONE,
    COUNTED,
    PHYSICAL,
    BACKING
}; /* how a track counts; PHYSICAL: its blocks are handles of virtual
    * memory, which have no address */

/* Addresses between two neighbouring points. */
struct cell {
    uint64_t bytes;   /* bytes of the allocator's live blocks here */
    uint32_t backing; /* number of the driver's live blocks here */
    bool was_backed;
};

struct state {
    const struct mp_model *model;
    unsigned char *uses; /* by track */
    MP_VEC(uint64_t)
    points; /* begins and ends of the driver's blocks, sorted; cell N lies between points N and N +
             * 1 */
    struct cell *cells;
    uint64_t bytes; /* unbacked now */
};

static enum use use_of(const struct mp_model *model, const struct mp_track *track, uint32_t device)
{
    const char *name = mp_model_text(model, track->name);
    if (track->device != device) return NONE;
    if (track->layer == MP_LAYER_TORCH) return COUNTED;
    if (track->layer != MP_LAYER_DRIVER) return NONE;
    if (!*name) return PHYSICAL;
    return mp_driver_track(name)->backs ? BACKING : NONE;
}

/* If mappings have their own track, virtual memory on the driver's first track is handles. A snapshot has no such
 * track; its virtual memory has addresses. */
static void find_uses(struct state *state, uint32_t device)
{
    const struct mp_model *model = state->model;
    bool has_mapped = false;
    state->uses = mp_alloc_zeroed(model->tracks.count + 1, sizeof *state->uses);
    for (size_t i = 0; i < model->tracks.count; i++) {
        state->uses[i] = (unsigned char)use_of(model, &model->tracks.at[i], device);
        has_mapped |= state->uses[i] == BACKING && !strcmp(mp_model_text(model, model->tracks.at[i].name), "mapped");
    }
    for (size_t i = 0; i < model->tracks.count && !has_mapped; i++)
        if (state->uses[i] == PHYSICAL) state->uses[i] = BACKING;
}

static enum use block_use(const struct state *state, size_t block)
{
    const struct mp_model_blocks *blocks = &state->model->blocks;
    enum use use = state->uses[blocks->track[block]];
    if (use == NONE || blocks->bytes[block] == MP_BYTES_UNKNOWN || !blocks->bytes[block]) return NONE;
    if (blocks->address[block] > UINT64_MAX - blocks->bytes[block]) return NONE;
    if (use == COUNTED) return COUNTED;
    unsigned kind = blocks->kind[block];
    if (kind == MP_KIND_ARRAY || (use == PHYSICAL && kind == MP_KIND_VMM)) return NONE;
    return BACKING;
}

MP_ORDER(by_value, uint64_t, MP_COMPARE(*a, *b))

/* False: there are no blocks of the driver. *ends: true if one of them ended. */
static bool find_cells(struct state *state, bool *ends)
{
    const struct mp_model_blocks *blocks = &state->model->blocks;
    *ends = false;
    for (size_t i = 0; i < blocks->count; i++) {
        if (block_use(state, i) != BACKING) continue;
        mp_vec_add(&state->points, blocks->address[i]);
        mp_vec_add(&state->points, blocks->address[i] + blocks->bytes[i]);
        *ends |= blocks->free_event[i] != MP_NONE;
    }
    if (!state->points.count || !*ends) return state->points.count;
    qsort(state->points.at, state->points.count, sizeof *state->points.at, by_value);
    size_t kept = 1;
    for (size_t i = 1; i < state->points.count; i++)
        if (state->points.at[i] != state->points.at[kept - 1]) state->points.at[kept++] = state->points.at[i];
    state->points.count = kept;
    state->cells = mp_alloc_zeroed(kept, sizeof *state->cells);
    return true;
}

static uint64_t unbacked_in(const struct cell *cell)
{
    return cell->was_backed && !cell->backing ? cell->bytes : 0;
}

/* A block begins or ends. */
static void change(struct state *state, size_t block, bool begins)
{
    enum use use = block_use(state, block);
    if (use == NONE) return;
    uint64_t start = state->model->blocks.address[block], end = start + state->model->blocks.bytes[block];
    size_t at = MP_COUNT_BEFORE(state->points.count, i, state->points.at[i] <= start);
    for (at -= at > 0; at + 1 < state->points.count && state->points.at[at] < end; at++) {
        struct cell *cell = &state->cells[at];
        uint64_t low = state->points.at[at] > start ? state->points.at[at] : start;
        uint64_t high = state->points.at[at + 1] < end ? state->points.at[at + 1] : end;
        if (high <= low) continue;
        uint64_t before = unbacked_in(cell);
        if (use == COUNTED)
            cell->bytes += begins ? high - low : low - high;
        else
            cell->backing += begins ? 1 : UINT32_MAX;
        cell->was_backed |= use == BACKING;
        state->bytes += unbacked_in(cell) - before;
    }
}

static void sweep(struct state *state, uint32_t moment, struct mp_unbacked *found)
{
    const struct mp_model *model = state->model;
    const struct mp_model_events *events = &model->events;
    for (size_t i = 0; i < model->blocks.count; i++)
        if (model->blocks.alloc_event[i] == MP_NONE) change(state, i, true);
    for (uint32_t i = 0; i < events->count; i++) {
        if (i == moment) found->bytes = state->bytes;
        if (events->type[i] == MP_EVENT_ALLOC || events->type[i] == MP_EVENT_FREE)
            change(state, events->subject[i], events->type[i] == MP_EVENT_ALLOC);
        bool settled = i + 1 == events->count || events->time_ns[i + 1] != events->time_ns[i];
        if (!settled || state->bytes <= found->most_bytes) continue;
        found->most_bytes = state->bytes;
        found->most_ns = events->time_ns[i];
    }
    if (moment >= events->count) found->bytes = state->bytes;
    found->end_bytes = state->bytes;
}

bool mp_unbacked_find(const struct mp_model *model, uint32_t device, uint32_t moment, struct mp_unbacked *found)
{
    struct state state = {.model = model};
    bool ends = false, known = !model->file.part_of && !model->sample_bytes && !model->past.time_ns &&
                               !model->coverage.dropped && !model->file.damage.lost_chunks;
    if (known) {
        find_uses(&state, device);
        known = find_cells(&state, &ends);
    }
    *found = known ? (struct mp_unbacked){.bytes = 0}
                   : (struct mp_unbacked){MP_BYTES_UNKNOWN, MP_BYTES_UNKNOWN, MP_BYTES_UNKNOWN, MP_BYTES_UNKNOWN};
    if (known && ends) sweep(&state, moment, found);
    mp_vec_free(&state.points);
    free(state.cells);
    free(state.uses);
    return known;
}
