#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/leaks.h"
#include "analysis/sites/peak.h"
#include "analysis/sites/step_groups.h"
#include "analysis/sites/steps.h"
#include "model/builder.h"
#include "unit/model/scene.h"
#include "unit/suite.h"

#define ROUNDS 60
#define EVENTS 300

static struct mp_window window_of(const struct scene *scene, uint32_t first, uint32_t last)
{
    uint32_t count = (uint32_t)scene->events.count;
    return (struct mp_window){first, last, first ? scene->events.at[first - 1].time_ns : 0, 0,
                              .whole = !first && last == count};
}

/* The first moment of the highest level in [first, last]. */
static int64_t peak_moment(const struct scene *scene, uint16_t track, int64_t first, int64_t last)
{
    int64_t best = first;
    for (int64_t moment = first; moment <= last; moment++)
        if (scene_level(scene, track, moment) > scene_level(scene, track, best)) best = moment;
    return best;
}

static uint32_t step_of(const struct scene *scene, int64_t moment)
{
    uint32_t step = 0;
    for (int64_t i = 0; i < moment; i++)
        step += scene->events.at[i].type == MP_EVENT_STEP;
    return step;
}

static void check_sites(const struct scene *scene, const struct mp_sites *sites, uint16_t track, int64_t moment)
{
    uint64_t bytes = 0, blocks = 0;
    for (size_t i = 0; i < sites->count; i++) {
        uint64_t want_bytes = 0, want_blocks = 0, births = 0;
        uint32_t last_step = MP_NONE;
        for (size_t k = 0; k < scene->blocks.count; k++) {
            const struct scene_block *block = &scene->blocks.at[k];
            if (block->track != sites->at[i].track || block->stack != sites->at[i].stack || !scene_lives(block, moment))
                continue;
            want_blocks++;
            if (scene_bytes(block, moment) != MP_BYTES_UNKNOWN) want_bytes += scene_bytes(block, moment);
            if (block->born < 0) continue;
            births += step_of(scene, block->born) != last_step;
            last_step = step_of(scene, block->born);
        }
        ck_assert_uint_gt(want_blocks, 0);
        ck_assert_uint_eq(sites->at[i].bytes, want_bytes);
        ck_assert_uint_eq(sites->at[i].blocks, want_blocks);
        if (step_of(scene, (int64_t)scene->events.count)) ck_assert_uint_eq(sites->at[i].births, births);
        bytes += want_bytes;
        blocks += want_blocks;
    }
    ck_assert_uint_eq(sites->bytes, bytes);
    ck_assert_uint_eq(sites->blocks, blocks);
    if (track != MP_TRACK_NONE) {
        ck_assert_uint_eq(bytes, scene_level(scene, track, moment));
        ck_assert_uint_eq(blocks, scene_live(scene, track, moment));
    }
}

/* Finds the begin events of a thread whose regions are open after `moment` events. */
static size_t open_on(const struct scene *scene, uint32_t thread, int64_t moment, int64_t *open)
{
    size_t depth = 0;
    for (int64_t i = 0; i < moment; i++) {
        const struct mp_event *event = &scene->events.at[i];
        if (event->thread != thread) continue;
        if (event->type == MP_EVENT_REGION_BEGIN) open[depth++] = i;
        if (event->type != MP_EVENT_REGION_END) continue;
        for (size_t at = depth; at--;)
            if (!event->name || scene->events.at[open[at]].name == event->name) {
                depth = at;
                break;
            }
    }
    return depth;
}

/* The thread whose regions are reported: the last event's, else the one whose open region began first; MP_NONE:
 * none. */
static uint32_t meant_thread(const struct scene *scene, int64_t moment)
{
    int64_t open[EVENTS], first = INT64_MAX;
    uint32_t thread = moment ? scene->events.at[moment - 1].thread : 0, found = MP_NONE;
    if (moment && open_on(scene, thread, moment, open)) return thread;
    for (thread = 0; thread < SCENE_THREADS; thread++)
        if (open_on(scene, thread, moment, open) && open[0] < first) first = open[0], found = thread;
    return found;
}

