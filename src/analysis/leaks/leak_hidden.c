#include "analysis/leaks/leak_hidden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/trend.h"
#include "analysis/sites/level.h"
#include "base/memory.h"
#include "model/track.h"

#define PARTS          32          /* of the steps, or fewer where there are few readings: */
#define PARTS_LEAST    8           /* of which all must rise */
#define SAMPLES_A_PART 3           /* fewer readings prove nothing */
#define GROWN_MIN      (16u << 20) /* bytes: heaps and interpreters grow by less */
#define SHARE_MIN      0.05        /* of the initial value */
#define SIGNIFICANT    5.0
#define BYTES_A_BLOCK  4096 /* of the host, additional cost of a block: objects, a graph's nodes */

/* The role of a track in its device's handed out memory. */
enum part_of { NOTHING, LIVE, RESERVED };

struct part {
    uint64_t sample, known; /* at their lowest; UINT64_MAX: none */
    uint32_t samples;
};

/* The steps in equal parts; the first quarter of them is the warm-up. */
struct parts {
    struct part at[PARTS];
    uint32_t count, warm_up;
};

struct sweep {
    const struct mp_model *model;
    uint32_t device;
    enum part_of *role; /* by track */
    uint64_t *held;     /* by track */
    struct mp_level *levels;
    uint64_t known;
};

static bool has_driver_blocks(const struct mp_model *model, uint32_t device)
{
    for (size_t i = 0; i < model->tracks.count; i++)
        if (model->tracks.at[i].device == device && model->tracks.at[i].layer == MP_LAYER_DRIVER &&
            model->sums.at[i].allocs &&
            mp_track_holds_memory(MP_LAYER_DRIVER, mp_model_text(model, model->tracks.at[i].name)))
            return true;
    return false;
}

/* On the host all blocks count. On a device the driver's blocks count, and the memory of its pools and graphs; without
 * those the total of PyTorch's allocator. The driver's other named tracks hold no memory of their own. */
static enum part_of role_of(const struct mp_model *model, uint16_t number, bool is_host, bool by_driver)
{
    const struct mp_track *track = &model->tracks.at[number];
    const char *name = mp_model_text(model, track->name);
    bool reserves = model->sums.at[number].reserved_peak_bytes != MP_BYTES_UNKNOWN;
    if (is_host) return track->layer == MP_LAYER_DRIVER && *name ? NOTHING : LIVE;
    if (track->layer == MP_LAYER_TORCH) return by_driver ? NOTHING : reserves ? RESERVED : LIVE;
    if (track->layer != MP_LAYER_DRIVER) return NOTHING;
    if (!strcmp(name, "pool") || !strcmp(name, "graph")) return reserves ? RESERVED : LIVE;
    return *name ? NOTHING : LIVE;
}

static void apply(struct sweep *sweep, uint32_t event)
{
    const struct mp_model *model = sweep->model;
    uint8_t type = model->events.type[event];
    if (type > MP_EVENT_RESIZE && type != MP_EVENT_RESERVED) return;
    uint16_t track = model->events.track[event];
    enum part_of role = sweep->role[track];
    if (role == RESERVED && type == MP_EVENT_RESERVED) {
        uint64_t now = model->notes.at[model->events.subject[event]].bytes;
        sweep->known += now - sweep->held[track];
        sweep->held[track] = now;
    } else if (role == LIVE) {
        uint64_t before = sweep->levels[track].bytes;
        mp_level_apply(&sweep->levels[track], model, track, event);
        sweep->known += sweep->levels[track].bytes - before;
    }
}

static void note(struct part *part, const uint64_t *sample, uint64_t known)
{
    if (known < part->known) part->known = known;
    if (!sample) return;
    part->samples++;
    if (*sample < part->sample) part->sample = *sample;
}

/* Finds the lowest of both values in each part. A counter is sampled where it changes: between samples the last value
 * holds. */
static void fill_parts(struct sweep *sweep, const struct mp_step *steps, uint32_t last, uint32_t counter,
                       struct parts *parts)
{
    const struct mp_model *model = sweep->model;
    size_t next = 0;
    uint64_t value = UINT64_MAX;
    for (uint32_t i = 0; i < parts->count; i++)
        parts->at[i] = (struct part){UINT64_MAX, UINT64_MAX, 0};
    for (uint32_t event = 0, step = 0; event < steps[last].first; event++) {
        while (step < last && steps[step + 1].first <= event)
            step++;
        bool inside = event >= steps[0].first;
        struct part *part = &parts->at[(uint64_t)step * parts->count / last];
        for (; next < model->samples.count && model->samples.at[next].time_ns <= model->events.time_ns[event]; next++) {
            if (model->samples.at[next].counter != counter) continue;
            value = model->samples.at[next].value;
            if (inside) note(part, &value, sweep->known);
        }
        apply(sweep, event);
        if (inside) note(part, NULL, sweep->known);
    }
    for (uint32_t i = 1; i < parts->count; i++)
        if (!parts->at[i].samples && parts->at[i - 1].sample != UINT64_MAX)
            parts->at[i].sample = parts->at[i - 1].sample;
}

/* As many parts as the readings allow; 0: too few for an answer. */
static uint32_t count_parts(const struct mp_model *model, const struct mp_step *steps, uint32_t last, uint32_t counter)
{
    uint32_t readings = 0, parts = PARTS;
    for (size_t i = 0; i < model->samples.count; i++) {
        const struct mp_sample *sample = &model->samples.at[i];
        readings += sample->counter == counter && sample->time_ns >= steps[0].start_ns &&
                    sample->time_ns < steps[last].start_ns;
    }
    if (readings / SAMPLES_A_PART < parts) parts = readings / SAMPLES_A_PART;
    if (last < parts) parts = last;
    return parts < PARTS_LEAST ? 0 : parts;
}

