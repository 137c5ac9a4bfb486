/*
 * The tables of memprof_read.h. Each has one function, which says how many rows there are, adds the columns and fills
 * them. Columns and their meaning: docs/manual/reading.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/sites/level.h"
#include "analysis/sites/live.h"
#include "base/memory.h"
#include "exchange/common/rows.h"
#include "model/steps_infer.h"
#include "model/track.h"
#include "read/recording.h"

struct filling { /* what each function works on */
    struct memprof_recording *recording;
    const struct mp_model *model;
    struct mp_read_table *table;
};

/* Adds a column whose values are the model's own array. */
static void share(struct filling *f, const char *name, enum memprof_type type, const void *values)
{
    f->table->columns[f->table->shown.column_count++] = (struct memprof_column){name, type, values};
}

/* Adds a column, and returns its values, which are zeroed, for the caller to fill. */
static void *add(struct filling *f, const char *name, enum memprof_type type)
{
    static const size_t width[] = {
        [MEMPROF_U8] = 1, [MEMPROF_U32] = 4, [MEMPROF_U64] = 8, [MEMPROF_I64] = 8, [MEMPROF_TEXT] = 4};
    void *values = mp_alloc_zeroed(f->table->shown.rows + 1, width[type]);
    f->table->owned[f->table->shown.column_count] = values;
    share(f, name, type, values);
    return values;
}

static uint32_t *add_u32(struct filling *f, const char *name)
{
    return add(f, name, MEMPROF_U32);
}

static uint64_t *add_u64(struct filling *f, const char *name)
{
    return add(f, name, MEMPROF_U64);
}

static uint32_t *add_text(struct filling *f, const char *name)
{
    return add(f, name, MEMPROF_TEXT);
}

/* The number of a text that the model owns, or that is a constant of the library. */
static uint32_t kept(struct filling *f, const char *text)
{
    return mp_read_number_kept(f->recording, text);
}

static uint32_t copied(struct filling *f, const char *text)
{
    return mp_read_number(f->recording, text);
}

static uint32_t tid_of(const struct mp_model *model, uint32_t thread)
{
    return thread < model->threads.count ? model->threads.at[thread].tid : UINT32_MAX;
}

static uint32_t track_text(struct filling *f, size_t track)
{
    char id[MP_TRACK_ID_MAX];
    return copied(f, mp_track_id(f->model, (uint16_t)track, id));
}

static void fill_recording(struct filling *f)
{
    const struct mp_model *model = f->model;
    struct mp_buffer command = {0};
    f->table->shown.rows = 1;
    mp_model_command(model, &command);
    *add_text(f, "command") = copied(f, mp_buffer_text(&command));
    mp_buffer_free(&command);
    *add_text(f, "format") = copied(f, model->file.format);
    *add_text(f, "host") = copied(f, model->start.host);
    *add_u32(f, "pid") = (uint32_t)model->start.pid;
    *add_u64(f, "start_unix_ns") = model->start.realtime_ns ? model->start.realtime_ns : UINT64_MAX;
    *add_u64(f, "duration_ns") = model->duration_ns;
    *(uint8_t *)add(f, "complete", MEMPROF_U8) = !mp_model_incomplete(model) && !mp_model_limited(model);
    *add_u64(f, "dropped") = model->coverage.dropped;
    *add_u64(f, "rank") = mp_member_number(&model->start.member, MP_MEMBER_RANK);
    *add_text(f, "role") = copied(f, model->start.member.role);
}

static void fill_notes(struct filling *f)
{
    const struct mp_coverage *coverage = &f->model->coverage;
    f->table->shown.rows = (size_t)coverage->note_count + coverage->limit_count;
    uint32_t *text = add_text(f, "text");
    for (uint32_t i = 0; i < coverage->note_count; i++)
        *text++ = kept(f, mp_model_text(f->model, coverage->notes[i]));
    for (uint32_t i = 0; i < coverage->limit_count; i++)
        *text++ = kept(f, mp_model_text(f->model, coverage->limits[i]));
}

