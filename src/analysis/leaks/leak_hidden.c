#include "analysis/leaks/leak_hidden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/device/plan.h"
#include "analysis/sites/level.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/order.h"
#include "model/track.h"

/* How a track counts in its device's used memory. */
enum part_of { NOTHING, LIVE, RESERVED };

struct part {
    uint64_t sample, known; /* the lowest values of the part; UINT64_MAX: none */
    uint64_t heap, highest; /* the lowest known value of the C library's heap, and its highest up to the part's begin */
    uint64_t top;           /* the highest sample */
    double when;            /* time of the lowest sample: the step's number, plus the part of the step that had
                             * passed */
    uint32_t samples;
    bool passed_over; /* the part is too short to have a reading */
};

/* The process's share of a device, by the last sample. On the host, pages of files do not count, as many are only read
 * (page cache). Its own shared memory counts, which is among them. */
struct share {
    uint32_t counter, files, own; /* string ids; 0: none */
    uint64_t value, in_files, own_shared;
    bool planned;        /* on the host of a plan, which grows by itself */
    bool shared;         /* the program's own shared memory alone, or mapped files */
    bool mapped, in_shm; /* files in /dev/shm, which nobody need map */
};

/* The steps in equal parts. The first quarter of the parts is the warm-up. */
struct parts {
    struct part at[MP_LEAK_PARTS];
    uint32_t count;
    bool brief; /* too few readings, or too short a time, for a proof */
};

struct sweep {
    const struct mp_model *model;
    uint32_t device;
    bool is_host;
    enum part_of *role; /* by track */
    uint64_t *held;     /* by track */
    struct mp_level *levels;
    uint64_t known;
    uint64_t heap, highest; /* bytes of blocks in the C library's heap, which may retain them; the most so far */
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

/* On the host, all blocks count. On a device, the driver's blocks count, with the memory of its pools and graphs;
 * without these, the total of PyTorch's allocator. The other named tracks of the driver hold no memory of their own. */
static enum part_of role_of(const struct mp_model *model, uint16_t number, bool is_host, bool by_driver)
{
    const struct mp_track *track = &model->tracks.at[number];
    const char *name = mp_model_text(model, track->name);
    bool reserves = model->sums.at[number].reserved_peak_bytes != MP_BYTES_UNKNOWN;
    if (is_host) return track->layer == MP_LAYER_DRIVER && *name ? NOTHING : LIVE;
    if (track->layer == MP_LAYER_TORCH) return by_driver ? NOTHING : reserves ? RESERVED : LIVE;
    if (track->layer != MP_LAYER_DRIVER) return NOTHING;
    enum mp_driver_part part = mp_driver_track(name)->part;
    if (part == MP_DRIVER_POOLED) return reserves ? RESERVED : LIVE;
    return part == MP_DRIVER_BLOCKS ? LIVE : NOTHING;
}

/* True if the C library may retain the block's memory when the program frees it. A device's driver retains none, and
 * malloc() maps large blocks by themselves. */
static bool is_in_heap(const struct sweep *sweep, uint32_t block)
{
    return sweep->is_host && mp_known(sweep->model->blocks.bytes[block]) <= MP_LEAK_MAPPED_FROM;
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
        bool is_block = mp_level_apply(&sweep->levels[track], model, track, event);
        sweep->known += sweep->levels[track].bytes - before;
        if (is_block && is_in_heap(sweep, model->events.subject[event]))
            sweep->heap += sweep->levels[track].bytes - before;
        if (sweep->heap > sweep->highest) sweep->highest = sweep->heap;
    }
}

static void note(struct part *part, const uint64_t *sample, double when, const struct sweep *sweep)
{
    if (sweep->known < part->known) part->known = sweep->known;
    if (sweep->heap < part->heap) part->heap = sweep->heap;
    if (sweep->highest < part->highest) part->highest = sweep->highest;
    if (!sample) return;
    part->samples++;
    if (*sample > part->top) part->top = *sample;
    if (*sample >= part->sample) return;
    part->sample = *sample;
    part->when = when;
}