static void check_regions(const struct scene *scene, const struct mp_open_regions *regions, int64_t moment)
{
    int64_t own[EVENTS], lanes[EVENTS];
    uint32_t thread = meant_thread(scene, moment);
    size_t own_count = thread == MP_NONE || thread == SCENE_LANE ? 0 : open_on(scene, thread, moment, own);
    size_t lane_count = open_on(scene, SCENE_LANE, moment, lanes), o = 0, l = 0;
    ck_assert_uint_eq(regions->count, own_count + lane_count);
    for (size_t i = 0; i < regions->count; i++) {
        bool is_own = l == lane_count || (o < own_count && own[o] < lanes[l]);
        int64_t first = is_own ? own[o++] : lanes[l++];
        ck_assert_uint_eq(regions->at[i].first, first);
        ck_assert_uint_eq(regions->at[i].name, scene->events.at[first].name);
        ck_assert_uint_eq(regions->at[i].thread, is_own ? thread : SCENE_LANE);
    }
}

/* A thread's own regions come first. A thread without regions gets another thread's, and only then regions of no
 * thread. */
START_TEST(regions_at_any_moment)
{
    size_t lanes = 0, others = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct scene scene;
        struct mp_open_regions regions = {0};
        scene_make(&scene, seed, EVENTS);
        uint32_t *births = mp_regions_of_births(scene.model);
        for (uint32_t moment = 0; moment <= scene.events.count; moment += 3) {
            mp_regions_at(scene.model, moment, &regions);
            check_regions(&scene, &regions, moment);
            lanes += regions.count && regions.at[regions.count - 1].thread == SCENE_LANE;
        }
        for (uint32_t i = 0; i < scene.model->blocks.count; i++) {
            int64_t open[EVENTS], born = (int64_t)(int32_t)scene.model->blocks.alloc_event[i] + 1;
            uint32_t thread = born ? meant_thread(&scene, born) : MP_NONE;
            size_t depth = thread == MP_NONE ? 0 : open_on(&scene, thread, born, open);
            if (!depth && born) depth = open_on(&scene, SCENE_LANE, born, open);
            ck_assert_uint_eq(births[i], depth ? scene.events.at[open[depth - 1]].name : MP_NONE);
            others += depth && scene.events.at[open[depth - 1]].thread != scene.events.at[born - 1].thread;
        }
        free(births);
        mp_open_regions_free(&regions);
        scene_free(&scene);
    }
    ck_assert_uint_gt(lanes, 100);
    ck_assert_uint_gt(others, 100);
}

START_TEST(peak_equals_brute_force)
{
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct scene scene;
        scene_make(&scene, seed, EVENTS);
        uint32_t count = (uint32_t)scene.events.count, cut = (uint32_t)scene_random(&scene, count);
        const uint32_t windows[][2] = {{0, count}, {0, cut}, {cut, count}, {cut / 2, cut}, {cut, cut}};
        for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
            uint16_t track = (uint16_t)scene_random(&scene, SCENE_TRACKS);
            struct mp_peak_query query = {.track = track, .window = window_of(&scene, windows[w][0], windows[w][1])};
            struct mp_peak peak;
            mp_peak_find(scene.model, &query, &peak);
            int64_t moment = peak_moment(&scene, track, windows[w][0], windows[w][1]);
            ck_assert_uint_eq(peak.moment, moment);
            ck_assert_uint_eq(peak.bytes, scene_level(&scene, track, moment));
            ck_assert_uint_eq(peak.blocks, scene_live(&scene, track, moment));
            ck_assert_uint_eq(peak.step, step_of(&scene, moment));
            ck_assert_uint_eq(peak.ns, moment ? scene.events.at[moment - 1].time_ns : 0);
            check_sites(&scene, &peak.sites, track, moment);
            check_regions(&scene, &peak.regions, moment);
            for (size_t i = 1; i < peak.sites.count; i++)
                ck_assert_uint_ge(peak.sites.at[i - 1].bytes, peak.sites.at[i].bytes);
            mp_peak_free(&peak);
        }
        scene_free(&scene);
    }
}