static void fill_devices(struct filling *f)
{
    f->table->shown.rows = f->model->devices.count;
    uint32_t *name = add_text(f, "name"), *uuid = add_text(f, "uuid"), *sort = add_text(f, "model");
    uint64_t *total = add_u64(f, "total_bytes");
    mp_vec_each (const struct mp_device, device, &f->model->devices) {
        *name++ = kept(f, mp_model_text(f->model, device->name));
        *uuid++ = kept(f, mp_model_text(f->model, device->uuid));
        *sort++ = kept(f, mp_model_text(f->model, device->model));
        *total++ = device->total_bytes;
    }
}

static void fill_tracks(struct filling *f)
{
    const struct mp_model *model = f->model;
    f->table->shown.rows = model->tracks.count;
    uint32_t *name = add_text(f, "name"), *device = add_text(f, "device"), *layer = add_text(f, "layer");
    uint32_t *pool = add_text(f, "pool"), *basis = add_text(f, "size_basis"), *peak_event = add_u32(f, "peak_event");
    uint64_t *start = add_u64(f, "start_bytes"), *peak_bytes = add_u64(f, "peak_bytes"), *ns = add_u64(f, "peak_ns");
    uint64_t *end = add_u64(f, "end_bytes"), *reserved = add_u64(f, "reserved_peak_bytes");
    uint8_t *is_default = add(f, "is_default", MEMPROF_U8);
    for (size_t i = 0; i < model->tracks.count; i++) {
        const struct mp_track *track = &model->tracks.at[i];
        const struct mp_model_track_sum *sum = &model->sums.at[i];
        name[i] = track_text(f, i);
        device[i] = kept(f, mp_track_device(model, (uint16_t)i));
        layer[i] = kept(f, mp_layer_name(track->layer));
        pool[i] = kept(f, mp_model_text(model, track->name));
        basis[i] = kept(f, mp_size_basis_name(track->size_basis));
        peak_event[i] = sum->peak_event;
        start[i] = sum->base_bytes;
        peak_bytes[i] = sum->peak_bytes;
        ns[i] = sum->peak_ns;
        end[i] = sum->end_bytes;
        reserved[i] = sum->reserved_peak_bytes;
        is_default[i] = i == mp_track_default(model);
    }
}

static void fill_threads(struct filling *f)
{
    f->table->shown.rows = f->model->threads.count;
    uint32_t *tid = add_u32(f, "thread"), *name = add_text(f, "name");
    for (uint32_t i = 0; i < f->model->threads.count; i++) {
        tid[i] = tid_of(f->model, i);
        name[i] = kept(f, mp_model_text(f->model, f->model->threads.at[i].name));
    }
}

static void fill_stacks(struct filling *f)
{
    struct mp_stack_lines lines = {0};
    struct mp_buffer text = {0};
    f->table->shown.rows = f->model->stacks.count;
    uint32_t *site = add_text(f, "site"), *function = add_text(f, "function"), *file = add_text(f, "file");
    uint32_t *number = add_u32(f, "line");
    for (uint32_t i = 0; i < f->model->stacks.count; i++) {
        mp_stack_resolve(f->model, i, &lines);
        const struct mp_stack_line *line = mp_stack_headline(&lines);
        number[i] = line && line->line ? line->line : UINT32_MAX;
        if (!line) continue;
        mp_buffer_clear(&text);
        mp_frame_headline(&text, &lines);
        site[i] = copied(f, mp_buffer_text(&text));
        function[i] = kept(f, line->function);
        file[i] = kept(f, line->file);
    }
    mp_stack_lines_free(&lines);
    mp_buffer_free(&text);
}

