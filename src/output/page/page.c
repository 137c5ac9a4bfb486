#include "output/page/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/advise/advise.h"
#include "analysis/categories/phases.h"
#include "analysis/sites/growth.h"
#include "analysis/sites/placement.h"
#include "analysis/sites/site_shares.h"
#include "analysis/sites/sites.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/intern.h"
#include "base/json.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/varint.h"
#include "model/module_path.h"
#include "model/steps_infer.h"
#include "model/track.h"
#include "model/uses.h"
#include "output/form/html.h"
#include "output/page/page_columns.h"
#include "output/page/page_file.h"
#include "output/page/page_stacks.h"
#include "output/page/page_template.h"
#include "output/page/page_words.h"
#include "output/report/advise.h"
#include "output/report/coverage.h"
#include "output/report/device_use.h"
#include "output/report/holders.h"
#include "output/report/leaks.h"
#include "output/report/view.h"

/* Writes the changes as "advice"; null without changes. */
static void page_advice_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise)
{
    if (!advise) {
        mp_json_null(json, "advice");
        return;
    }
    mp_json_object(json, "advice");
    mp_json_number(json, "track", advise->track);
    mp_json_number(json, "peak_bytes", advise->peak);
    mp_json_known(json, "reserved_peak_bytes", advise->has_allocator ? advise->reserved : MP_BYTES_UNKNOWN);
    mp_json_bool(json, "settings_tried", advise->tuning.replays > 1);
    mp_advise_changes_json(json, model, advise);
    mp_json_end_object(json);
}

/* Counts a track's events before an event of the model. A resize counts as two, as on the page. */
struct counter {
    const struct mp_model *model;
    uint16_t track;
    uint32_t event, count;
};

static uint32_t count_before(struct counter *c, uint32_t event)
{
    const struct mp_model_events *events = &c->model->events;
    for (; c->event < event && c->event < events->count; c->event++) {
        uint8_t type = events->type[c->event];
        if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE && type != MP_EVENT_RESIZE) continue;
        if (c->model->blocks.track[events->subject[c->event]] == c->track) c->count += type == MP_EVENT_RESIZE ? 2 : 1;
    }
    return c->count;
}

static void add_difference(struct mp_buffer *to, uint64_t *last, uint64_t now)
{
    mp_varint_append(to, mp_zigzag((int64_t)(now - *last)));
    *last = now;
}

/* Adds the changes' curves. Only for a page of the whole recording. */
static enum mp_status page_advice_add(const struct mp_model *model, const struct mp_advise *advise,
                                      struct mp_page_columns *columns, struct mp_error *error)
{
    struct mp_buffer points = {0}, event = {0}, allocated = {0}, reserved = {0};
    uint64_t count = 0;
    if (!advise) return MP_OK;
    for (size_t i = 0; i < advise->changes.count; i++) {
        const struct mp_curve *curve = &advise->changes.at[i].curve;
        struct counter counter = {.model = model, .track = advise->track};
        uint64_t last_event = 0, last_allocated = 0, last_reserved = 0;
        mp_varint_append(&points, curve->count);
        count += curve->count;
        for (size_t k = 0; k < curve->count; k++) {
            uint64_t before = count_before(&counter, curve->at[k].event);
            mp_varint_append(&event, before - last_event);
            last_event = before;
            add_difference(&allocated, &last_allocated, curve->at[k].allocated);
            if (advise->has_allocator) add_difference(&reserved, &last_reserved, curve->at[k].reserved);
        }
    }
    const struct mp_page_row rows[] = {{"points", &points, advise->changes.count},
                                       {"event", &event, count},
                                       {"allocated", &allocated, count},
                                       {"reserved", &reserved, advise->has_allocator ? count : 0}};
    enum mp_status status = mp_page_columns_add(columns, "advice", rows, sizeof rows / sizeof *rows, error);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        mp_buffer_free(rows[i].raw);
    return status;
}

/*
 * The network's modules on a page: the paths that its blocks use, numbered from 1 in order of first use.
 */
struct page_modules {
    const struct mp_model *model;
    bool any;    /* a block may have a module */
    size_t root; /* length of the beginning that all paths share; the page leaves it out */
    struct mp_page_words paths;
};

/* Facts of blocks as runs. The page reads them by these names (TRACK_COLUMNS in viz/src/data/track_read.js). */
#define RUNS(X)           X(thread) X(kind) X(lane) X(rounding) X(module) X(category) X(freed) X(metadata) X(tensor) X(used)
#define RUNS_MEMBER(name) struct mp_page_runs name;

/* One track's blocks and their events as columns. */
struct page_track_columns {
    struct mp_page_track count;
    uint64_t frees, resizes, last_resized;
    uint64_t last_step; /* events of the track before the latest step */
    uint64_t last_time; /* in units */
    uint64_t addresses, last_address;
    struct mp_map latest; /* shifted address + 1 to its latest block */
    struct mp_buffer op, free, time, size, site, reuse, address, resized, step;
    RUNS(RUNS_MEMBER)
};

/* Shared by the tracks of one page. */
struct page_shared {
    const struct mp_model *model;
    struct mp_page_stacks *stacks;
    struct page_modules *modules;
    struct mp_page_words *words;    /* texts about blocks */
    struct mp_idle_view end;        /* of the recording */
    uint64_t time_unit_ns, from_ns; /* from_ns: the beginning of the page */
    unsigned address_shift;
    uint32_t *local;             /* number of each block of the model on its track */
    const uint32_t *lane;        /* lane of each block of the model (mp_page_lanes.of_block) */
    const uint16_t *category;    /* category of each block of the model */
    struct mp_phases phases;     /* with a log of operators */
    struct mp_map sizes;         /* bytes + 1 to its index in the dictionary */
    struct mp_buffer dictionary; /* sizes, in order of first use */
};