START_TEST(outstanding_equals_brute_force)
{
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct scene scene;
        struct mp_leaks leaks;
        scene_make(&scene, seed, EVENTS);
        uint32_t count = (uint32_t)scene.events.count;
        struct mp_leaks_query query = {
            .track = MP_TRACK_NONE, .window = window_of(&scene, 0, count), .grouping = {.sort = MP_SORT_GROWTH}};
        ck_assert(!mp_leaks_find(scene.model, &query, &leaks, NULL));
        ck_assert_int_eq(leaks.verdict, MP_VERDICT_UNKNOWN);
        ck_assert_uint_eq(leaks.step_count, step_of(&scene, count));
        check_sites(&scene, &leaks.outstanding, MP_TRACK_NONE, count);
        for (size_t i = 1; i < leaks.outstanding.count; i++) {
            const struct mp_site *before = &leaks.outstanding.at[i - 1], *site = before + 1;
            ck_assert(before->births > site->births ||
                      (before->births == site->births && before->bytes >= site->bytes));
        }
        mp_leaks_free(&leaks);
        scene_free(&scene);
    }
}

/* The largest number of distinct birth steps among the live blocks of one site. */
static uint32_t most_births(const struct scene *scene, int64_t moment)
{
    uint32_t most = 0;
    for (size_t i = 0; i < scene->blocks.count; i++) {
        const struct scene_block *site = &scene->blocks.at[i];
        uint32_t births = 0, last = MP_NONE;
        for (size_t k = 0; k < scene->blocks.count; k++) {
            const struct scene_block *block = &scene->blocks.at[k];
            if (block->track != site->track || block->stack != site->stack || block->born < 0) continue;
            if (!scene_lives(block, moment) || step_of(scene, block->born) == last) continue;
            last = step_of(scene, block->born);
            births++;
        }
        if (births > most) most = births;
    }
    return most;
}

START_TEST(growth_is_looked_for_where_it_shows)
{
    size_t earlier = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct scene scene;
        struct mp_leaks leaks;
        scene_make(&scene, seed, EVENTS);
        uint32_t count = (uint32_t)scene.events.count, best = count;
        struct mp_leaks_query query = {.track = MP_TRACK_NONE, .window = window_of(&scene, 0, count)};
        ck_assert(!mp_leaks_find(scene.model, &query, &leaks, NULL));
        for (uint32_t i = 64; i; i--)
            if (most_births(&scene, i * (count / 65)) > most_births(&scene, best) &&
                most_births(&scene, i * (count / 65)) >= most_births(&scene, count) + 2)
                best = i * (count / 65);
        if (leaks.step_count) {
            ck_assert_uint_eq(leaks.held.moment, best);
            check_sites(&scene, &leaks.held.sites, MP_TRACK_NONE, best);
            earlier += best != count;
        }
        mp_leaks_free(&leaks);
        scene_free(&scene);
    }
    ck_assert_uint_gt(earlier, 0); /* otherwise nothing was tested */
}

/* Bytes allocated (or freed) in events [first, end), summed block by block. */
static uint64_t moved(const struct scene *scene, uint16_t track, int64_t first, int64_t end, bool came)
{
    uint64_t sum = 0;
    mp_vec_each (const struct scene_block, block, &scene->blocks) {
        if (block->track != track) continue;
        for (int64_t event = first; event < end; event++) {
            uint64_t before = scene_lives(block, event) ? scene_bytes(block, event) : 0;
            uint64_t after = scene_lives(block, event + 1) ? scene_bytes(block, event + 1) : 0;
            if (before == MP_BYTES_UNKNOWN) before = 0;
            if (after == MP_BYTES_UNKNOWN) after = 0;
            if (came && after > before) sum += after - before;
            if (!came && before > after) sum += before - after;
        }
    }
    return sum;
}

