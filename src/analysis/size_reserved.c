#include "analysis/size_reserved.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/size_curve.h"
#include "analysis/torch_allocator.h"
#include "analysis/torch_history.h"
#include "model/track.h"

bool mp_size_reserves(const struct mp_size_plan *plan)
{
    const struct mp_model *model = plan->source->model;
    return model->tracks.at[plan->source->track].layer == MP_LAYER_TORCH &&
           strcmp(mp_track_device(model, plan->source->track), "cpu") != 0;
}

struct placed {
    uint64_t address;
    uint32_t block;
};

static int by_address(const void *left, const void *right)
{
    const struct placed *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static bool list_base(struct mp_size_reserving *reserving)
{
    const struct mp_size_plan *plan = reserving->plan;
    const struct mp_model *model = plan->source->model;
    MP_VEC(struct placed) all = {0};
    bool done = true;
    for (uint32_t block = 0; done && block < model->blocks.count; block++) {
        if (plan->value_of[block] == MP_NONE || model->blocks.alloc_event[block] != MP_NONE) continue;
        struct placed placed = {model->blocks.address[block], block};
        done = mp_vec_push(&all, placed);
    }
    if (all.count) qsort(all.at, all.count, sizeof *all.at, by_address);
    for (size_t i = 0; done && i < all.count; i++)
        done = mp_vec_push(&reserving->base, all.at[i].block);
    mp_vec_free(&all);
    return done;
}

/* Streams and settings, where the recording has the allocator's own trace. */
static bool read_history(struct mp_size_reserving *reserving)
{
    const struct mp_size_source *source = reserving->plan->source;
    struct mp_torch_history history = {0};
    bool done = mp_torch_history_make(source->model, source->track, false, &history, NULL) == MP_OK;
    for (size_t i = 0; done && i < history.steps.count; i++)
        if (history.steps.at[i].action == MP_TORCH_ALLOC && history.steps.at[i].block != MP_NONE)
            reserving->streams[history.steps.at[i].block] = history.steps.at[i].stream;
    for (size_t i = 0; done && i < history.base.count; i++)
        if (history.base.at[i].block != MP_NONE)
            reserving->streams[history.base.at[i].block] = history.base.at[i].stream;
    reserving->recorded = history.settings;
    mp_torch_history_free(&history);
    return done;
}

bool mp_size_reserving_make(const struct mp_size_plan *plan, struct mp_size_reserving *reserving)
{
    *reserving = (struct mp_size_reserving){.plan = plan};
    reserving->sizes = calloc(plan->values.count + 1, sizeof *reserving->sizes);
    reserving->copies = calloc(plan->values.count + 1, sizeof *reserving->copies);
    reserving->owed = calloc(plan->values.count + 1, sizeof *reserving->owed);
    reserving->ids = calloc(plan->source->model->blocks.count + 1, sizeof *reserving->ids);
    reserving->streams = calloc(plan->source->model->blocks.count + 1, sizeof *reserving->streams);
    return reserving->sizes && reserving->copies && reserving->owed && reserving->ids && list_base(reserving) &&
           reserving->streams && read_history(reserving) && mp_size_sequence_make(plan, &reserving->sequence);
}

void mp_size_reserving_free(struct mp_size_reserving *reserving)
{
    mp_size_sequence_free(&reserving->sequence);
    mp_vec_free(&reserving->base);
    mp_vec_free(&reserving->placed);
    free(reserving->sizes);
    free(reserving->copies);
    free(reserving->owed);
    free(reserving->ids);
    free(reserving->streams);
}

/* ---- one replay ------------------------------------------------------------------------------------------------- */

static void set_sizes(struct mp_size_reserving *reserving, struct mp_size_point at, enum mp_size_bound bound)
{
    const struct mp_size_plan *plan = reserving->plan;
    for (uint32_t i = 0; i < plan->values.count; i++) {
        struct mp_size_bounds bytes = mp_size_value_at(plan, i, at);
        double size = bound == MP_SIZE_LOW ? bytes.low : bound == MP_SIZE_HIGH ? bytes.high : bytes.likely;
        double copies = mp_size_copies_at(plan, i, at);
        reserving->copies[i] = copies;
        reserving->owed[i] = 0.5;
        reserving->sizes[i] = copies > 0 && size > 0 ? (uint64_t)ceil(size / copies - 1e-6) : 0;
    }
}

static bool keep(struct mp_size_reserving *reserving, uint32_t block, uint32_t id)
{
    uint32_t at = reserving->vacant;
    if (at) {
        reserving->vacant = reserving->placed.at[at - 1].next;
    } else {
        struct mp_size_placed fresh = {0};
        if (!mp_vec_push(&reserving->placed, fresh)) return false;
        at = (uint32_t)reserving->placed.count;
    }
    reserving->placed.at[at - 1] = (struct mp_size_placed){id, reserving->ids[block]};
    reserving->ids[block] = at;
    return true;
}

static bool allocate(struct mp_size_reserving *reserving, struct mp_torch_allocator *allocator, uint32_t block)
{
    uint32_t value = reserving->plan->value_of[block], id;
    reserving->owed[value] += reserving->copies[value];
    for (; reserving->owed[value] >= 1; reserving->owed[value] -= 1) {
        if (!reserving->sizes[value]) continue;
        if (mp_torch_malloc(allocator, reserving->sizes[value], reserving->streams[block], 0, &id) != MP_TORCH_DONE)
            return false;
        if (!keep(reserving, block, id)) return false;
    }
    return true;
}

static bool release(struct mp_size_reserving *reserving, struct mp_torch_allocator *allocator, uint32_t block)
{
    bool done = true;
    for (uint32_t at = reserving->ids[block], next; at && done; at = next) {
        struct mp_size_placed *placed = &reserving->placed.at[at - 1];
        next = placed->next;
        done = mp_torch_free(allocator, placed->id) == MP_TORCH_DONE;
        placed->next = reserving->vacant;
        reserving->vacant = at;
    }
    reserving->ids[block] = 0;
    return done;
}

static bool play(struct mp_size_reserving *reserving, struct mp_torch_allocator *allocator)
{
    bool done = true;
    for (size_t i = 0; done && i < reserving->base.count; i++)
        done = allocate(reserving, allocator, reserving->base.at[i]);
    for (size_t i = 0; done && i < reserving->sequence.count; i++) {
        const struct mp_size_operation *operation = &reserving->sequence.at[i];
        done = (operation->frees ? release : allocate)(reserving, allocator, operation->block);
    }
    return done;
}

bool mp_size_reserved_at(struct mp_size_reserving *reserving, struct mp_size_point at, enum mp_size_bound bound,
                         const struct mp_torch_settings *settings, struct mp_size_held *held)
{
    struct mp_torch_allocator *allocator =
        mp_torch_allocator_new(settings, MP_TORCH_UNLIMITED, UINT64_C(1) << 50, NULL);
    if (!allocator) return false;
    set_sizes(reserving, at, bound);
    reserving->placed.count = reserving->vacant = 0;
    for (size_t i = 0; i < reserving->base.count; i++)
        reserving->ids[reserving->base.at[i]] = 0;
    for (size_t i = 0; i < reserving->sequence.count; i++)
        reserving->ids[reserving->sequence.at[i].block] = 0;
    bool done = play(reserving, allocator);
    const struct mp_torch_stats *stats = mp_torch_stats(allocator);
    *held = (struct mp_size_held){stats->peak_reserved, stats->peak_allocated};
    mp_torch_allocator_free(allocator);
    return done;
}