/* The number of events after which a block's category is taken: at its track's peak if the block is live then, else
 * before its free or at the end. */
static uint32_t moment_of(const struct mp_model *model, uint32_t block)
{
    uint32_t birth = model->blocks.alloc_event[block], death = model->blocks.free_event[block];
    uint32_t peak = model->sums.at[model->blocks.track[block]].peak_event;
    uint32_t moment = peak == MP_NONE ? 0 : peak + 1;
    bool born = birth == MP_NONE || birth < moment, freed = death != MP_NONE && death < moment;
    if (born && !freed) return moment;
    return death == MP_NONE ? (uint32_t)model->events.count : death;
}

/* Finds the categories; the caller frees them. `rules` are the user's; NULL: none. */
static void page_categories_find(const struct mp_model *model, const struct mp_rules *rules,
                                 struct mp_page_categories *categories)
{
    *categories = (struct mp_page_categories){.of_block = mp_alloc_zeroed(model->blocks.count + 1, sizeof(uint16_t))};
    categories->categories = mp_categories_make(model, rules);
    bool any = false;
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        categories->of_block[i] = (uint16_t)mp_category_of(categories->categories, i, moment_of(model, i));
        any |= categories->of_block[i];
    }
    if (any) return;
    mp_categories_free(categories->categories);
    categories->categories = NULL;
}

/* Writes the names of categories, in order of their numbers from 1, as "categories". */
static void categories_json(struct mp_json *json, const struct mp_page_categories *categories)
{
    unsigned count = categories->categories ? mp_categories_count(categories->categories) : 0;
    mp_json_array(json, "categories");
    for (unsigned i = 1; i < count; i++)
        mp_json_text(json, NULL, mp_category_name(categories->categories, i));
    mp_json_end_array(json);
}

static void page_categories_free(struct mp_page_categories *categories)
{
    if (categories->categories) mp_categories_free(categories->categories);
    free(categories->of_block);
}

static void page_lanes_find(const struct mp_model *model, const struct mp_placements *placements,
                            struct mp_page_lanes *lanes)
{
    struct mp_intern known = {0}; /* lane numbers from 1, by the bytes of (stream, pool) */
    for (size_t i = 0; i < model->blocks.count; i++) {
        if (placements->stream[i] == MP_PLACE_UNKNOWN || placements->pool[i] == MP_PLACE_UNKNOWN) continue;
        const struct mp_page_lane lane = {placements->stream[i], placements->pool[i]};
        lanes->of_block[i] = mp_intern_add(&known, (const char *)&lane, sizeof lane);
        if (lanes->of_block[i] > lanes->count) mp_vec_add(lanes, lane);
    }
    mp_intern_free(&known);
}

static void page_places_find(const struct mp_model *model, struct mp_page_data *data)
{
    struct mp_placements placements;
    data->lanes = (struct mp_page_lanes){.of_block = mp_alloc_zeroed(model->blocks.count + 1, sizeof(uint32_t))};
    mp_vec_grow_to(&data->pools, model->tracks.count);
    if (!model->calls.count && !model->segments.count && !model->requests.count) return;
    mp_placements_find(model, &placements);
    if (placements.stream && placements.pool) page_lanes_find(model, &placements, &data->lanes);
    for (uint16_t i = 0; i < model->tracks.count; i++)
        mp_pool_lines_find(model, i, &placements, &data->pools.at[i]);
    mp_placements_free(&placements);
}

static void page_lanes_free(struct mp_page_lanes *lanes)
{
    free(lanes->of_block);
    mp_vec_free(lanes);
}

static void page_modules_init(struct page_modules *modules, const struct mp_model *model)
{
    *modules = (struct page_modules){.model = model, .any = model->blocks.module || model->labels.count};
    if (modules->any) modules->root = mp_module_root(model);
}

/* The number of a block's module; 0: none. */
static uint32_t page_modules_of(struct page_modules *modules, uint32_t block)
{
    size_t length = 0;
    const char *path = modules->any ? mp_module_of_block(modules->model, modules->root, block, &length) : "";
    return mp_page_words_number(&modules->paths, path, length);
}

#define ADDRESS_LIMIT (UINT64_C(1) << 53) /* larger integers are not exact in JavaScript */

enum page_op { OP_ALLOC = 0, OP_FREE = 1 };

/* Index of a size in the dictionary; 0 means an unknown size. */
static uint64_t size_index(struct page_shared *shared, uint64_t bytes)
{
    if (bytes == MP_BYTES_UNKNOWN) return 0;
    bool added;
    uint64_t *index = mp_map_at(&shared->sizes, bytes + 1, &added);
    if (added) {
        *index = shared->sizes.count;
        mp_varint_append(&shared->dictionary, bytes);
    }
    return *index;
}

static uint64_t page_address(const struct mp_model *model, size_t block)
{
    uint64_t address = model->blocks.address[block];
    return address < ADDRESS_LIMIT ? address : 0;
}

/* The number of low bits that are clear in every address of the model. */
static unsigned page_address_shift(const struct mp_model *model)
{
    uint64_t bits = UINT64_C(1) << 16;
    for (size_t i = 0; i < model->blocks.count; i++)
        bits |= page_address(model, i);
    return (unsigned)__builtin_ctzll(bits);
}

/* Writes how many blocks ago the address was last used; or 0, and the address. Allocators reuse few addresses, so the
 * numbers are small. */
static void add_address(struct page_track_columns *track, struct page_shared *shared, uint64_t address)
{
    bool added;
    uint64_t *latest = mp_map_at(&track->latest, address + 1, &added);
    mp_varint_append(&track->reuse, added ? 0 : track->count.blocks - *latest);
    *latest = track->count.blocks;
    if (!added) return;
    mp_varint_append(&track->address, mp_zigzag((int64_t)(address - track->last_address)));
    track->last_address = address;
    track->addresses++;
}