static void check_steps(const struct scene *scene, const struct mp_step_report *report)
{
    size_t row = 0;
    int64_t count = (int64_t)scene->events.count;
    for (int64_t first = 0; first < count; first++) {
        if (scene->events.at[first].type != MP_EVENT_STEP) continue;
        int64_t end = first + 1;
        while (end < count && scene->events.at[end].type != MP_EVENT_STEP)
            end++;
        ck_assert_uint_lt(row, report->steps.count);
        const struct mp_step_row *step = &report->steps.at[row++];
        ck_assert_uint_eq(step->number, row);
        ck_assert_uint_eq(step->start_ns, scene->events.at[first].time_ns);
        ck_assert_uint_eq(step->end_ns, end < count ? scene->events.at[end].time_ns : scene->model->duration_ns);
        ck_assert_uint_eq(step->peak_moment, peak_moment(scene, report->track, first, end));
        ck_assert_uint_eq(step->allocated_bytes, moved(scene, report->track, first, end, true));
        ck_assert_uint_eq(step->freed_bytes, moved(scene, report->track, first, end, false));
        ck_assert_uint_eq(step->peak_bytes,
                          scene_level(scene, report->track, peak_moment(scene, report->track, first, end)));
        ck_assert_uint_eq(step->end_bytes, scene_level(scene, report->track, end));
        ck_assert_uint_eq(step->to_end, end == count);
    }
    ck_assert_uint_eq(row, report->steps.count);
}

/* The end of the region that begins at `first`. It is the end event of its name on its thread when no inner region of
 * that name is open, or else the end of a region around it. */
static int64_t region_end(const struct scene *scene, int64_t first)
{
    struct {
        uint32_t name;
        int64_t first;
    } open[EVENTS];
    size_t depth = 0;
    uint32_t thread = scene->events.at[first].thread;
    for (int64_t event = 0; event < (int64_t)scene->events.count; event++) {
        const struct mp_event *at = &scene->events.at[event];
        if (at->thread != thread) continue;
        if (at->type == MP_EVENT_REGION_BEGIN) {
            open[depth].name = at->name;
            open[depth++].first = event;
        }
        if (at->type != MP_EVENT_REGION_END) continue;
        size_t which = depth;
        while (which && at->name && open[which - 1].name != at->name)
            which--;
        if (!which) continue;
        for (size_t i = which - 1; i < depth; i++)
            if (open[i].first == first) return event;
        depth = which - 1;
    }
    return (int64_t)scene->events.count;
}

/* Bytes of blocks born in events [first, end) and live afterwards, without later growth. */
static uint64_t kept(const struct scene *scene, uint16_t track, int64_t first, int64_t end)
{
    uint64_t came = moved(scene, track, first, end, true), went = 0;
    mp_vec_each (const struct scene_block, block, &scene->blocks) {
        if (block->track != track || block->born < first || block->born >= end) continue;
        for (int64_t event = first; event < end; event++) {
            uint64_t before = scene_lives(block, event) ? scene_bytes(block, event) : 0;
            uint64_t after = scene_lives(block, event + 1) ? scene_bytes(block, event + 1) : 0;
            if (before > after) went += before - after;
        }
    }
    return came - went;
}

static int ascending(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* The smallest value that at least `percent` % of the values do not exceed. */
static uint64_t nearest(const uint64_t *values, size_t count, unsigned percent)
{
    uint64_t best = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t no_larger = 0;
        for (size_t k = 0; k < count; k++)
            no_larger += values[k] <= values[i];
        if (no_larger * 100 >= count * percent && values[i] < best) best = values[i];
    }
    return best;
}

