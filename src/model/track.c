#include "model/track.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"

const char *mp_track_device(const struct mp_model *model, uint16_t track)
{
    uint32_t device = model->tracks.at[track].device; /* a damaged file may have lost the device */
    return device < model->devices.count ? mp_model_text(model, model->devices.at[device].name) : "";
}

char *mp_track_id(const struct mp_model *model, uint16_t track, char *to)
{
    const char *pool = mp_model_text(model, model->tracks.at[track].name);
    snprintf(to, MP_TRACK_ID_MAX, "%s/%s%s%s", mp_track_device(model, track),
             mp_layer_name(model->tracks.at[track].layer), *pool ? "/" : "", pool);
    return to;
}

uint16_t mp_track_find(const struct mp_model *model, const char *id)
{
    char known[MP_TRACK_ID_MAX];
    for (size_t track = 0; track < model->tracks.count; track++)
        if (!strcmp(mp_track_id(model, (uint16_t)track, known), id)) return (uint16_t)track;
    return MP_TRACK_NONE;
}

bool mp_model_track_holds_memory(const struct mp_model *model, size_t track)
{
    const struct mp_track *facts = &model->tracks.at[track];
    return mp_track_holds_memory(facts->layer, mp_model_text(model, facts->name));
}

static bool is_of_addresses(const struct mp_model *model, size_t track)
{
    const struct mp_track *facts = &model->tracks.at[track];
    return mp_track_is_of_addresses(facts->layer, mp_model_text(model, facts->name));
}

#define HOST_DIVISOR 16 /* pinned memory counts more than a device only if its peak is 16 times higher */

static bool is_of_host(const struct mp_model *model, size_t track)
{
    uint8_t layer = model->tracks.at[track].layer;
    return layer == MP_LAYER_MALLOC ||
           (layer == MP_LAYER_DRIVER && !strcmp(mp_track_device(model, (uint16_t)track), "cpu"));
}

/* The weight of a track: its peak. Host memory of CUDA's calls or malloc() counts as a sixteenth. */
static double weight(const struct mp_model *model, size_t track)
{
    const struct mp_model_track_sum *sum = &model->sums.at[track];
    if (!mp_model_track_holds_memory(model, track) || !(sum->events || sum->peak_bytes)) return -1;
    return (double)sum->peak_bytes / (is_of_host(model, track) ? HOST_DIVISOR : 1);
}

/* True if a track's layer lies above the others of its device. Pinned memory and malloc()'s memory lie in no other
 * layer. */
static bool lies_above(const struct mp_model *model, size_t track, size_t highest, size_t upper)
{
    const struct mp_model_track_sum *sum = &model->sums.at[track];
    if (model->tracks.at[track].device != model->tracks.at[highest].device || !sum->events ||
        !mp_model_track_holds_memory(model, track) || is_of_host(model, highest) || is_of_host(model, track))
        return false;
    return !model->sums.at[upper].events || model->tracks.at[track].layer > model->tracks.at[upper].layer;
}

uint16_t mp_track_default(const struct mp_model *model)
{
    if (!model->tracks.count) return MP_TRACK_NONE;
    size_t highest = 0;
    for (size_t track = 1; track < model->tracks.count; track++)
        if (weight(model, track) > weight(model, highest)) highest = track;
    size_t upper = highest;
    for (size_t track = 0; track < model->tracks.count; track++)
        if (lies_above(model, track, highest, upper)) upper = track;
    return (uint16_t)upper;
}

static uint16_t drivers_track(const struct mp_model *model, uint16_t track, const char *name)
{
    if (model->tracks.at[track].layer == MP_LAYER_DRIVER) return MP_TRACK_NONE;
    for (size_t i = 0; i < model->tracks.count; i++) {
        const struct mp_track *facts = &model->tracks.at[i];
        if (facts->device == model->tracks.at[track].device && facts->layer == MP_LAYER_DRIVER &&
            !strcmp(mp_model_text(model, facts->name), name))
            return (uint16_t)i;
    }
    return MP_TRACK_NONE;
}

uint16_t mp_track_below(const struct mp_model *model, uint16_t track)
{
    return drivers_track(model, track, "");
}

struct mp_track_memory mp_track_memory_of(const struct mp_model *model, uint16_t track)
{
    return (struct mp_track_memory){mp_track_below(model, track), drivers_track(model, track, "mapped")};
}

bool mp_track_is_range(const struct mp_model *model, const struct mp_track_memory *memory, size_t block)
{
    uint16_t track = model->blocks.track[block];
    if (track == MP_TRACK_NONE) return false;
    if (track == memory->mapped) return true;
    return track == memory->below && (memory->mapped == MP_TRACK_NONE || model->blocks.kind[block] != MP_KIND_VMM);
}

/* An allocator's reserved bytes at the end, by its own total. */
struct holding {
    uint64_t bytes;
    uint32_t device;
    uint8_t layer;
};

MP_ORDER(compare_holdings, struct holding, MP_RISING(device) ?: MP_RISING(bytes) ?: MP_RISING(layer))

/* Collects the last reserved total of each track's allocator, sorted. */
static struct holding *holdings_at_end(const struct mp_model *model, size_t *count)
{
    struct holding *holdings = mp_alloc((model->tracks.count + 1) * sizeof *holdings);
    unsigned char *seen = mp_alloc_zeroed(model->tracks.count + 1, 1);
    *count = 0;
    for (size_t i = model->noted.count; i--;) {
        uint32_t event = model->noted.at[i];
        uint16_t track = model->events.track[event];
        if (model->events.type[event] != MP_EVENT_RESERVED || seen[track]) continue;
        seen[track] = 1;
        holdings[(*count)++] = (struct holding){.bytes = model->notes.at[i].bytes,
                                                .device = model->tracks.at[track].device,
                                                .layer = model->tracks.at[track].layer};
    }
    free(seen);
    if (*count) qsort(holdings, *count, sizeof *holdings, compare_holdings);
    return holdings;
}

static bool only_backs(const struct mp_model *model, const struct holding *holdings, size_t count, size_t track)
{
    const struct mp_track *below = &model->tracks.at[track];
    /* If the first entry after (device, bytes, layer of `below`) has the same device and bytes, its layer is higher. */
    const struct holding key = {model->sums.at[track].end_bytes, below->device, below->layer};
    size_t found = MP_COUNT_BEFORE(count, i, compare_holdings(&holdings[i], &key) <= 0);
    return found < count && holdings[found].device == key.device && holdings[found].bytes == key.bytes;
}

unsigned char *mp_tracks_meant(const struct mp_model *model, uint16_t track)
{
    size_t count;
    struct holding *holdings = holdings_at_end(model, &count);
    unsigned char *meant = mp_alloc(model->tracks.count + 1);
    for (size_t i = 0; i < model->tracks.count; i++)
        meant[i] =
            track == MP_TRACK_NONE ? !is_of_addresses(model, i) && !only_backs(model, holdings, count, i) : i == track;
    free(holdings);
    return meant;
}