/* Changes a block's bytes from `before` to `after`. */
static void change_bytes(struct mp_page_track *track, uint64_t before, uint64_t after, uint64_t time_ns, bool picked)
{
    uint64_t change = mp_known(after) - mp_known(before); /* modulo 2^64; so are the sums until all events are added */
    track->whole_bytes += change;
    if (track->whole_bytes > track->whole_peak_bytes) track->whole_peak_bytes = track->whole_bytes;
    if (!picked) return;
    track->bytes += change;
    if (track->bytes <= track->peak_bytes) return;
    track->peak_bytes = track->bytes;
    track->peak_ns = time_ns;
}

/* Bytes that the allocator gave beyond the request, + 1; 0: unknown. */
static uint64_t rounding_of(const struct mp_model *model, uint32_t block, uint64_t bytes)
{
    const struct mp_request *request = mp_model_request_of(model, block);
    bool sane = request && bytes != MP_BYTES_UNKNOWN && request->bytes <= bytes && bytes - request->bytes < UINT32_MAX;
    return sane ? bytes - request->bytes + 1 : 0;
}

/* The number of the texts about the block; 0: none. */
static uint32_t metadata_of(struct page_shared *shared, uint32_t block)
{
    struct mp_buffer text = {0};
    if (!shared->model->metadata.count) return 0;
    mp_metadata_text(shared->model, block, &text);
    uint32_t number = mp_page_words_number(shared->words, (const char *)text.data, text.size);
    mp_buffer_free(&text);
    return number;
}

/* The number of the text "float32 [8, 128] of addmm in forward, saved for ReluBackward0" about the block; 0: none. */
static uint32_t tensor_of(struct page_shared *shared, uint32_t block)
{
    struct mp_tensor tensor;
    struct mp_buffer text = {0};
    mp_tensor_of(shared->model, block, &tensor);
    if (tensor.shape) mp_buffer_append_text(&text, mp_model_text(shared->model, tensor.shape));
    if (tensor.operator)
        mp_buffer_printf(&text, "%s%s", text.size ? " of " : "room of ", mp_model_text(shared->model, tensor.operator));
    const char *phase = mp_phase_name(mp_phase_of_block(&shared->phases, shared->model, block));
    uint32_t saved = mp_phase_saved_for(&shared->phases, shared->model, block);
    if (text.size && phase) mp_buffer_printf(&text, " in %s", phase);
    if (text.size && saved) mp_buffer_printf(&text, ", saved for %s", mp_model_text(shared->model, saved));
    uint32_t number = mp_page_words_number(shared->words, (const char *)text.data, text.size);
    mp_buffer_free(&text);
    return number;
}

/* When the block was last used, in the page's units, + 1; 0: unknown. */
static uint64_t used_at(const struct page_shared *shared, uint32_t block)
{
    struct mp_idle idle;
    mp_idle_of(&shared->end, block, &idle);
    return idle.since_ns == MP_BYTES_UNKNOWN ? 0 : idle.since_ns / shared->time_unit_ns + 1;
}

/* Gives `block` (again, after a resize) a number on its track and writes its facts. */
static void add_block(struct page_track_columns *track, struct page_shared *shared, size_t block, uint64_t bytes,
                      uint32_t thread)
{
    const struct mp_model_blocks *blocks = &shared->model->blocks;
    mp_varint_append(&track->size, size_index(shared, bytes));
    mp_varint_append(&track->site, mp_page_stacks_site(shared->stacks, blocks->stack[block]));
    add_address(track, shared, page_address(shared->model, block) >> shared->address_shift);
    mp_page_runs_add(&track->thread, thread);
    mp_page_runs_add(&track->kind, blocks->kind[block]);
    mp_page_runs_add(&track->lane, shared->lane[block]);
    mp_page_runs_add(&track->rounding, rounding_of(shared->model, (uint32_t)block, bytes));
    mp_page_runs_add(&track->module, page_modules_of(shared->modules, (uint32_t)block));
    mp_page_runs_add(&track->category, shared->category[block]);
    uint32_t freed_at = mp_model_freed_at(shared->model, (uint32_t)block);
    mp_page_runs_add(&track->freed, freed_at ? mp_page_stacks_site(shared->stacks, freed_at) + 1 : 0);
    mp_page_runs_add(&track->metadata, metadata_of(shared, (uint32_t)block));
    mp_page_runs_add(&track->tensor, shared->model->uses.count ? tensor_of(shared, (uint32_t)block) : 0);
    mp_page_runs_add(&track->used, shared->model->uses.count ? used_at(shared, (uint32_t)block) : 0);
    shared->local[block] = (uint32_t)track->count.blocks++;
    track->count.live_blocks++;
    if (bytes == MP_BYTES_UNKNOWN) track->count.unknown_blocks++;
}

static void add_op(struct page_track_columns *track, const struct page_shared *shared, enum page_op op,
                   uint64_t time_ns)
{
    unsigned char byte = (unsigned char)op;
    mp_buffer_append(&track->op, &byte, 1);
    mp_page_add_time(&track->time, &track->last_time, time_ns / shared->time_unit_ns);
    track->count.events++;
}

static void add_free(struct page_track_columns *track, const struct page_shared *shared, size_t block, uint64_t time_ns)
{
    add_op(track, shared, OP_FREE, time_ns);
    mp_varint_append(&track->free, track->count.blocks - 1 - shared->local[block]);
    track->frees++;
    track->count.live_blocks--;
}

/* The page draws a block as a band of constant height. Each size of a resized block becomes a block of the page, and
 * `resized` joins them. */
static void add_resize(struct page_track_columns *track, struct page_shared *shared, uint32_t event, uint32_t block,
                       uint64_t bytes)
{
    const struct mp_model_events *events = &shared->model->events;
    uint32_t before = shared->local[block];
    add_free(track, shared, block, events->time_ns[event]);
    add_op(track, shared, OP_ALLOC, events->time_ns[event]);
    add_block(track, shared, block, bytes, events->thread[event]);
    mp_varint_append(&track->resized, shared->local[block] - track->last_resized);
    mp_varint_append(&track->resized, shared->local[block] - before);
    track->last_resized = shared->local[block];
    track->resizes++;
}