static uint32_t small(uint64_t number)
{
    return number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

static void fill_blocks(struct filling *f)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    const struct mp_window window = mp_window_all(f->model);
    struct mp_block_rows rows;
    uint32_t *track_names = mp_alloc_zeroed(f->model->tracks.count + 1, sizeof *track_names);
    for (size_t i = 0; i < f->model->tracks.count; i++)
        track_names[i] = track_text(f, i);
    f->table->shown.rows = blocks->count;
    share(f, "address", MEMPROF_U64, blocks->address);
    share(f, "bytes", MEMPROF_U64, blocks->bytes);
    share(f, "stack_id", MEMPROF_U32, blocks->stack);
    share(f, "alloc_event", MEMPROF_U32, blocks->alloc_event);
    share(f, "free_event", MEMPROF_U32, blocks->free_event);
    uint32_t *track_id = add_u32(f, "track_id"), *track = add_text(f, "track"), *kind = add_text(f, "kind");
    uint64_t *alloc_ns = add_u64(f, "alloc_ns"), *free_ns = add_u64(f, "free_ns");
    uint32_t *alloc_step = add_u32(f, "alloc_step"), *free_step = add_u32(f, "free_step");
    uint32_t *thread = add_u32(f, "thread"), *region = add_text(f, "region"), *module = add_text(f, "module");
    uint32_t *role = add_text(f, "role"), *label = add_text(f, "label"), *pool = add_text(f, "pool");
    uint64_t *requested = add_u64(f, "requested_bytes"), *stream = add_u64(f, "stream");
    mp_block_rows_start(f->model, &window, NULL, &rows);
    for (struct mp_row row = {0}; mp_block_rows_next(&rows, &row); row.block++) {
        uint32_t i = row.block;
        track_id[i] = blocks->track[i];
        track[i] = track_names[blocks->track[i]];
        kind[i] = kept(f, row.kind);
        alloc_ns[i] = row.alloc_ns;
        free_ns[i] = row.free_ns;
        alloc_step[i] = small(row.alloc_step);
        free_step[i] = small(row.free_step);
        thread[i] = small(row.thread);
        region[i] = kept(f, row.region);
        module[i] = kept(f, row.module);
        role[i] = kept(f, row.role);
        label[i] = kept(f, row.label);
        pool[i] = copied(f, row.torch_pool);
        requested[i] = row.requested;
        stream[i] = row.stream;
    }
    mp_block_rows_free(&rows);
    free(track_names);
}

/* The blocks of each track that live after moments[track] events, with their bytes then; MP_NONE: none of the track. */
static void fill_live(struct filling *f, const uint32_t *moments)
{
    MP_VEC(struct mp_live_block) all = {0};
    for (size_t i = 0; i < f->model->tracks.count; i++) {
        struct mp_live_blocks live = {0};
        if (moments[i] == MP_NONE) continue;
        mp_live_blocks_at(f->model, (uint16_t)i, moments[i], NULL, &live);
        mp_vec_add_all(&all, live.at, live.count);
        mp_live_blocks_free(&live);
    }
    f->table->shown.rows = all.count;
    uint32_t *track_id = add_u32(f, "track_id"), *block = add_u32(f, "block_id"), *stack = add_u32(f, "stack_id");
    uint64_t *bytes = add_u64(f, "bytes");
    for (size_t i = 0; i < all.count; i++) {
        block[i] = all.at[i].block;
        track_id[i] = f->model->blocks.track[block[i]];
        stack[i] = f->model->blocks.stack[block[i]];
        bytes[i] = all.at[i].bytes;
    }
    mp_vec_free(&all);
}

static void fill_peak_blocks(struct filling *f)
{
    uint32_t *moments = mp_alloc_zeroed(f->model->tracks.count + 1, sizeof *moments);
    for (size_t i = 0; i < f->model->tracks.count; i++) {
        const struct mp_model_track_sum *sum = &f->model->sums.at[i];
        moments[i] = sum->peak_in_past ? MP_NONE : sum->peak_event == MP_NONE ? 0 : sum->peak_event + 1;
    }
    fill_live(f, moments);
    free(moments);
}

static void fill_outstanding_blocks(struct filling *f)
{
    uint32_t *moments = mp_alloc_zeroed(f->model->tracks.count + 1, sizeof *moments);
    for (size_t i = 0; i < f->model->tracks.count; i++)
        moments[i] = (uint32_t)f->model->events.count;
    fill_live(f, moments);
    free(moments);
}