/* Takes a sample. True if the sample belongs to the share; *now is then the share's size. */
static bool follow_share(struct share *share, const struct mp_sample *sample, uint64_t *now)
{
    if (sample->counter == share->files && share->files) share->in_files = sample->value;
    if (sample->counter == share->counter) share->value = sample->value;
    if (sample->counter == share->own && share->own) share->own_shared = sample->value;
    uint64_t files = share->in_files > share->own_shared ? share->in_files - share->own_shared : 0;
    *now = share->value > files ? share->value - files : 0;
    return sample->counter == share->counter;
}

static double fraction_of(const struct mp_step *step, uint64_t time_ns)
{
    double lasted = (double)(step->end_ns - step->start_ns), passed = (double)(time_ns - step->start_ns);
    return time_ns < step->start_ns || lasted <= 0 ? 0 : passed < lasted ? passed / lasted : 1;
}

/* Sets the lowest values of each part. A counter is sampled when it changes, so the last sample holds until the next
 * one. */
static void fill_parts(struct sweep *sweep, const struct mp_step *steps, uint32_t last, struct share share,
                       struct parts *parts)
{
    const struct mp_model *model = sweep->model;
    size_t next = 0;
    uint64_t now;
    for (uint32_t i = 0; i < parts->count; i++)
        parts->at[i] =
            (struct part){.sample = UINT64_MAX, .known = UINT64_MAX, .heap = UINT64_MAX, .highest = UINT64_MAX};
    for (uint32_t event = 0, step = 0; event < steps[last].first; event++) {
        while (step < last && steps[step + 1].first <= event)
            step++;
        bool inside = event >= steps[0].first;
        struct part *part = &parts->at[(uint64_t)step * parts->count / last];
        for (; next < model->samples.count && model->samples.at[next].time_ns <= model->events.time_ns[event]; next++) {
            const struct mp_sample *sample = &model->samples.at[next];
            if (!follow_share(&share, sample, &now) || !inside) continue;
            note(part, &now, step + fraction_of(&steps[step], sample->time_ns), sweep);
        }
        apply(sweep, event);
        if (inside) note(part, NULL, 0, sweep);
    }
    for (uint32_t i = 1; i < parts->count; i++) {
        if (parts->at[i].known == UINT64_MAX) { /* no event */
            parts->at[i].known = parts->at[i - 1].known;
            parts->at[i].heap = parts->at[i - 1].heap;
            parts->at[i].highest = parts->at[i - 1].highest;
        }
        if (parts->at[i].samples || parts->at[i - 1].sample == UINT64_MAX) continue;
        uint32_t first = (i * last + parts->count - 1) / parts->count, end = ((i + 1) * last - 1) / parts->count;
        parts->at[i].passed_over = steps[end].end_ns - steps[first].start_ns < (MP_LEAK_READ_WITHIN_MS * MP_NS_PER_MS);
        parts->at[i].sample = parts->at[i].top = parts->at[i - 1].sample;
        parts->at[i].when = (double)i * last / parts->count;
    }
}

/* The number of parts, as many as the readings allow; 0: too few. */
static uint32_t count_parts(const struct mp_model *model, const struct mp_step *steps, uint32_t last,
                            const struct share *share, bool *brief)
{
    uint32_t readings = 0, parts = MP_LEAK_PARTS;
    mp_vec_each (const struct mp_sample, sample, &model->samples) {
        readings += sample->counter == share->counter && sample->time_ns >= steps[0].start_ns &&
                    sample->time_ns < steps[last].start_ns;
    }
    if (readings / MP_LEAK_SAMPLES_A_PART < parts) parts = readings / MP_LEAK_SAMPLES_A_PART;
    *brief = parts < MP_LEAK_PARTS_PROOF;
    if (*brief) parts = readings < MP_LEAK_PARTS_PROOF ? readings : MP_LEAK_PARTS_PROOF;
    if (last < parts) parts = last;
    return parts < MP_LEAK_PARTS_LEAST ? 0 : parts;
}

MP_ORDER(by_size, double, MP_COMPARE(*a, *b))

/* Theil and Sen's slope over the steps. */
static double slope_of(const uint64_t *rest, const double *when, uint32_t count)
{
    double slopes[MP_LEAK_PARTS * MP_LEAK_PARTS / 2];
    size_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = i + 1; k < count; k++)
            if (when[k] > when[i]) slopes[found++] = ((double)rest[k] - (double)rest[i]) / (when[k] - when[i]);
    if (!found) return 0;
    qsort(slopes, found, sizeof *slopes, by_size);
    return (slopes[(found - 1) / 2] + slopes[found / 2]) / 2;
}