/* Each region has one block of its own size, all different, in no order. */
static struct mp_model *model_of_regions(size_t count, uint64_t *peaks)
{
    static const struct mp_string_entry strings[] = {{"", 0}, {"gpu", 3}, {"part", 4}};
    static const struct mp_device device = {.name = 1, .total_bytes = MP_BYTES_UNKNOWN};
    static const struct mp_track track = {.layer = MP_LAYER_TORCH};
    static const struct mp_thread_info thread = {.tid = 1};
    static const struct mp_stack_node stack = {0};
    struct mp_recording_start start = {0};
    struct mp_damage damage = {0};
    struct mp_builder *builder;
    struct mp_model *model;
    struct mp_chunk tables[] = {{.kind = MP_CHUNK_STRINGS, .count = 3, .as.strings = strings},
                                {.kind = MP_CHUNK_DEVICES, .sequence = 1, .count = 1, .as.devices = &device},
                                {.kind = MP_CHUNK_TRACKS, .sequence = 2, .count = 1, .as.tracks = &track},
                                {.kind = MP_CHUNK_THREADS, .sequence = 3, .count = 1, .as.threads = &thread},
                                {.kind = MP_CHUNK_STACKS, .sequence = 4, .count = 1, .as.stacks = &stack}};
    mp_builder_new(&start, &builder);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        ck_assert(!mp_builder_add(builder, &tables[i], NULL));
    for (size_t i = 0; i < 4 * count; i++) {
        static const uint8_t types[] = {MP_EVENT_REGION_BEGIN, MP_EVENT_ALLOC, MP_EVENT_FREE, MP_EVENT_REGION_END};
        uint64_t time = i, block = i / 4, address = 512, bytes = 1000 + (block * 7919 + 13) % 307 * 10;
        uint32_t nothing = 0, name = types[i % 4] == MP_EVENT_REGION_BEGIN ? 2 : 0;
        uint16_t of_track = 0;
        uint8_t kind = 0;
        peaks[block] = bytes;
        struct mp_event_columns one = {1,     &time,    &address,  &bytes,        &block, &nothing,
                                       &name, &nothing, &of_track, &types[i % 4], &kind};
        ck_assert(!mp_builder_add(
            builder, &(struct mp_chunk){.kind = MP_CHUNK_EVENTS_KIND, .sequence = 5 + i, .count = 1, .as.events = one},
            NULL));
    }
    mp_builder_finish(builder, &damage, 0, &model);
    return model;
}

static void check_region(const struct scene *scene, const struct mp_step_report *report, uint32_t name)
{
    uint64_t peaks[EVENTS], sum = 0, allocated = 0, kept_bytes = 0, ns = 0;
    size_t count = 0;
    for (int64_t first = 0; first < (int64_t)scene->events.count; first++) {
        const struct mp_event *event = &scene->events.at[first];
        if (event->type != MP_EVENT_REGION_BEGIN || event->name != name) continue;
        int64_t end = region_end(scene, first);
        peaks[count] = scene_level(scene, report->track, peak_moment(scene, report->track, first, end));
        sum += peaks[count++];
        allocated += moved(scene, report->track, first, end, true);
        kept_bytes += kept(scene, report->track, first, end);
        ns += (end < (int64_t)scene->events.count ? scene->events.at[end].time_ns : scene->model->duration_ns) -
              event->time_ns;
    }
    const struct mp_region_row *row = NULL;
    for (size_t i = 0; i < report->regions.count; i++)
        if (report->regions.at[i].name == name) row = &report->regions.at[i];
    ck_assert_int_eq(row != NULL, count > 0);
    if (!row) return;
    qsort(peaks, count, sizeof *peaks, ascending);
    ck_assert_uint_eq(row->count, count);
    ck_assert_uint_eq(row->mean_peak_bytes, sum / count);
    ck_assert_uint_eq(row->max_peak_bytes, peaks[count - 1]);
    ck_assert_uint_eq(row->p50_peak_bytes, nearest(peaks, count, 50));
    ck_assert_uint_eq(row->p95_peak_bytes, nearest(peaks, count, 95));
    ck_assert_uint_eq(row->p99_peak_bytes, nearest(peaks, count, 99));
    ck_assert_uint_eq(row->total_allocated_bytes, allocated);
    ck_assert_uint_eq(row->kept_bytes, kept_bytes);
    ck_assert_uint_eq(row->total_ns, ns);
}

