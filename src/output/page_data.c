#include "output/page_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "model/steps_infer.h"
#include "model/track.h"
#include "output/page_stacks.h"

/* Recordings with more events than this have their times in microseconds: nanoseconds would be most of the page, and
 * the order of events stands without them. */
#define EXACT_TIMES    100000
#define COARSE_NS      1000
#define STEP_COLUMNS   2
#define NOTE_COLUMNS   7
#define SAMPLE_COLUMNS 3
#define STACK_COLUMNS  13
#define MODULE_COLUMNS 2

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
    struct mp_page_modules modules;
    struct mp_page_track_columns *tracks; /* one per track of the model */
    struct mp_page_shared shared;
    struct note_columns notes;
    struct sample_columns samples;
    struct mp_steps steps;
    uint64_t last_step_time;
    size_t next_step; /* that has not begun at the event that is looked at */
    struct mp_buffer step_time, step_name;
};

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "not enough memory for the page's data");
}

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
    for (size_t i = 0; i < make->model->samples.count; i++) {
        const struct mp_sample *sample = &make->model->samples.at[i];
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
        mp_page_track_event(&make->tracks[make->model->blocks.track[block]], &make->shared, event,
                            mp_filter_picks(make->cut->filter, block));
}

/* The step that begins with an event, if one does. */
static void add_step(struct maker *make, uint32_t event)
{
    if (make->next_step == make->steps.count || make->steps.at[make->next_step].first > event) return;
    const struct mp_step *step = &make->steps.at[make->next_step++];
    mp_page_add_time(&make->step_time, &make->last_step_time, step->start_ns / make->shared.time_unit_ns);
    mp_varint_append(&make->step_name, mp_page_stacks_string(&make->stacks, step->name));
    for (size_t i = 0; i < make->model->tracks.count; i++)
        mp_page_track_step(&make->tracks[i]);
}

/* Whether a block is live at some time of the window. */
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
        struct mp_page_track_columns *track = &make->tracks[blocks->track[i]];
        bool picked = mp_filter_picks(make->cut->filter, i);
        if (!picked || !in_window(make, i)) track->count.left_out++;
        if (!in_window(make, i) || (blocks->alloc_event[i] != MP_NONE && blocks->alloc_event[i] >= first)) continue;
        mp_page_track_base(track, &make->shared, i,
                           first ? mp_model_bytes_at(make->model, i, first - 1) : blocks->bytes[i], picked);
    }
}

static void note_rows(struct note_columns *notes, struct mp_page_row rows[NOTE_COLUMNS])
{
    const struct mp_page_row made[NOTE_COLUMNS] = {
        {"type", &notes->type, notes->count},     {"time", &notes->time, notes->count},
        {"thread", &notes->thread, notes->count}, {"track", &notes->track, notes->count},
        {"name", &notes->name, notes->count},     {"bytes", &notes->bytes, notes->count},
        {"site", &notes->site, notes->count},
    };
    memcpy(rows, made, sizeof made);
}

static void step_rows(struct maker *make, struct mp_page_row rows[STEP_COLUMNS])
{
    rows[0] = (struct mp_page_row){"time", &make->step_time, make->steps.count};
    rows[1] = (struct mp_page_row){"name", &make->step_name, make->steps.count};
}

static void sample_rows(struct maker *make, struct mp_page_row rows[SAMPLE_COLUMNS])
{
    uint64_t count = make->samples.count;
    const struct mp_page_row made[SAMPLE_COLUMNS] = {
        {"time", &make->samples.time, count},
        {"counter", &make->samples.counter, count},
        {"value", &make->samples.value, count},
    };
    memcpy(rows, made, sizeof made);
}

static void module_rows(struct maker *make, struct mp_page_row rows[MODULE_COLUMNS])
{
    rows[0] = (struct mp_page_row){"length", &make->modules.length, make->modules.count};
    rows[1] = (struct mp_page_row){"text", &make->modules.text, make->modules.text.size};
}

static void stack_rows(struct maker *make, struct mp_page_row rows[STACK_COLUMNS])
{
    struct mp_page_stack_columns *tree = &make->tree;
    const struct mp_page_row made[STACK_COLUMNS] = {
        {"site", &tree->site, make->stacks.sites.count},
        {"headline", &tree->headline, make->stacks.sites.count},
        {"library", &tree->library, make->stacks.sites.count},
        {"parent", &tree->parent, tree->nodes},
        {"frame", &tree->frame, tree->nodes},
        {"language", &tree->language, tree->frames},
        {"module", &tree->module, tree->frames},
        {"address", &tree->address, tree->frames},
        {"lines", &tree->lines, tree->frames},
        {"line", &tree->line, tree->line_count},
        {"user", &tree->user, tree->line_count},
        {"length", &tree->length, make->stacks.strings.count},
        {"text", &tree->text, tree->text.size},
    };
    memcpy(rows, made, sizeof made);
}