/* Takes a block that is live when the page begins. Call it before any event. A block that is not `picked` counts only
 * in whole_bytes and whole_peak_bytes. */
static void page_track_base(struct page_track_columns *track, struct page_shared *shared, uint32_t block,
                            uint64_t bytes, bool picked)
{
    change_bytes(&track->count, 0, bytes, shared->from_ns, picked);
    if (!picked) return;
    add_block(track, shared, block, bytes, 0);
    track->count.base_blocks++;
}

/* Takes an alloc, a free or a resize of a block of the track. `picked` is as above. */
static void page_track_event(struct page_track_columns *track, struct page_shared *shared, uint32_t event, bool picked)
{
    const struct mp_model *model = shared->model;
    uint64_t time_ns = model->events.time_ns[event];
    uint32_t block = model->events.subject[event];
    uint8_t type = model->events.type[event];
    uint64_t after = type == MP_EVENT_FREE ? 0 : mp_model_bytes_at(model, block, event);
    uint64_t before = type == MP_EVENT_ALLOC ? 0 : mp_model_bytes_at(model, block, event ? event - 1 : 0);
    change_bytes(&track->count, before, after, time_ns, picked);
    if (!picked) return;
    if (type == MP_EVENT_FREE) {
        add_free(track, shared, block, time_ns);
    } else if (type == MP_EVENT_RESIZE) {
        add_resize(track, shared, event, block, after);
    } else {
        add_op(track, shared, OP_ALLOC, time_ns);
        add_block(track, shared, block, after, model->events.thread[event]);
    }
}

/* Notes that a step of the recording begins. */
static void page_track_step(struct page_track_columns *track)
{
    mp_varint_append(&track->step, track->count.events - track->last_step);
    track->last_step = track->count.events;
}

/* A column of the page while it is made: "t0.op". */
struct named_row {
    char prefix[16];
    struct mp_page_row row;
};

struct named_rows {
    struct named_row *at;
    size_t count, room;
};

static void add_rows(struct named_rows *rows, const char *prefix, const struct mp_page_row *added, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct named_row row = {.row = added[i]};
        snprintf(row.prefix, sizeof row.prefix, "%s", prefix);
        mp_vec_add(rows, row);
    }
}
#define ADD_ROWS(rows, prefix, added) add_rows(rows, prefix, added, sizeof(added) / sizeof *(added))

#define RUNS_ROW(name) {#name, &track->name.to, track->name.count},
#define RUNS_END(name) mp_page_runs_end(&track->name);

static void page_track_rows(struct page_track_columns *track, unsigned number, uint64_t steps, struct named_rows *rows)
{
    uint64_t events = track->count.events, blocks = track->count.blocks;
    char prefix[16];
    const struct mp_page_row made[] = {
        {"op", &track->op, events},
        {"free", &track->free, track->frees},
        {"time", &track->time, events},
        {"size", &track->size, blocks},
        {"site", &track->site, blocks},
        {"reuse", &track->reuse, blocks},
        {"address", &track->address, track->addresses},
    };
    const struct mp_page_row runs[] = {RUNS(RUNS_ROW)};
    const struct mp_page_row rest[] = {{"resized", &track->resized, track->resizes}, {"step", &track->step, steps}};
    snprintf(prefix, sizeof prefix, "t%u", number);
    ADD_ROWS(rows, prefix, made);
    ADD_ROWS(rows, prefix, runs);
    ADD_ROWS(rows, prefix, rest);
}

static void page_track_end(struct page_track_columns *track)
{
    RUNS(RUNS_END)
}

/* Recordings with more events have their times in microseconds: nanoseconds would be most of the page's bytes, and are
 * not needed for the order of events. */
#define EXACT_TIMES 100000
#define COARSE_NS   1000

/* Every event that is not about a block. */
struct note_columns {
    uint64_t count, last_time;
    struct mp_buffer type, time, thread, track, name, bytes, site;
};

/* Counters that were sampled. */
struct sample_columns {
    uint64_t count, last_time;
    struct mp_buffer time, counter, value;
};

struct maker {
    const struct mp_model *model;
    const struct mp_page_cut *cut;
    const struct mp_rules *rules;
    struct mp_page_data *data;
    struct mp_page_stacks stacks;
    struct mp_page_stack_columns tree;
    struct page_modules modules;
    struct mp_page_words words;
    struct page_track_columns *tracks; /* one per track of the model */
    struct page_shared shared;
    struct note_columns notes;
    struct sample_columns samples;
    struct mp_steps steps;
    uint64_t last_step_time;
    size_t next_step; /* the first step not yet begun at the current event */
    struct mp_buffer step_time, step_name;
};

static void add_note(struct maker *make, size_t event)
{
    const struct mp_model_events *events = &make->model->events;
    struct note_columns *to = &make->notes;
    if (events->subject[event] >= make->model->notes.count) return;
    const struct mp_model_note *note = &make->model->notes.at[events->subject[event]];
    uint8_t type = events->type[event];
    bool has_bytes = type == MP_EVENT_OOM || type == MP_EVENT_RESERVED;
    bool has_stack = type == MP_EVENT_OOM || type == MP_EVENT_MARK;
    mp_buffer_append(&to->type, &type, 1);
    mp_page_add_time(&to->time, &to->last_time, events->time_ns[event] / make->shared.time_unit_ns);
    mp_varint_append(&to->thread, events->thread[event]);
    mp_varint_append(&to->track, events->track[event]);
    mp_varint_append(&to->name, mp_page_stacks_string(&make->stacks, note->name));
    mp_varint_append(&to->bytes, has_bytes && note->bytes != MP_BYTES_UNKNOWN ? note->bytes : 0);
    mp_varint_append(&to->site, has_stack ? mp_page_stacks_site(&make->stacks, note->stack) + UINT64_C(1) : 0);
    to->count++;
}