START_TEST(steps_and_regions_equal_brute_force)
{
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct scene scene;
        struct mp_step_report report;
        scene_make(&scene, seed, EVENTS);
        struct mp_window window = window_of(&scene, 0, (uint32_t)scene.events.count);
        uint16_t track = (uint16_t)(seed % SCENE_TRACKS);
        mp_steps_report(scene.model, track, &window, &report);
        check_steps(&scene, &report);
        for (uint32_t name = 0; name < SCENE_NAMES; name++)
            check_region(&scene, &report, SCENE_FIRST_NAME + name);
        mp_step_report_free(&report);
        scene_free(&scene);
    }
}

/* Regions of one name with known peaks, in numbers for which the definitions of ranks differ. */
START_TEST(percentiles_are_nearest_ranks)
{
    static const size_t counts[] = {1, 2, 3, 4, 19, 20, 21, 39, 40, 99, 100, 101, 150, 199, 200, 201, 299, 300, 301};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint64_t peaks[301];
        struct mp_model *model = model_of_regions(counts[i], peaks);
        struct mp_window window = mp_window_all(model);
        struct mp_step_report report;
        mp_steps_report(model, 0, &window, &report);
        ck_assert_uint_eq(report.regions.count, 1);
        const struct mp_region_row *row = &report.regions.at[0];
        ck_assert_uint_eq(row->count, counts[i]);
        ck_assert_uint_eq(row->p50_peak_bytes, nearest(peaks, counts[i], 50));
        ck_assert_uint_eq(row->p95_peak_bytes, nearest(peaks, counts[i], 95));
        ck_assert_uint_eq(row->p99_peak_bytes, nearest(peaks, counts[i], 99));
        ck_assert_uint_eq(row->max_peak_bytes, nearest(peaks, counts[i], 100));
        mp_step_report_free(&report);
        mp_model_free(model);
    }
}

/* A group's sums are those of its sites, for every grouping. */
START_TEST(groups_add_up)
{
    static const char *const groups[] = {"stack", "stack:1", "stack:3", "function", "file", "library"};
    struct scene scene;
    scene_make(&scene, 7, EVENTS);
    uint64_t whole = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        struct mp_peak_query query = {.track = 1, .window = window_of(&scene, 0, (uint32_t)scene.events.count)};
        struct mp_peak peak;
        ck_assert(!mp_group_parse(groups[i], &query.grouping, NULL));
        mp_peak_find(scene.model, &query, &peak);
        uint64_t bytes = 0, blocks = 0;
        for (size_t k = 0; k < peak.sites.count; k++) {
            bytes += peak.sites.at[k].bytes;
            blocks += peak.sites.at[k].blocks;
        }
        ck_assert_uint_eq(bytes, peak.bytes);
        ck_assert_uint_eq(blocks, peak.blocks);
        if (!i) whole = peak.sites.count;
        ck_assert_uint_le(peak.sites.count, whole);
        mp_peak_free(&peak);
    }
    scene_free(&scene);
}

/* The stream or pool that a block must get: its own if known. If it is unknown, that of the known blocks of its site
 * and size, if these are three or more and agree. */