static void fill_events(struct filling *f)
{
    const struct mp_model *model = f->model;
    const struct mp_model_events *events = &model->events;
    f->table->shown.rows = events->count;
    share(f, "time_ns", MEMPROF_U64, events->time_ns);
    uint32_t *type = add_text(f, "type"), *track = add_u32(f, "track_id"), *thread = add_u32(f, "thread");
    uint32_t *block = add_u32(f, "block_id"), *stack = add_u32(f, "stack_id"), *name = add_text(f, "name");
    int64_t *delta = add(f, "delta_bytes", MEMPROF_I64);
    uint64_t *bytes = add_u64(f, "bytes");
    for (uint32_t i = 0; i < events->count; i++) {
        unsigned sort = events->type[i];
        bool about_block = sort == MP_EVENT_ALLOC || sort == MP_EVENT_FREE || sort == MP_EVENT_RESIZE;
        bool about_bytes = sort == MP_EVENT_OOM || sort == MP_EVENT_RESERVED;
        const struct mp_model_note *note = about_block ? NULL : &model->notes.at[events->subject[i]];
        struct mp_level level = {0};
        if (about_block) mp_level_apply(&level, model, events->track[i], i);
        type[i] = kept(f, mp_event_type_name(sort));
        track[i] = about_block || about_bytes ? events->track[i] : UINT32_MAX;
        thread[i] = tid_of(model, events->thread[i]);
        block[i] = about_block ? events->subject[i] : UINT32_MAX;
        stack[i] = note && note->stack ? note->stack : UINT32_MAX;
        name[i] = note ? kept(f, mp_model_text(model, note->name)) : 0;
        delta[i] = (int64_t)level.bytes;
        bytes[i] = about_bytes ? note->bytes : UINT64_MAX;
    }
}

static void fill_steps(struct filling *f)
{
    struct mp_steps steps;
    mp_steps_find(f->model, &steps);
    f->table->shown.rows = steps.count;
    uint32_t *number = add_u32(f, "step"), *name = add_text(f, "name");
    uint64_t *start = add_u64(f, "start_ns"), *end = add_u64(f, "end_ns");
    uint32_t *first = add_u32(f, "first_event"), *past = add_u32(f, "end_event");
    for (uint32_t i = 0; i < steps.count; i++) {
        const struct mp_step *step = &steps.at[i];
        number[i] = steps.before + i + 1;
        name[i] = kept(f, mp_model_text(f->model, step->name));
        start[i] = step->start_ns;
        end[i] = step->end_ns;
        first[i] = step->first;
        past[i] = step->end;
    }
    mp_steps_free(&steps);
}

static void fill_regions(struct filling *f)
{
    const struct mp_model *model = f->model;
    struct mp_regions regions;
    mp_regions_find(model, &regions);
    f->table->shown.rows = regions.count;
    uint32_t *name = add_text(f, "name"), *thread = add_u32(f, "thread");
    uint64_t *start = add_u64(f, "start_ns"), *end = add_u64(f, "end_ns");
    mp_vec_each (const struct mp_region, region, &regions) {
        *name++ = kept(f, mp_model_text(model, region->begun.name));
        *thread++ = tid_of(model, region->begun.thread);
        *start++ = model->events.time_ns[region->begun.first];
        *end++ = region->end_ns;
    }
    mp_vec_free(&regions);
}

static void fill_resizes(struct filling *f)
{
    f->table->shown.rows = f->model->resizes.count;
    uint32_t *block = add_u32(f, "block_id"), *event = add_u32(f, "event_id");
    uint64_t *bytes = add_u64(f, "bytes");
    mp_vec_each (const struct mp_model_resize, resize, &f->model->resizes) {
        *block++ = resize->block;
        *event++ = resize->event;
        *bytes++ = resize->bytes;
    }
}

static void fill_labels(struct filling *f)
{
    f->table->shown.rows = f->model->labels.count;
    uint32_t *block = add_u32(f, "block_id"), *event = add_u32(f, "event_id");
    uint32_t *role = add_text(f, "role"), *name = add_text(f, "label");
    mp_vec_each (const struct mp_model_label, label, &f->model->labels) {
        *block++ = label->block;
        *event++ = label->event;
        *role++ = kept(f, mp_role_name(label->role));
        *name++ = kept(f, mp_model_text(f->model, label->name));
    }
}

