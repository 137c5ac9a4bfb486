#include "output/page_data.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/varint.h"
#include "model/track.h"
#include "output/page_stacks.h"

/* Recordings with more events than this have their times in microseconds: nanoseconds would be most of the page, and
 * the order of events stands without them. */
#define EXACT_TIMES     100000
#define COARSE_NS       1000
#define ADDRESS_LIMIT   (UINT64_C(1) << 53) /* what a number in the page can hold */
#define COLUMNS_A_TRACK 11
#define NOTE_COLUMNS    7
#define STACK_COLUMNS   13

enum page_op { OP_ALLOC = 0, OP_FREE = 1 };

/* The same value again and again, as pairs of value and length. */
struct runs {
    struct mp_buffer to;
    uint64_t value, length, count;
};

struct track_columns {
    struct mp_page_track count;
    uint64_t frees, resizes, last_resized;
    uint64_t last_note; /* events when the latest note was met */
    uint64_t last_time; /* in units */
    uint64_t addresses, last_address;
    struct mp_map latest; /* shifted address + 1 to its latest block */
    struct mp_buffer op, free, time, size, site, reuse, address, resized, note;
    struct runs thread, kind;
};

/* Every event that is not about a block. */
struct note_columns {
    uint64_t count, last_time;
    struct mp_buffer type, time, thread, track, name, bytes, site;
};

struct maker {
    const struct mp_model *model;
    struct mp_page_data *data;
    struct mp_page_stacks stacks;
    struct mp_page_stack_columns tree;
    struct track_columns *tracks; /* one per track of the model */
    struct note_columns notes;
    uint32_t *local;     /* by block: its number on its track */
    struct mp_map sizes; /* bytes + 1 to its index in the dictionary */
    struct mp_buffer dictionary;
    bool failed;
};

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "not enough memory for the page's data");
}

static void runs_end(struct runs *runs)
{
    if (!runs->length) return;
    mp_varint_append(&runs->to, runs->value);
    mp_varint_append(&runs->to, runs->length);
    runs->count++;
    runs->length = 0;
}

static void runs_add(struct runs *runs, uint64_t value)
{
    if (value != runs->value) runs_end(runs);
    runs->value = value;
    runs->length++;
}

/* Index of a size in the dictionary; 0 stands for a size that is not known. */
static uint64_t size_index(struct maker *make, uint64_t bytes)
{
    if (bytes == MP_BYTES_UNKNOWN) return 0;
    bool added;
    uint64_t *index = mp_map_insert(&make->sizes, bytes + 1, &added);
    if (!index) {
        make->failed = true;
        return 0;
    }
    if (added) {
        *index = make->sizes.count;
        mp_varint_append(&make->dictionary, bytes);
    }
    return *index;
}

static uint64_t page_address(const struct mp_model *model, size_t block)
{
    uint64_t address = model->blocks.address[block];
    return address < ADDRESS_LIMIT ? address : 0;
}

/* The lowest bits that every address has clear need not travel. */
static unsigned common_shift(const struct mp_model *model)
{
    uint64_t bits = UINT64_C(1) << 16;
    for (size_t i = 0; i < model->blocks.count; i++)
        bits |= page_address(model, i);
    return (unsigned)__builtin_ctzll(bits);
}

/* Allocators use few addresses again and again: how many blocks ago this one was in use, or 0 and the address. */
static void add_address(struct maker *make, struct track_columns *track, uint64_t address)
{
    bool added;
    uint64_t *latest = mp_map_insert(&track->latest, address + 1, &added);
    if (!latest) {
        make->failed = true;
        return;
    }
    mp_varint_append(&track->reuse, added ? 0 : track->count.blocks - *latest);
    *latest = track->count.blocks;
    if (!added) return;
    mp_varint_append(&track->address, mp_zigzag((int64_t)(address - track->last_address)));
    track->last_address = address;
    track->addresses++;
}

/* Gives `block` (again, after a resize) a number on its track and writes what is known of it. */
static void add_block(struct maker *make, size_t block, uint64_t bytes, uint32_t thread)
{
    const struct mp_model_blocks *blocks = &make->model->blocks;
    struct track_columns *track = &make->tracks[blocks->track[block]];
    mp_varint_append(&track->size, size_index(make, bytes));
    mp_varint_append(&track->site, mp_page_stacks_site(&make->stacks, blocks->stack[block]));
    add_address(make, track, page_address(make->model, block) >> make->data->address_shift);
    runs_add(&track->thread, thread);
    runs_add(&track->kind, blocks->kind[block]);
    make->local[block] = (uint32_t)track->count.blocks++;
}

/* Time of an event in units, as the distance from the one before. */
static void add_time(struct mp_buffer *to, uint64_t *last, uint64_t time)
{
    if (time < *last) time = *last;
    mp_varint_append(to, time - *last);
    *last = time;
}