static uint64_t told_of(const struct mp_model *model, uint32_t block, bool is_pool)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    const struct mp_request *own = mp_model_request_of(model, block);
    uint64_t all = UINT64_MAX;
    unsigned reported = 0;
    if (own) return is_pool ? own->pool : own->stream;
    for (uint32_t i = 0; i < blocks->count; i++) {
        const struct mp_request *other = mp_model_request_of(model, i);
        bool alike = blocks->stack[i] == blocks->stack[block] && blocks->bytes[i] == blocks->bytes[block] &&
                     blocks->track[i] == blocks->track[block] &&
                     mp_model_module(model, i) == mp_model_module(model, block);
        if (!other || !alike) continue;
        uint64_t is = is_pool ? other->pool : other->stream;
        if (reported++ && is != all) return UINT64_MAX;
        all = is;
    }
    return reported >= 3 && blocks->stack[block] ? all : UINT64_MAX;
}

/* The name of a block's group, by a plain search; false if it has none. */
static bool group_of(const struct scene *scene, enum mp_group_by by, const uint32_t *regions, size_t block,
                     int64_t moment, char name[64])
{
    const struct scene_block *at = &scene->blocks.at[block];
    uint64_t bytes = scene_bytes(at, moment);
    *name = '\0';
    if (by == MP_GROUP_SIZE && bytes != MP_BYTES_UNKNOWN) snprintf(name, 64, "%llu", (unsigned long long)bytes);
    if (by == MP_GROUP_THREAD && at->born >= 0) snprintf(name, 64, "%u", scene->events.at[at->born].thread + 1);
    if (by == MP_GROUP_REGION && at->born >= 0 && regions[block] != MP_NONE)
        snprintf(name, 64, "%s", mp_model_text(scene->model, regions[block]));
    if (by == MP_GROUP_POOL || by == MP_GROUP_STREAM) {
        uint64_t reported = told_of(scene->model, (uint32_t)block, by == MP_GROUP_POOL);
        if (reported == UINT64_MAX)
            snprintf(name, 64, "%s", by == MP_GROUP_POOL && at->track == 2 ? "f" : ""); /* that track's pool */
        else if (by == MP_GROUP_STREAM)
            snprintf(name, 64, "%u", (unsigned)reported);
        else
            snprintf(name, 64, reported ? "(0, %u)" : "default", (unsigned)reported);
    }
    return *name;
}

static void check_groups(const struct scene *scene, const struct mp_sites *sites, enum mp_group_by by,
                         const struct mp_peak *peak)
{
    uint32_t *regions = mp_regions_of_births(scene->model); /* the model numbers the blocks as the scene does */
    char name[64];
    for (size_t i = 0; i < sites->count; i++) {
        const struct mp_site *site = &sites->at[i];
        uint64_t bytes = 0, blocks = 0;
        for (size_t k = 0; k < scene->blocks.count; k++) {
            const struct scene_block *block = &scene->blocks.at[k];
            if (block->track != peak->track || !scene_lives(block, peak->moment)) continue;
            bool known = group_of(scene, by, regions, k, peak->moment, name);
            if (known != (site->group != MP_NONE)) continue;
            if (known && strcmp(name, mp_intern_get(&sites->groups, site->group, NULL))) continue;
            blocks++;
            if (scene_bytes(block, peak->moment) != MP_BYTES_UNKNOWN) bytes += scene_bytes(block, peak->moment);
        }
        ck_assert_uint_eq(site->blocks, blocks);
        ck_assert_uint_eq(site->bytes, bytes);
    }
    ck_assert_uint_eq(sites->bytes, peak->bytes);
    ck_assert_uint_eq(sites->blocks, peak->blocks);
    free(regions);
}