static void add_samples(struct maker *make)
{
    struct sample_columns *to = &make->samples;
    mp_vec_each (const struct mp_sample, sample, &make->model->samples) {
        if (sample->value == MP_BYTES_UNKNOWN) continue;
        to->count++;
        mp_page_add_time(&to->time, &to->last_time, sample->time_ns / make->shared.time_unit_ns);
        mp_varint_append(&to->counter, mp_page_stacks_string(&make->stacks, sample->counter));
        mp_varint_append(&to->value, sample->value);
    }
}

static void add_event(struct maker *make, uint32_t event)
{
    const struct mp_model_events *events = &make->model->events;
    uint8_t type = events->type[event];
    uint32_t block = events->subject[event];
    if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE && type != MP_EVENT_RESIZE)
        add_note(make, event);
    else if (event >= make->cut->window.first && event < make->cut->window.last)
        page_track_event(&make->tracks[make->model->blocks.track[block]], &make->shared, event,
                         mp_filter_picks(make->cut->filter, block));
}

/* Adds the step that begins with an event, if there is one. */
static void add_step(struct maker *make, uint32_t event)
{
    if (make->next_step == make->steps.count || make->steps.at[make->next_step].first > event) return;
    const struct mp_step *step = &make->steps.at[make->next_step++];
    mp_page_add_time(&make->step_time, &make->last_step_time, step->start_ns / make->shared.time_unit_ns);
    mp_varint_append(&make->step_name, mp_page_stacks_string(&make->stacks, step->name));
    for (size_t i = 0; i < make->model->tracks.count; i++)
        page_track_step(&make->tracks[i]);
}

/* If the last step ends after `events` events, notes the numbers of the tracks' events up to now. */
static void end_steps(struct maker *make, uint32_t events)
{
    if (!make->steps.count || make->steps.at[make->steps.count - 1].end != events) return;
    for (size_t i = 0; i < make->model->tracks.count; i++)
        make->tracks[i].count.step_events = make->tracks[i].count.events;
}

/* True if a block is live at some time in the window. */
static bool in_window(const struct maker *make, uint32_t block)
{
    const struct mp_model_blocks *blocks = &make->model->blocks;
    const struct mp_window *window = &make->cut->window;
    uint32_t birth = blocks->alloc_event[block], death = blocks->free_event[block];
    return (birth == MP_NONE || birth < window->last) && (death == MP_NONE || death >= window->first);
}

static void add_base(struct maker *make)
{
    const struct mp_model_blocks *blocks = &make->model->blocks;
    uint32_t first = make->cut->window.first;
    for (uint32_t i = 0; i < blocks->count; i++) {
        struct page_track_columns *track = &make->tracks[blocks->track[i]];
        bool picked = mp_filter_picks(make->cut->filter, i);
        if (!picked || !in_window(make, i)) track->count.left_out++;
        if (!in_window(make, i) || (blocks->alloc_event[i] != MP_NONE && blocks->alloc_event[i] >= first)) continue;
        page_track_base(track, &make->shared, i,
                        first ? mp_model_bytes_at(make->model, i, first - 1) : blocks->bytes[i], picked);
    }
}

/* Lists all columns in the page's order. The caller frees the list. */
static void find_rows(struct maker *make, struct named_rows *rows)
{
    struct note_columns *notes = &make->notes;
    struct sample_columns *samples = &make->samples;
    struct mp_page_stack_columns *tree = &make->tree;
    struct mp_page_words *words[] = {&make->modules.paths, &make->words};
    uint64_t sites = make->stacks.sites.count;
    const struct mp_page_row note[] = {
        {"type", &notes->type, notes->count},     {"time", &notes->time, notes->count},
        {"thread", &notes->thread, notes->count}, {"track", &notes->track, notes->count},
        {"name", &notes->name, notes->count},     {"bytes", &notes->bytes, notes->count},
        {"site", &notes->site, notes->count},
    };
    const struct mp_page_row step[] = {{"time", &make->step_time, make->steps.count},
                                       {"name", &make->step_name, make->steps.count}};
    const struct mp_page_row sample[] = {{"time", &samples->time, samples->count},
                                         {"counter", &samples->counter, samples->count},
                                         {"value", &samples->value, samples->count}};
    const struct mp_page_row stack[] = {
        {"site", &tree->site, sites},
        {"headline", &tree->headline, sites},
        {"library", &tree->library, sites},
        {"parent", &tree->parent, tree->nodes},
        {"frame", &tree->frame, tree->nodes},
        {"language", &tree->language, tree->frames},
        {"module", &tree->module, tree->frames},
        {"address", &tree->address, tree->frames},
        {"graph", &tree->graph, tree->frames},
        {"lines", &tree->lines, tree->frames},
        {"line", &tree->line, tree->line_count},
        {"user", &tree->user, tree->line_count},
        {"length", &tree->length, make->stacks.strings.count},
        {"text", &tree->text, tree->text.size},
    };
    const struct mp_page_row size[] = {{"bytes", &make->shared.dictionary, make->shared.sizes.count}};
    for (size_t i = 0; make->tracks && i < make->model->tracks.count; i++)
        page_track_rows(&make->tracks[i], (unsigned)i, make->steps.count, rows);
    ADD_ROWS(rows, "note", note);
    ADD_ROWS(rows, "step", step);
    ADD_ROWS(rows, "sample", sample);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const struct mp_page_row word[] = {{"length", &words[i]->length, mp_page_words_count(words[i])},
                                           {"text", &words[i]->text, words[i]->text.size}};
        ADD_ROWS(rows, i ? "word" : "module", word);
    }
    ADD_ROWS(rows, "stack", stack);
    ADD_ROWS(rows, "size", size);
}

