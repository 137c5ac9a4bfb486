#include "analysis/leak_class.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/level.h"
#include "base/map.h"
#include "model/stack.h"
#include "model/track.h"

/* Nine in ten sizes new: a block is made where a size is seen for the first time. */
static bool new_sizes(const struct mp_leak_places *places, const struct mp_leak_place *place, bool *yes)
{
    struct mp_map sizes = {0};
    size_t stay = 0;
    bool done = true;
    for (size_t i = place->first; done && i < place->first + place->count; i++) {
        if (places->lives[i].death < places->last) continue;
        stay++;
        done = mp_map_insert(&sizes, places->lives[i].bytes + 1, NULL);
    }
    *yes = stay >= MP_LEAK_BIRTHS && sizes.count * 10 >= stay * 9;
    mp_map_free(&sizes);
    return done;
}

/* Memory that a caching allocator takes to give it out itself: on another track its blocks are seen one by one. */
static bool is_segment(const struct mp_stack_line *line)
{
    return (line->function && strstr(line->function, "CachingAllocator")) ||
           (line->module && strstr(line->module, "libc10_cuda"));
}

bool mp_leak_classify(const struct mp_model *model, const struct mp_leak_places *places,
                      const struct mp_leak_place *place, const struct mp_leak_evidence *evidence,
                      enum mp_leak_class *class)
{
    static const enum mp_leak_class by_kind[MP_KINDS] = {
        [MP_KIND_PINNED] = MP_LEAK_PINNED, [MP_KIND_HANDLE] = MP_LEAK_HANDLE, [MP_KIND_GRAPH] = MP_LEAK_GRAPH_POOL};
    struct mp_stack_lines lines = {0};
    bool python = false, segment = false, fresh, driver = model->tracks.at[place->track].layer == MP_LAYER_DRIVER;
    if (!mp_stack_resolve(model, place->stack, &lines) || !new_sizes(places, place, &fresh)) {
        mp_stack_lines_free(&lines);
        return false;
    }
    for (size_t i = 0; i < lines.count; i++) {
        python |= lines.at[i].language == MP_PYTHON && !lines.at[i].cut;
        segment |= driver && is_segment(&lines.at[i]);
    }
    *class = place->kind < MP_KINDS ? by_kind[place->kind] : MP_LEAK_RETENTION;
    if (segment)
        *class = MP_LEAK_FRAGMENTATION;
    else if (*class == MP_LEAK_RETENTION && fresh)
        *class = MP_LEAK_SHAPE_CACHE;
    else if (*class == MP_LEAK_RETENTION && evidence->sawtooth)
        *class = MP_LEAK_CYCLE;
    else if (*class == MP_LEAK_RETENTION && (lines.count || driver) && !python)
        *class = MP_LEAK_NATIVE;
    mp_stack_lines_free(&lines);
    return true;
}

bool mp_leak_is_history(const struct mp_model *model, uint32_t stack, bool *yes)
{
    static const char file[] = "torch/optim/lbfgs.py";
    struct mp_stack_lines lines = {0};
    bool done = mp_stack_resolve(model, stack, &lines);
    *yes = false;
    for (size_t i = 0; done && i < lines.count; i++) {
        size_t length = lines.at[i].file ? strlen(lines.at[i].file) : 0;
        *yes |= length >= sizeof file - 1 && !strcmp(lines.at[i].file + length - (sizeof file - 1), file);
    }
    mp_stack_lines_free(&lines);
    return done;
}

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

/* Reserved rose in many steps, in the later half too, by a quarter or more, while allocated did not follow. */
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

bool mp_leak_find_fragmentation(const struct mp_model *model, const struct mp_steps *steps, uint16_t only,
                                const struct mp_leak_places *places, struct mp_leaks *leaks)
{
    if (!places->enough) return true;
    for (uint16_t track = 0; track < model->tracks.count; track++) {
        if (model->sums.at[track].reserved_peak_bytes == MP_BYTES_UNKNOWN) continue;
        if (only != MP_TRACK_NONE && only != track) continue;
        size_t count = (size_t)places->last + 1;
        struct held held = {calloc(count, sizeof(uint64_t)), calloc(count, sizeof(uint64_t)), false};
        struct mp_leak_finding finding = {.class = MP_LEAK_FRAGMENTATION, .track = track, .eta_oom_steps = UINT64_MAX};
        bool done = held.reserved && held.allocated;
        if (done) {
            follow(model, steps->at + places->first_step, places->last, track, &held);
            if (is_fragmenting(&held, places->last, &finding)) done = mp_vec_push(&leaks->findings, finding);
        }
        free(held.reserved);
        free(held.allocated);
        if (!done) return false;
    }
    return true;
}