START_TEST(groups_of_blocks_equal_brute_force)
{
    static const char *const groups[] = {"size", "thread", "region", "pool", "stream"};
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct scene scene;
        scene_make(&scene, seed, EVENTS);
        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
            struct mp_peak_query query = {.track = (uint16_t)scene_random(&scene, SCENE_TRACKS),
                                          .window = window_of(&scene, 0, (uint32_t)scene.events.count)};
            struct mp_peak peak;
            ck_assert(!mp_group_parse(groups[i], &query.grouping, NULL));
            ck_assert_str_eq(mp_group_name(query.grouping.by), groups[i]);
            mp_peak_find(scene.model, &query, &peak);
            check_groups(&scene, &peak.sites, query.grouping.by, &peak);
            mp_peak_free(&peak);
        }
        scene_free(&scene);
    }
}

/* The bytes that a group held at the peak of a step, on one track. */
static uint64_t held_by(const struct scene *scene, uint16_t track, enum mp_group_by by, const uint32_t *regions,
                        const char *want, int64_t moment)
{
    uint64_t bytes = 0;
    char name[64];
    for (size_t k = 0; k < scene->blocks.count; k++) {
        const struct scene_block *block = &scene->blocks.at[k];
        if (block->track != track || !scene_lives(block, moment)) continue;
        bool known = group_of(scene, by, regions, k, moment, name);
        if (known != (want != NULL) || (known && strcmp(name, want))) continue;
        if (scene_bytes(block, moment) != MP_BYTES_UNKNOWN) bytes += scene_bytes(block, moment);
    }
    return bytes;
}

START_TEST(groups_of_steps_equal_brute_force)
{
    static const enum mp_group_by by[] = {MP_GROUP_THREAD, MP_GROUP_REGION, MP_GROUP_POOL};
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct scene scene;
        scene_make(&scene, seed, EVENTS);
        uint16_t track = (uint16_t)scene_random(&scene, SCENE_TRACKS);
        struct mp_window whole = window_of(&scene, 0, (uint32_t)scene.events.count);
        uint32_t *regions = mp_regions_of_births(scene.model);
        struct mp_step_report report;
        mp_steps_report(scene.model, track, &whole, &report);
        for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
            struct mp_grouping grouping = {.by = by[i]};
            struct mp_step_groups groups;
            mp_step_groups_find(scene.model, &report, &grouping, &groups);
            for (size_t row = 0; row < report.steps.count; row++) {
                int64_t moment = report.steps.at[row].peak_moment;
                uint64_t sum = 0;
                ck_assert_uint_eq(scene_level(&scene, track, moment), report.steps.at[row].peak_bytes);
                for (size_t g = 0; g < groups.groups.count; g++) {
                    uint32_t id = groups.groups.at[g].name;
                    const char *name = id == MP_NONE ? NULL : mp_intern_get(&groups.names, id, NULL);
                    uint64_t bytes = groups.bytes[row * groups.columns + groups.groups.at[g].column];
                    ck_assert_uint_eq(bytes, held_by(&scene, track, by[i], regions, name, moment));
                    sum += bytes;
                }
                ck_assert_uint_eq(sum, report.steps.at[row].peak_bytes);
            }
            mp_step_groups_free(&groups);
        }
        mp_step_report_free(&report);
        free(regions);
        scene_free(&scene);
    }
}

START_TEST(bad_words_are_refused)
{
    struct mp_grouping grouping = {0};
    static const char *const groups[] = {"", "stack:", "stack:0", "stack:x", "stack:3x", "stack:99999", "functions"};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        ck_assert_int_eq(mp_group_parse(groups[i], &grouping, NULL), MP_INVALID);
    ck_assert_int_eq(mp_sort_parse("size", &grouping, NULL), MP_INVALID);
}

MP_SUITE("analysis", regions_at_any_moment, percentiles_are_nearest_ranks, peak_equals_brute_force,
         outstanding_equals_brute_force, growth_is_looked_for_where_it_shows, steps_and_regions_equal_brute_force,
         groups_add_up, groups_of_blocks_equal_brute_force, groups_of_steps_equal_brute_force, bad_words_are_refused)