static void add_op(struct maker *make, struct track_columns *track, enum page_op op, uint64_t time_ns)
{
    unsigned char byte = (unsigned char)op;
    mp_buffer_append(&track->op, &byte, 1);
    add_time(&track->time, &track->last_time, time_ns / make->data->time_unit_ns);
    track->count.events++;
}

static void add_free(struct maker *make, struct track_columns *track, size_t block, uint64_t time_ns)
{
    add_op(make, track, OP_FREE, time_ns);
    mp_varint_append(&track->free, track->count.blocks - 1 - make->local[block]);
    track->frees++;
}

/* The page draws a block as a band of one height, so each size of a block is a block there; `resized` joins them. */
static void add_resize(struct maker *make, struct track_columns *track, size_t event, size_t block)
{
    const struct mp_model_events *events = &make->model->events;
    uint32_t before = make->local[block];
    add_free(make, track, block, events->time_ns[event]);
    add_op(make, track, OP_ALLOC, events->time_ns[event]);
    add_block(make, block, mp_model_bytes_at(make->model, (uint32_t)block, (uint32_t)event), events->thread[event]);
    mp_varint_append(&track->resized, make->local[block] - track->last_resized);
    mp_varint_append(&track->resized, make->local[block] - before);
    track->last_resized = make->local[block];
    track->resizes++;
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
    add_time(&to->time, &to->last_time, events->time_ns[event] / make->data->time_unit_ns);
    mp_varint_append(&to->thread, events->thread[event]);
    mp_varint_append(&to->track, events->track[event]);
    mp_varint_append(&to->name, mp_page_stacks_string(&make->stacks, note->name));
    mp_varint_append(&to->bytes, has_bytes && note->bytes != MP_BYTES_UNKNOWN ? note->bytes : 0);
    mp_varint_append(&to->site, has_stack ? mp_page_stacks_site(&make->stacks, note->stack) + UINT64_C(1) : 0);
    for (size_t i = 0; i < make->model->tracks.count; i++) {
        struct track_columns *at = &make->tracks[i];
        mp_varint_append(&at->note, at->count.events - at->last_note);
        at->last_note = at->count.events;
    }
    to->count++;
}

static void add_event(struct maker *make, size_t event)
{
    const struct mp_model *model = make->model;
    const struct mp_model_events *events = &model->events;
    uint8_t type = events->type[event];
    if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE && type != MP_EVENT_RESIZE) {
        add_note(make, event);
        return;
    }
    uint32_t block = events->subject[event];
    struct track_columns *track = &make->tracks[model->blocks.track[block]];
    if (type == MP_EVENT_FREE) {
        add_free(make, track, block, events->time_ns[event]);
    } else if (type == MP_EVENT_RESIZE) {
        add_resize(make, track, event, block);
    } else {
        add_op(make, track, OP_ALLOC, events->time_ns[event]);
        add_block(make, block, model->blocks.bytes[block], events->thread[event]);
    }
}

static void add_base(struct maker *make)
{
    const struct mp_model_blocks *blocks = &make->model->blocks;
    for (size_t i = 0; i < blocks->count; i++) {
        if (blocks->alloc_event[i] != MP_NONE) continue;
        add_block(make, i, blocks->bytes[i], 0);
        make->tracks[blocks->track[i]].count.base_blocks++;
    }
}

struct column_row {
    const char *name;
    struct mp_buffer *raw;
    uint64_t count;
};

/* Compresses the rows as the next columns; what is compressed is freed. */
static enum mp_status add_columns(struct mp_page_data *data, const char *prefix, const struct column_row *rows,
                                  size_t count, struct mp_error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct mp_page_column column = {.count = rows[i].count};
        snprintf(column.name, sizeof column.name, "%s.%s", prefix, rows[i].name);
        enum mp_status status = mp_pack(rows[i].raw, &column.packed, error);
        if (status) return status;
        mp_buffer_free(rows[i].raw);
        if (!mp_vec_push(&data->columns, column)) {
            mp_packed_free(&column.packed);
            return no_memory(error);
        }
    }
    return MP_OK;
}

static void track_rows(struct track_columns *track, uint64_t notes, struct column_row rows[COLUMNS_A_TRACK])
{
    uint64_t events = track->count.events, blocks = track->count.blocks;
    const struct column_row made[COLUMNS_A_TRACK] = {
        {"op", &track->op, events},
        {"free", &track->free, track->frees},
        {"time", &track->time, events},
        {"size", &track->size, blocks},
        {"site", &track->site, blocks},
        {"reuse", &track->reuse, blocks},
        {"address", &track->address, track->addresses},
        {"thread", &track->thread.to, track->thread.count},
        {"kind", &track->kind.to, track->kind.count},
        {"resized", &track->resized, track->resizes},
        {"note", &track->note, notes},
    };
    memcpy(rows, made, sizeof made);
}