static bool judge(const struct parts *parts, uint32_t last, struct mp_leak_finding *finding, bool *grows)
{
    uint32_t series[PARTS], count = 0, samples = 0, rises = 0;
    uint64_t rest[PARTS];
    struct mp_trend trend;
    *grows = false;
    for (uint32_t i = parts->warm_up; i < parts->count; i++) {
        const struct part *part = &parts->at[i];
        if (part->sample == UINT64_MAX || part->known == UINT64_MAX) return true;
        rest[count] = part->sample > part->known ? part->sample - part->known : 0;
        rises += count && rest[count] > rest[count - 1];
        series[count] = (uint32_t)(rest[count] >> 12);
        samples += part->samples;
        count++;
    }
    uint64_t first = rest[0], middle = rest[count / 2], end = rest[count - 1];
    if (samples < SAMPLES_A_PART * count || end < first + GROWN_MIN ||
        (double)(end - first) < SHARE_MIN * (double)first)
        return true;
    mp_trend_find(series, count, &trend);
    bool goes_on = end > middle && (end - middle) * 2 >= (middle > first ? middle - first : 0);
    bool full = count > 3 && end - rest[count - 3] < (end - first) / (2 * count); /* the last parts did not rise */
    bool rising = parts->count == PARTS ? trend.z > SIGNIFICANT && rises * 4 >= (count - 1) * 3 : rises == count - 1;
    *grows = rising && goes_on && !full;
    finding->bytes = end - first;
    finding->births = rises;
    finding->first_step = last * parts->warm_up / parts->count + 1;
    finding->bytes_per_step = (double)(end - first) / ((double)last * (count - 1) / parts->count);
    return true;
}

/* Whether the additional host memory of recorded leaks explains it. */
static bool is_explained(const struct mp_leaks *leaks, double bytes_per_step)
{
    double explained = 0;
    for (size_t i = 0; i < leaks->findings.count; i++) {
        const struct mp_leak_finding *finding = &leaks->findings.at[i];
        if (mp_leak_is_leak(finding))
            explained += finding->blocks_per_step * BYTES_A_BLOCK + finding->bytes_per_step / 4;
    }
    return bytes_per_step < explained;
}

static uint16_t track_of(const struct mp_model *model, uint32_t device)
{
    uint16_t best = MP_TRACK_NONE;
    for (uint16_t i = 0; i < model->tracks.count; i++)
        if (model->tracks.at[i].device == device &&
            (best == MP_TRACK_NONE || model->sums.at[i].peak_bytes > model->sums.at[best].peak_bytes))
            best = i;
    return best;
}

static bool look_at(const struct mp_model *model, const struct mp_step *steps, uint32_t last, uint32_t device,
                    uint32_t counter, bool is_host, struct mp_leaks *leaks)
{
    struct parts parts = {.count = count_parts(model, steps, last, counter)};
    parts.warm_up = parts.count / 4;
    if (!parts.count) return true;
    bool grows = false, by_driver = has_driver_blocks(model, device);
    struct mp_leak_finding finding = {
        .class = MP_LEAK_HIDDEN, .track = track_of(model, device), .eta_oom_steps = UINT64_MAX};
    size_t tracks = model->tracks.count;
    struct sweep sweep = {.model = model,
                          .device = device,
                          .role = mp_alloc_zeroed(tracks, sizeof *sweep.role),
                          .held = mp_alloc_zeroed(tracks, sizeof *sweep.held),
                          .levels = mp_alloc_zeroed(tracks, sizeof *sweep.levels)};
    bool done = true;
    for (uint16_t i = 0; done && i < tracks; i++) {
        if (model->tracks.at[i].device != device) continue;
        sweep.role[i] = role_of(model, i, is_host, by_driver);
        sweep.levels[i] = mp_level_start(model, i);
        if (sweep.role[i] == LIVE) sweep.known += sweep.levels[i].bytes;
    }
    if (done) {
        fill_parts(&sweep, steps, last, counter, &parts);
        done = judge(&parts, last, &finding, &grows);
    }
    if (done && grows && !is_explained(leaks, finding.bytes_per_step)) {
        mp_vec_add(&leaks->findings, finding);
        done = true;
    }
    free(sweep.role);
    free(sweep.held);
    free(sweep.levels);
    return done;
}

static uint32_t find_counter(const struct mp_model *model, uint32_t device, bool is_host)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", mp_model_text(model, model->devices.at[device].name),
             is_host ? "resident" : "process");
    for (size_t i = 0; i < model->samples.count; i++)
        if (!strcmp(mp_model_text(model, model->samples.at[i].counter), name)) return model->samples.at[i].counter;
    return 0;
}

bool mp_leak_find_hidden(const struct mp_model *model, const struct mp_steps *steps,
                         const struct mp_leak_places *places, struct mp_leaks *leaks)
{
    if (!places->enough || places->last < PARTS_LEAST) return true;
    for (uint32_t device = 0; device < model->devices.count; device++) {
        bool is_host = !strcmp(mp_model_text(model, model->devices.at[device].name), "cpu");
        uint32_t counter = find_counter(model, device, is_host);
        if (!counter || track_of(model, device) == MP_TRACK_NONE) continue;
        if (!look_at(model, steps->at + places->first_step, places->last, device, counter, is_host, leaks))
            return false;
    }
    return true;
}