/* The bytes of freed blocks that the process still has: what the heap's blocks took at their highest, less what they
 * take now and what the process once returned. Example: blocks take 100 MiB, then 40. If the process stays as large,
 * the C library retains 60 MiB; if it has shrunk by 50, it retains 10. */
static uint64_t retained_bytes(const struct part *part, uint64_t *top, uint64_t *returned)
{
    uint64_t freed = part->highest > part->heap ? part->highest - part->heap : 0;
    if (part->top > *top) *top = part->top;
    if (*top - part->sample > *returned) *returned = *top - part->sample;
    return freed > *returned ? freed - *returned : 0;
}

/* True if growth goes on: nearly each part is higher than the one before, and the last two are. The later half must
 * rise at least half as fast as the earlier one. *much: the growth exceeds the usual growth of heaps and
 * interpreters. */
static bool judge(const struct parts *parts, uint32_t last, struct mp_leak_finding *finding, bool *much)
{
    uint64_t rest[MP_LEAK_PARTS], usual = 0, top = 0, returned = 0; /* usual: retained in the first part */
    double when[MP_LEAK_PARTS];
    uint32_t from = parts->count / 4, count = 0, rises = 0;
    while (from < parts->count && parts->at[from].sample == UINT64_MAX)
        from++; /* the first readings may come long after the program's begin */
    for (uint32_t i = from; i < parts->count; i++) {
        const struct part *part = &parts->at[i];
        if (part->passed_over) continue;
        uint64_t retained = retained_bytes(part, &top, &returned);
        if (!count) usual = retained;
        uint64_t known = part->known + retained;
        rest[count] = part->sample + usual > known ? part->sample + usual - known : 0;
        when[count] = part->when;
        rises += count && rest[count] > rest[count - 1];
        count++;
    }
    if (count < MP_LEAK_PARTS_LEAST - 1) return false;
    uint64_t first = rest[0], middle = rest[count / 2], end = rest[count - 1];
    *much = end >= first + MP_LEAK_GROWN_MIN && (double)(end - first) >= MP_LEAK_SHARE_MIN * (double)first;
    if (!*much && (parts->brief || end < first + MP_LEAK_GROWN_SOME)) return false;
    double earlier = middle > first ? (double)(middle - first) * (when[count - 1] - when[count / 2]) : 0;
    bool goes_on = end > middle && (double)(end - middle) * 2 * (when[count / 2] - when[0]) >= earlier;
    bool full = end < rest[count - 3] + (end - first) / (2 * count);
    finding->bytes = end - first;
    finding->births = rises;
    finding->first_step = last * from / parts->count + 1;
    finding->bytes_per_step = slope_of(rest, when, count);
    return rises * 8 >= (count - 1) * 7 && goes_on && !full;
}

/* True if recorded leaks explain the growth, with the host memory that their blocks cost, or as blocks of shared
 * memory. */