static enum mp_status pack_all(struct maker *make, struct mp_error *error)
{
    struct named_rows rows = {0};
    enum mp_status status = MP_OK;
    for (size_t i = 0; i < make->model->tracks.count; i++) {
        mp_vec_add(&make->data->tracks, make->tracks[i].count);
        page_track_end(&make->tracks[i]);
    }
    find_rows(make, &rows);
    for (size_t i = 0; i < rows.count && !status; i++)
        status = mp_page_columns_add(&make->data->columns, rows.at[i].prefix, &rows.at[i].row, 1, error);
    mp_vec_free(&rows);
    return status;
}

static void maker_free(struct maker *make)
{
    struct named_rows rows = {0};
    find_rows(make, &rows);
    for (size_t i = 0; i < rows.count; i++)
        mp_buffer_free(rows.at[i].row.raw);
    mp_vec_free(&rows);
    for (size_t i = 0; make->tracks && i < make->model->tracks.count; i++)
        mp_map_free(&make->tracks[i].latest);
    mp_map_free(&make->shared.sizes);
    mp_page_stacks_free(&make->stacks);
    mp_page_words_free(&make->modules.paths);
    mp_page_words_free(&make->words);
    mp_phases_free(&make->shared.phases);
    mp_steps_free(&make->steps);
    free(make->tracks);
    free(make->shared.local);
}

static void note_growth_moment(struct maker *make)
{
    for (size_t i = 0; i < make->model->tracks.count; i++)
        make->tracks[i].count.growth_events = make->tracks[i].count.events;
}

/* Finds the leaks as `memprof leaks` does, with their sites' numbers on the page. */
static enum mp_status find_leaks(struct maker *make, struct mp_error *error)
{
    struct mp_leaks_query query = {
        .track = MP_TRACK_NONE,
        .window = make->cut->window,
        .grouping = {.sort = MP_SORT_GROWTH},
        .filter = make->cut->filter,
    };
    enum mp_status status = mp_leaks_find(make->model, &query, &make->data->leaks, error);
    for (size_t i = 0; !status && i < make->data->leaks.findings.count; i++) {
        uint32_t site = mp_page_stacks_site(&make->stacks, make->data->leaks.findings.at[i].stack);
        mp_vec_add(&make->data->leak_sites, site);
    }
    return status;
}

/* Events come first: they decide which sites and strings the tables must hold. */
static enum mp_status make_all(struct maker *make, struct mp_error *error)
{
    const struct mp_model *model = make->model;
    make->tracks = mp_alloc_zeroed(model->tracks.count + 1, sizeof *make->tracks);
    make->shared.local = mp_alloc_zeroed(model->blocks.count + 1, sizeof *make->shared.local);
    mp_page_stacks_init(&make->stacks, model, &make->words);
    mp_steps_find(model, &make->steps);
    page_modules_init(&make->modules, model);
    page_places_find(model, make->data);
    make->shared.lane = make->data->lanes.of_block;
    page_categories_find(model, make->rules, &make->data->categories);
    make->shared.category = make->data->categories.of_block;
    enum mp_status status = find_leaks(make, error);
    if (status) return status;
    make->data->step_source = mp_steps_source(&make->steps);
    make->data->steps_before = make->steps.before;
    if (make->steps.count) make->data->steps_end_ns = make->steps.at[make->steps.count - 1].end_ns;
    add_base(make);
    for (uint32_t i = 0; i < model->events.count; i++) {
        add_step(make, i);
        add_event(make, i);
        if (i + 1 == make->data->leaks.held.moment) note_growth_moment(make);
        end_steps(make, i + 1);
    }
    add_samples(make);
    mp_page_stacks_columns(&make->stacks, &make->tree);
    return pack_all(make, error);
}

static enum mp_status check_size(const struct mp_model *model, const struct mp_page_cut *cut, struct mp_error *error)
{
    size_t events = 0;
    for (uint32_t i = cut->window.first; i < cut->window.last; i++) {
        uint8_t type = model->events.type[i];
        bool of_block = type == MP_EVENT_ALLOC || type == MP_EVENT_FREE || type == MP_EVENT_RESIZE;
        events += of_block && mp_filter_picks(cut->filter, model->events.subject[i]);
    }
    if (events <= MP_PAGE_EVENTS_MAX) return MP_OK;
    return mp_fail(error, MP_LIMIT,
                   "%zu million events are more than a browser can hold, which is %u million; --from and --to choose a "
                   "part of the recording, --filter 'size>1MiB' its large blocks",
                   events / 1000000, MP_PAGE_EVENTS_MAX / 1000000);
}

enum mp_status mp_page_data_make(const struct mp_model *model, const struct mp_page_cut *cut,
                                 const struct mp_rules *rules, struct mp_page_data *data, struct mp_error *error)
{
    const struct mp_page_cut all = {.window = mp_window_all(model)};
    if (!cut) cut = &all;
    *data = (struct mp_page_data){
        .time_unit_ns = cut->window.last - cut->window.first > EXACT_TIMES ? COARSE_NS : 1,
        .address_shift = page_address_shift(model),
        .from_ns = cut->window.from_ns,
        .to_ns = cut->window.to_ns < model->duration_ns ? cut->window.to_ns : model->duration_ns,
    };
    enum mp_status status = check_size(model, cut, error);
    if (status) return status;
    struct maker make = {
        .model = model,
        .cut = cut,
        .rules = rules,
        .data = data,
        .shared = {.model = model,
                   .time_unit_ns = data->time_unit_ns,
                   .from_ns = data->from_ns,
                   .address_shift = data->address_shift},
    };
    mp_idle_view_at(model, MP_BYTES_UNKNOWN, &make.shared.end);
    make.shared.stacks = &make.stacks;
    make.shared.modules = &make.modules;
    make.shared.words = &make.words;
    if (model->uses.count) mp_phases_find(model, &make.shared.phases);
    status = make_all(&make, error);
    maker_free(&make);
    if (status) mp_page_data_free(data);
    return status;
}

