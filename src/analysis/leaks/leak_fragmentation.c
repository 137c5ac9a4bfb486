#include "analysis/leaks/leak_fragmentation.h"

#include <stdlib.h>

#include "analysis/leaks/leak_limits.h"
#include "analysis/sites/level.h"
#include "base/memory.h"
#include "model/track.h"

/* One track's reserved and allocated bytes at each boundary. */
struct held {
    uint64_t *reserved, *allocated;
    bool known;
};

static void follow(const struct mp_model *model, const struct mp_step *steps, uint32_t last, uint16_t track,
                   struct held *held)
{
    struct mp_level level = mp_level_start(model, track);
    uint64_t reserved = 0;
    uint32_t next = 0;
    for (uint32_t event = 0; event < model->events.count && next <= last; event++) {
        if (event == steps[next].first) {
            held->reserved[next] = reserved;
            held->allocated[next++] = level.bytes;
        }
        if (model->events.type[event] == MP_EVENT_RESERVED && model->events.track[event] == track) {
            reserved = model->notes.at[model->events.subject[event]].bytes;
            held->known = true;
        }
        mp_level_apply(&level, model, track, event);
    }
}

/* True if reserved bytes rose by a quarter or more, in many steps and also in the later half, while allocated bytes did
 * not follow. */
static bool is_fragmenting(const struct held *held, uint32_t last, struct mp_leak_finding *finding)
{
    uint32_t start = last / 8, rises = 0, late = 0;
    if (last < MP_LEAK_STEPS || !held->known) return false;
    for (uint32_t k = start + 1; k <= last; k++) {
        if (held->reserved[k] <= held->reserved[k - 1]) continue;
        if (!rises++) finding->first_step = k;
        late += k > start + (last - start) / 2;
    }
    uint64_t before = held->reserved[start], now = held->reserved[last];
    if (rises < 4 || late < 2 || now < before + before / 4) return false;
    uint64_t allocated = held->allocated[start], rest = (now - before) / 4;
    if (held->allocated[last] > allocated + rest) return false;
    finding->bytes = now - before;
    finding->births = rises;
    finding->blocks_per_step = 0;
    finding->bytes_per_step = (double)(now - before) / (last - start);
    return true;
}

void mp_leak_find_fragmentation(const struct mp_model *model, const struct mp_steps *steps, uint16_t only,
                                const struct mp_leak_places *places, struct mp_leak_findings *findings)
{
    if (!places->enough) return;
    for (uint16_t track = 0; track < model->tracks.count; track++) {
        if (model->sums.at[track].reserved_peak_bytes == MP_BYTES_UNKNOWN) continue;
        if (only != MP_TRACK_NONE && only != track) continue;
        size_t count = (size_t)places->last + 1;
        struct held held = {mp_alloc_zeroed(count, sizeof(uint64_t)), mp_alloc_zeroed(count, sizeof(uint64_t)), false};
        struct mp_leak_finding finding = {.class = MP_LEAK_FRAGMENTATION,
                                          .confidence = MP_LEAK_PROBABLE,
                                          .why.test = MP_LEAK_BY_RESERVED,
                                          .track = track,
                                          .eta_oom_steps = UINT64_MAX};
        follow(model, steps->at + places->first_step, places->last, track, &held);
        if (is_fragmenting(&held, places->last, &finding)) mp_vec_add(findings, finding);
        free(held.reserved);
        free(held.allocated);
    }
}