static void note_rows(struct note_columns *notes, struct column_row rows[NOTE_COLUMNS])
{
    const struct column_row made[NOTE_COLUMNS] = {
        {"type", &notes->type, notes->count},     {"time", &notes->time, notes->count},
        {"thread", &notes->thread, notes->count}, {"track", &notes->track, notes->count},
        {"name", &notes->name, notes->count},     {"bytes", &notes->bytes, notes->count},
        {"site", &notes->site, notes->count},
    };
    memcpy(rows, made, sizeof made);
}

static void stack_rows(struct maker *make, struct column_row rows[STACK_COLUMNS])
{
    struct mp_page_stack_columns *tree = &make->tree;
    const struct column_row made[STACK_COLUMNS] = {
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
    struct column_row rows[STACK_COLUMNS];
    enum mp_status status = MP_OK;
    for (size_t i = 0; i < make->model->tracks.count && !status; i++) {
        struct track_columns *track = &make->tracks[i];
        char prefix[16];
        snprintf(prefix, sizeof prefix, "t%u", (unsigned)i);
        if (!mp_vec_push(&make->data->tracks, track->count)) return no_memory(error);
        runs_end(&track->thread);
        runs_end(&track->kind);
        track_rows(track, make->notes.count, rows);
        status = add_columns(make->data, prefix, rows, COLUMNS_A_TRACK, error);
    }
    note_rows(&make->notes, rows);
    if (!status) status = add_columns(make->data, "note", rows, NOTE_COLUMNS, error);
    stack_rows(make, rows);
    if (!status) status = add_columns(make->data, "stack", rows, STACK_COLUMNS, error);
    const struct column_row sizes = {"bytes", &make->dictionary, make->sizes.count};
    if (!status) status = add_columns(make->data, "size", &sizes, 1, error);
    return status;
}

static void free_rows(const struct column_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mp_buffer_free(rows[i].raw);
}

static void maker_free(struct maker *make)
{
    struct column_row rows[STACK_COLUMNS];
    for (size_t i = 0; make->tracks && i < make->model->tracks.count; i++) {
        track_rows(&make->tracks[i], 0, rows);
        free_rows(rows, COLUMNS_A_TRACK);
        mp_map_free(&make->tracks[i].latest);
    }
    note_rows(&make->notes, rows);
    free_rows(rows, NOTE_COLUMNS);
    stack_rows(make, rows);
    free_rows(rows, STACK_COLUMNS);
    mp_buffer_free(&make->dictionary);
    mp_map_free(&make->sizes);
    mp_page_stacks_free(&make->stacks);
    free(make->tracks);
    free(make->local);
}

static void note_growth_moment(struct maker *make)
{
    for (size_t i = 0; i < make->model->tracks.count; i++)
        make->tracks[i].count.growth_events = make->tracks[i].count.events;
}

/* As `memprof leaks` finds them, with the sites that the page knows them by. */
static enum mp_status find_leaks(struct maker *make, struct mp_error *error)
{
    const struct mp_model *model = make->model;
    struct mp_leaks_query query = {
        .track = MP_TRACK_NONE,
        .window = {.last = (uint32_t)model->events.count, .to_ns = model->duration_ns, .whole = true},
        .grouping = {.sort = MP_SORT_GROWTH},
    };
    enum mp_status status = mp_leaks_find(model, &query, &make->data->leaks, error);
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
    make->local = calloc(model->blocks.count + 1, sizeof *make->local);
    if (!make->tracks || !make->local) return no_memory(error);
    enum mp_status status = mp_page_stacks_init(&make->stacks, model, error);
    if (!status) status = find_leaks(make, error);
    if (status) return status;
    add_base(make);
    for (size_t i = 0; i < model->events.count; i++) {
        add_event(make, i);
        if (i + 1 == make->data->leaks.held_moment) note_growth_moment(make);
    }
    if (make->failed) return no_memory(error);
    status = mp_page_stacks_columns(&make->stacks, &make->tree, error);
    return status ? status : pack_all(make, error);
}

enum mp_status mp_page_data_make(const struct mp_model *model, struct mp_page_data *data, struct mp_error *error)
{
    *data = (struct mp_page_data){
        .time_unit_ns = model->events.count > EXACT_TIMES ? COARSE_NS : 1,
        .address_shift = common_shift(model),
    };
    struct maker make = {.model = model, .data = data};
    enum mp_status status = make_all(&make, error);
    maker_free(&make);
    if (status) mp_page_data_free(data);
    return status;
}

void mp_page_data_free(struct mp_page_data *data)
{
    for (size_t i = 0; i < data->columns.count; i++)
        mp_packed_free(&data->columns.at[i].packed);
    mp_vec_free(&data->columns);
    mp_vec_free(&data->tracks);
    mp_vec_free(&data->leak_sites);
    mp_leaks_free(&data->leaks);
}