void mp_page_data_free(struct mp_page_data *data)
{
    mp_page_columns_free(&data->columns);
    mp_vec_free(&data->tracks);
    mp_vec_free(&data->leak_sites);
    page_lanes_free(&data->lanes);
    for (size_t i = 0; i < data->pools.count; i++)
        mp_pool_lines_free(&data->pools.at[i]);
    mp_vec_free(&data->pools);
    page_categories_free(&data->categories);
    mp_leaks_free(&data->leaks);
}

/* ---- the page's header: one JSON object inside a <script> element, read before any column is unpacked ---- */

/* The index of the track shown first; 0 if there are no tracks. */
static unsigned page_first_track(const struct mp_model *model, const struct mp_page_options *options)
{
    if (options->track >= 0 && (size_t)options->track < model->tracks.count) return (unsigned)options->track;
    uint16_t track = mp_track_default(model);
    return track == MP_TRACK_NONE ? 0 : track;
}

/* "(0, 1)": a pool's two numbers. */
static const char *pool_text(uint64_t pool, char text[32])
{
    snprintf(text, 32, "(%" PRIu32 ", %" PRIu32 ")", (uint32_t)(pool >> 32), (uint32_t)pool);
    return text;
}

static void put_pools(struct mp_json *json, const struct mp_pool_lines *pools, uint64_t time_unit_ns)
{
    char text[32];
    mp_json_array(json, "pools");
    mp_vec_each (const struct mp_pool_line, line, &pools->all) {
        mp_json_object(json, NULL);
        mp_json_text(json, "pool", pool_text(line->pool, text));
        mp_json_number(json, "most", line->most);
        MP_JSON_LIST(json, "time", k, line->points.count,
                     mp_json_number(json, NULL, line->points.at[k].time_ns / time_unit_ns));
        MP_JSON_LIST(json, "bytes", k, line->points.count, mp_json_number(json, NULL, line->points.at[k].bytes));
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void put_track(struct mp_json *json, const struct mp_model *model, const struct mp_page_data *data, size_t index)
{
    const struct mp_track *track = &model->tracks.at[index];
    const struct mp_model_track_sum *sum = &model->sums.at[index];
    const struct mp_page_track *counts = &data->tracks.at[index];
    const struct mp_device *device = &model->devices.at[track->device];
    char id[MP_TRACK_ID_MAX];
    mp_json_object(json, NULL);
    mp_json_text(json, "id", mp_track_id(model, (uint16_t)index, id));
    mp_json_text(json, "size_basis", mp_size_basis_name(track->size_basis));
    mp_json_known(json, "capacity_bytes", device->total_bytes);
    mp_json_number(json, "peak_bytes", counts->peak_bytes);
    mp_json_number(json, "peak_ns", counts->peak_ns);
    mp_json_number(json, "end_bytes", counts->bytes);
    mp_json_number(json, "whole_peak_bytes", counts->whole_peak_bytes);
    mp_json_number(json, "unknown_blocks", counts->unknown_blocks);
    mp_json_number(json, "left_out", counts->left_out);
    mp_json_known(json, "reserved_peak_bytes", sum->reserved_peak_bytes);
    mp_json_number(json, "events", counts->events);
    mp_json_number(json, "blocks", counts->blocks);
    mp_json_number(json, "base_blocks", counts->base_blocks);
    mp_json_number(json, "growth_events", counts->growth_events);
    mp_json_number(json, "step_events", counts->step_events);
    put_pools(json, &data->pools.at[index], data->time_unit_ns);
    mp_json_end_object(json);
}

static void put_process(struct mp_json *json, const struct mp_model *model)
{
    const struct mp_recording_start *start = &model->start;
    mp_json_array(json, "command");
    for (size_t i = 0; start->command && start->command[i]; i++)
        mp_json_text(json, NULL, start->command[i]);
    mp_json_end_array(json);
    mp_json_text(json, "host", start->host ? start->host : "");
    mp_json_number(json, "pid", start->pid);
    mp_json_number(json, "start_unix_ms", start->realtime_ns / MP_NS_PER_MS);
    mp_json_number(json, "duration_ns", model->duration_ns);
    mp_json_text(json, "exit", model->how.known ? mp_model_text(model, model->how.text) : "");
    mp_json_array(json, "threads");
    for (size_t i = 0; i < model->threads.count; i++) {
        mp_json_object(json, NULL);
        mp_json_number(json, "tid", model->threads.at[i].tid);
        mp_json_text(json, "name", mp_model_text(model, model->threads.at[i].name));
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

/* Writes the periods (mp_birth_period()) that group births if there are no steps. */
static void put_periods(struct mp_json *json, const struct mp_model *model)
{
    size_t count = model->events.count;
    uint64_t first = count ? model->events.time_ns[0] : 0, last = count ? model->events.time_ns[count - 1] : 0;
    mp_json_object(json, "births");
    mp_json_number(json, "first_ns", first);
    mp_json_number(json, "part_ns", (last - first) / MP_TIME_PARTS + 1);
    mp_json_end_object(json);
}

/* Writes the part of the recording that the page shows. */
static void put_cut(struct mp_json *json, const struct mp_page_options *options, const struct mp_page_data *data)
{
    mp_json_number(json, "from_ns", data->from_ns);
    mp_json_number(json, "to_ns", data->to_ns);
    mp_json_bool(json, "cut", options->cut && !options->cut->window.whole);
    mp_json_text(json, "filter", options->cut && options->cut->filter_text ? options->cut->filter_text : "");
}

#define HOLDERS_SHOWN 3 /* holders shown of a finding */

static void put_leaks(struct mp_json *json, const struct mp_model *model, const struct mp_page_data *data)
{
    const struct mp_leaks *leaks = &data->leaks;
    mp_json_object(json, "leaks");
    mp_json_text(json, "verdict", mp_verdict_name(leaks->verdict));
    mp_json_text(json, "reason", leaks->reason);
    mp_json_number(json, "count", leaks->leaks);
    mp_json_array(json, "findings");
    for (size_t i = 0; i < leaks->findings.count; i++) {
        const struct mp_leak_finding *finding = &leaks->findings.at[i];
        mp_json_object(json, NULL);
        mp_json_number(json, "track", finding->track);
        mp_json_number(json, "site", data->leak_sites.at[i]);
        mp_json_text(json, "class", mp_leak_class_name(finding->class));
        mp_json_text(json, "advice", mp_leak_advice(finding->class));
        mp_json_bool(json, "leak", mp_leak_is_leak(finding));
        mp_json_bool(json, "certain", finding->confidence == MP_LEAK_CERTAIN);
        mp_json_number(json, "bytes", finding->bytes);
        mp_json_number(json, "blocks", finding->blocks);
        mp_json_number(json, "bytes_per_step", (uint64_t)(finding->bytes_per_step + 0.5));
        mp_json_number(json, "first_step", finding->first_step);
        mp_json_known(json, "steps_left", mp_leak_steps_left(finding));
        mp_json_number(json, "cause", finding->cause);
        mp_holders_site_json(json, model, &leaks->holders, finding->held, HOLDERS_SHOWN);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    mp_json_end_object(json);
}

/* Writes the lanes: PyTorch's number of a stream, and its pair of numbers of a pool. */
static void put_lanes(struct mp_json *json, const struct mp_page_lanes *lanes)
{
    mp_json_array(json, "lanes");
    for (size_t i = 0; i < lanes->count; i++) {
        uint64_t stream = lanes->at[i].stream, pool = lanes->at[i].pool;
        char text[32];
        mp_json_object(json, NULL);
        snprintf(text, sizeof text, "0x%" PRIx64, stream);
        mp_json_text(json, "stream", stream ? text : "");
        mp_json_text(json, "pool", pool ? pool_text(pool, text) : "");
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void put_data(struct mp_json *json, const struct mp_page_data *data)
{
    mp_json_number(json, "time_unit_ns", data->time_unit_ns);
    mp_json_number(json, "address_shift", data->address_shift);
    MP_JSON_LIST(json, "kinds", i, MP_KINDS, mp_json_text(json, NULL, mp_kind_name(i)));
    mp_page_put_columns(json, &data->columns);
}

static void page_header(const struct mp_model *model, const struct mp_page_options *options,
                        const struct mp_page_data *data, struct mp_buffer *to)
{
    struct mp_json json;
    mp_json_start(&json, to);
    json.flat = true;
    mp_json_object(&json, NULL);
    mp_json_text(&json, "schema", "memprof.page/1");
    mp_json_text(&json, "version", PACKAGE_VERSION);
    mp_json_text(&json, "title", options->title ? options->title : "");
    mp_json_text(&json, "view", options->view ? options->view : "");
    mp_json_number(&json, "track", page_first_track(model, options));
    put_process(&json, model);
    mp_coverage_json(&json, model);
    mp_device_uses_json(&json, model);
    mp_json_array(&json, "tracks");
    for (size_t i = 0; i < model->tracks.count; i++)
        put_track(&json, model, data, i);
    mp_json_end_array(&json);
    mp_json_text(&json, "step_source", data->step_source);
    mp_json_bool(&json, "metadata", model->metadata.count > 0);
    mp_json_bool(&json, "tensors", model->uses.count > 0);
    mp_json_number(&json, "steps_before", data->steps_before);
    mp_json_number(&json, "steps_end_ns", data->steps_end_ns);
    put_cut(&json, options, data);
    put_periods(&json, model);
    put_leaks(&json, model, data);
    put_lanes(&json, &data->lanes);
    categories_json(&json, &data->categories);
    page_advice_json(&json, model, options->advise);
    put_data(&json, data);
    mp_json_end_object(&json);
}

/* "run.mp: python3 train.py, cuda:0/torch, peak 61.4 GiB": the title in a browser's tab and history. */
static void append_title(struct mp_buffer *to, const struct mp_model *model, const struct mp_page_options *options,
                         const struct mp_page_data *data)
{
    mp_html_text(to, options->title ? options->title : "memprof");
    struct mp_buffer command = {0};
    mp_model_command(model, &command);
    if (command.size) mp_buffer_append_text(to, ": ");
    mp_html_text(to, mp_buffer_text(&command));
    mp_buffer_free(&command);
    unsigned track = page_first_track(model, options);
    if (track >= model->tracks.count) return;
    char id[MP_TRACK_ID_MAX], peak[MP_UNIT_TEXT];
    mp_buffer_append_text(to, ", ");
    mp_html_text(to, mp_track_id(model, (uint16_t)track, id));
    mp_buffer_printf(to, ", peak %s", mp_format_bytes(peak, data->tracks.at[track].peak_bytes));
}

enum mp_status mp_page_write(const struct mp_model *model, const struct mp_page_options *options, FILE *out,
                             struct mp_error *error)
{
    struct mp_page_data data;
    enum mp_status status = mp_page_data_make(model, options->cut, options->rules, &data, error);
    if (status) return status;
    struct mp_buffer title = {0}, header = {0};
    status = page_advice_add(model, options->advise, &data.columns, error);
    append_title(&title, model, options, &data);
    page_header(model, options, &data, &header);
    if (!status) status = mp_page_file_write(mp_page_template, &title, &header, &data.columns, out, error);
    mp_buffer_free(&title);
    mp_buffer_free(&header);
    mp_page_data_free(&data);
    return status;
}