static bool is_explained(const struct mp_leak_findings *findings, double bytes_per_step, bool shared)
{
    double explained = 0;
    mp_vec_each (const struct mp_leak_finding, finding, findings) {
        if (mp_leak_is_leak(finding))
            explained +=
                finding->blocks_per_step * MP_LEAK_BYTES_A_BLOCK + finding->bytes_per_step * (shared ? 1.1 : 0.25);
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

/* True if it added a finding. */
static bool look_at(const struct mp_model *model, const struct mp_step *steps, uint32_t last, uint32_t device,
                    const struct share *share, bool is_host, struct mp_leak_findings *findings,
                    struct mp_leak_finding *unsure)
{
    struct parts parts = {.count = 0};
    parts.count = count_parts(model, steps, last, share, &parts.brief);
    if (!parts.count) return false;
    if (is_host && steps[last].start_ns - steps[0].start_ns < MP_LEAK_HOST_S * MP_NS_PER_SECOND) parts.brief = true;
    bool by_driver = has_driver_blocks(model, device);
    struct mp_leak_finding finding = {.class = MP_LEAK_HIDDEN,
                                      .confidence = MP_LEAK_PROBABLE,
                                      .missing = "no recorded block explains the growth",
                                      .why = {.test = MP_LEAK_BY_PROCESS, .steps = last},
                                      .shared = share->shared,
                                      .mapped = share->mapped,
                                      .in_shm = share->in_shm,
                                      .track = track_of(model, device),
                                      .eta_oom_steps = UINT64_MAX};
    size_t tracks = model->tracks.count;
    struct sweep sweep = {.model = model,
                          .device = device,
                          .is_host = is_host,
                          .role = mp_alloc_zeroed(tracks, sizeof *sweep.role),
                          .held = mp_alloc_zeroed(tracks, sizeof *sweep.held),
                          .levels = mp_alloc_zeroed(tracks, sizeof *sweep.levels)};
    for (uint16_t i = 0; i < tracks; i++) {
        if (model->tracks.at[i].device != device) continue;
        sweep.role[i] = share->shared ? NOTHING : role_of(model, i, is_host, by_driver);
        sweep.levels[i] = mp_level_start(model, i);
        if (sweep.role[i] == LIVE) sweep.known += sweep.levels[i].bytes;
    }
    for (uint32_t block = 0; block < model->blocks.count; block++)
        if (model->blocks.alloc_event[block] == MP_NONE && sweep.role[model->blocks.track[block]] == LIVE &&
            is_in_heap(&sweep, block))
            sweep.heap += mp_known(model->blocks.bytes[block]);
    sweep.highest = sweep.heap;
    fill_parts(&sweep, steps, last, *share, &parts);
    bool much, added = false;
    if (judge(&parts, last, &finding, &much) && !is_explained(findings, finding.bytes_per_step, share->shared)) {
        added = !parts.brief && much && last + 1 >= MP_LEAK_STEPS && !share->planned && finding.track != MP_TRACK_NONE;
        if (added)
            mp_vec_add(findings, finding);
        else if ((!share->planned || finding.bytes >= MP_LEAK_GROWN_PLAN) && finding.bytes > unsure->bytes)
            *unsure = finding;
    }
    free(sweep.role);
    free(sweep.held);
    free(sweep.levels);
    return added;
}

static uint32_t find_counter(const struct mp_model *model, const char *device, const char *suffix)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", device, suffix);
    for (size_t i = 0; i < model->samples.count; i++)
        if (!strcmp(mp_model_text(model, model->samples.at[i].counter), name)) return model->samples.at[i].counter;
    return 0;
}

void mp_leak_find_hidden(const struct mp_model *model, const struct mp_steps *steps,
                         const struct mp_leak_places *places, struct mp_leak_findings *findings,
                         struct mp_leak_finding *unsure)
{
    const struct mp_step *at = steps->at + places->first_step;
    struct mp_plan plan;
    struct share host = {.counter = find_counter(model, "cpu", "resident"),
                         .files = find_counter(model, "cpu", "shared"),
                         .own = find_counter(model, "cpu", "shared/own")};
    uint32_t cpu = MP_NONE; /* the host is read even if the recording has no blocks of it */
    if (!places->enough || places->last < MP_LEAK_PARTS_LEAST) return;
    mp_plan_find(model, &plan);
    host.planned = plan.planned;
    mp_plan_free(&plan);
    for (uint32_t device = 0; device < model->devices.count; device++) {
        const char *name = mp_model_text(model, model->devices.at[device].name);
        struct share share = {.counter = find_counter(model, name, "process")};
        if (!strcmp(name, "cpu"))
            cpu = device;
        else if (share.counter && track_of(model, device) != MP_TRACK_NONE)
            look_at(model, at, places->last, device, &share, false, findings, unsure);
    }
    struct share own = {.counter = host.own, .planned = host.planned, .shared = true};
    if (own.counter && look_at(model, at, places->last, cpu, &own, true, findings, unsure)) host.own = 0;
    struct share mapped = {
        .counter = find_counter(model, "cpu", "mapped"), .planned = host.planned, .shared = true, .mapped = true};
    if (mapped.counter) look_at(model, at, places->last, cpu, &mapped, true, findings, unsure);
    struct share files = {
        .counter = find_counter(model, "cpu", "shm"), .planned = host.planned, .shared = true, .in_shm = true};
    if (files.counter) look_at(model, at, places->last, cpu, &files, true, findings, unsure);
    if (host.counter) look_at(model, at, places->last, cpu, &host, true, findings, unsure);
}