static enum mp_status pack_all(struct maker *make, struct mp_error *error)
{
    struct mp_page_row rows[MP_PAGE_TRACK_ROWS];
    struct mp_page_columns *columns = &make->data->columns;
    enum mp_status status = MP_OK;
    for (size_t i = 0; i < make->model->tracks.count && !status; i++) {
        struct mp_page_track_columns *track = &make->tracks[i];
        char prefix[16];
        snprintf(prefix, sizeof prefix, "t%u", (unsigned)i);
        if (!mp_vec_push(&make->data->tracks, track->count)) return no_memory(error);
        mp_page_runs_end(&track->thread);
        mp_page_runs_end(&track->kind);
        mp_page_runs_end(&track->lane);
        mp_page_runs_end(&track->rounding);
        mp_page_runs_end(&track->module);
        mp_page_runs_end(&track->category);
        mp_page_track_rows(track, make->steps.count, rows);
        status = mp_page_columns_add(columns, prefix, rows, MP_PAGE_TRACK_ROWS, error);
    }
    note_rows(&make->notes, rows);
    if (!status) status = mp_page_columns_add(columns, "note", rows, NOTE_COLUMNS, error);
    step_rows(make, rows);
    if (!status) status = mp_page_columns_add(columns, "step", rows, STEP_COLUMNS, error);
    sample_rows(make, rows);
    if (!status) status = mp_page_columns_add(columns, "sample", rows, SAMPLE_COLUMNS, error);
    module_rows(make, rows);
    if (!status) status = mp_page_columns_add(columns, "module", rows, MODULE_COLUMNS, error);
    stack_rows(make, rows);
    if (!status) status = mp_page_columns_add(columns, "stack", rows, STACK_COLUMNS, error);
    const struct mp_page_row sizes = {"bytes", &make->shared.dictionary, make->shared.sizes.count};
    if (!status) status = mp_page_columns_add(columns, "size", &sizes, 1, error);
    return status;
}

static void free_rows(const struct mp_page_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mp_buffer_free(rows[i].raw);
}

static void maker_free(struct maker *make)
{
    struct mp_page_row rows[MP_PAGE_TRACK_ROWS];
    for (size_t i = 0; make->tracks && i < make->model->tracks.count; i++)
        mp_page_track_free(&make->tracks[i]);
    note_rows(&make->notes, rows);
    free_rows(rows, NOTE_COLUMNS);
    step_rows(make, rows);
    free_rows(rows, STEP_COLUMNS);
    sample_rows(make, rows);
    free_rows(rows, SAMPLE_COLUMNS);
    stack_rows(make, rows);
    free_rows(rows, STACK_COLUMNS);
    mp_buffer_free(&make->shared.dictionary);
    mp_map_free(&make->shared.sizes);
    mp_page_stacks_free(&make->stacks);
    mp_page_modules_free(&make->modules);
    mp_steps_free(&make->steps);
    free(make->tracks);
    free(make->shared.local);
}

static void note_growth_moment(struct maker *make)
{
    for (size_t i = 0; i < make->model->tracks.count; i++)
        make->tracks[i].count.growth_events = make->tracks[i].count.events;
}

/* As `memprof leaks` finds them, with the sites that the page knows them by. */
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
        if (!mp_vec_push(&make->data->leak_sites, site)) status = no_memory(error);
    }
    return status;
}

/* Events first: they say which sites and strings the tables must hold. */
static enum mp_status make_all(struct maker *make, struct mp_error *error)
{
    const struct mp_model *model = make->model;
    make->tracks = calloc(model->tracks.count + 1, sizeof *make->tracks);
    make->shared.local = calloc(model->blocks.count + 1, sizeof *make->shared.local);
    if (!make->tracks || !make->shared.local) return no_memory(error);
    enum mp_status status = mp_page_stacks_init(&make->stacks, model, error);
    if (!status && !mp_steps_find(model, &make->steps)) status = no_memory(error);
    if (!status && !mp_page_modules_init(&make->modules, model)) status = no_memory(error);
    if (!status && !mp_page_lanes_find(model, &make->data->lanes)) status = no_memory(error);
    make->shared.lane = make->data->lanes.of_block;
    if (!status) status = mp_page_categories_find(model, make->rules, &make->data->categories, error);
    make->shared.category = make->data->categories.of_block;
    if (!status) status = find_leaks(make, error);
    if (status) return status;
    make->data->step_source = mp_steps_source(&make->steps);
    make->data->steps_before = make->steps.before;
    add_base(make);
    for (uint32_t i = 0; i < model->events.count; i++) {
        add_step(make, i);
        add_event(make, i);
        if (i + 1 == make->data->leaks.held_moment) note_growth_moment(make);
    }
    add_samples(make);
    if (make->shared.failed) return no_memory(error);
    status = mp_page_stacks_columns(&make->stacks, &make->tree, error);
    return status ? status : pack_all(make, error);
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
        .address_shift = mp_page_address_shift(model),
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
    make.shared.stacks = &make.stacks;
    make.shared.modules = &make.modules;
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
    mp_page_lanes_free(&data->lanes);
    mp_page_categories_free(&data->categories);
    mp_leaks_free(&data->leaks);
}