static void fill_holders(struct filling *f)
{
    const struct mp_model *model = f->model;
    f->table->shown.rows = model->holders.count;
    uint32_t *block = add_u32(f, "block_id"), *path = add_text(f, "path"), *kind = add_text(f, "kind");
    uint32_t *file = add_text(f, "file"), *line = add_u32(f, "line");
    uint8_t *certain = add(f, "certain", MEMPROF_U8);
    uint64_t *ns = add_u64(f, "look_ns");
    mp_vec_each (const struct mp_model_holder, holder, &model->holders) {
        *block++ = holder->block;
        *path++ = kept(f, mp_model_text(model, holder->path));
        *kind++ = kept(f, mp_holder_kind_name(holder->kind));
        *file++ = kept(f, mp_model_text(model, holder->file));
        *line++ = holder->line ? holder->line : UINT32_MAX;
        *certain++ = holder->certain;
        *ns++ = holder->look < model->looks.count ? model->looks.at[holder->look].time_ns : UINT64_MAX;
    }
}

static void fill_samples(struct filling *f)
{
    f->table->shown.rows = f->model->samples.count;
    uint32_t *counter = add_text(f, "counter");
    uint64_t *ns = add_u64(f, "time_ns"), *bytes = add_u64(f, "bytes");
    mp_vec_each (const struct mp_sample, sample, &f->model->samples) {
        *counter++ = kept(f, mp_model_text(f->model, sample->counter));
        *ns++ = sample->time_ns;
        *bytes++ = sample->value;
    }
}

static const struct {
    const char *name;
    void (*fill)(struct filling *);
} tables[] = {
    {.name = "recording", .fill = fill_recording},
    {.name = "notes", .fill = fill_notes},
    {.name = "devices", .fill = fill_devices},
    {.name = "tracks", .fill = fill_tracks},
    {.name = "threads", .fill = fill_threads},
    {.name = "blocks", .fill = fill_blocks},
    {.name = "peak_blocks", .fill = fill_peak_blocks},
    {.name = "outstanding_blocks", .fill = fill_outstanding_blocks},
    {.name = "stacks", .fill = fill_stacks},
    {.name = "events", .fill = fill_events},
    {.name = "steps", .fill = fill_steps},
    {.name = "regions", .fill = fill_regions},
    {.name = "resizes", .fill = fill_resizes},
    {.name = "labels", .fill = fill_labels},
    {.name = "holders", .fill = fill_holders},
    {.name = "samples", .fill = fill_samples},
};
#define TABLES (sizeof tables / sizeof *tables)
_Static_assert(TABLES <= MP_READ_TABLES, "room for all tables");

const char *const *memprof_read_tables(void)
{
    static const char *names[TABLES + 1];
    for (size_t i = 0; i < TABLES; i++)
        names[i] = tables[i].name;
    return names;
}

struct request {
    struct memprof_recording *recording;
    size_t number;
    struct mp_read_table table;
};

static void fill_it(void *context)
{
    struct request *request = context;
    struct filling filling = {
        .recording = request->recording, .model = request->recording->model, .table = &request->table};
    tables[request->number].fill(&filling);
}

/* With the lock. */
static const struct memprof_table *table_at(struct memprof_recording *recording, size_t number, char *why)
{
    struct mp_read_table *table = &recording->tables[number];
    if (table->shown.name) return &table->shown;
    struct request *request = calloc(1, sizeof *request);
    if (request) *request = (struct request){.recording = recording, .number = number};
    bool filled = request && mp_memory_try(fill_it, request);
    if (filled) {
        *table = request->table;
        table->shown.columns = table->columns;
        table->shown.name = tables[number].name;
    } else if (why) {
        snprintf(why, MEMPROF_READ_ERROR_MAX, "not enough memory for the table");
    }
    free(request);
    return filled ? &table->shown : NULL;
}

const struct memprof_table *memprof_read_table(struct memprof_recording *recording, const char *name, char *why)
{
    for (size_t i = 0; i < TABLES; i++) {
        if (strcmp(tables[i].name, name) != 0) continue;
        pthread_mutex_lock(&recording->lock);
        const struct memprof_table *table = table_at(recording, i, why);
        pthread_mutex_unlock(&recording->lock);
        return table;
    }
    if (why)
        snprintf(why, MEMPROF_READ_ERROR_MAX, "a recording has no table %.80s; memprof_read_tables() lists them", name);
    return NULL;
}

const struct memprof_column *memprof_read_column(const struct memprof_table *table, const char *name)
{
    for (size_t i = 0; i < table->column_count; i++)
        if (!strcmp(table->columns[i].name, name)) return &table->columns[i];
    return NULL;
}
