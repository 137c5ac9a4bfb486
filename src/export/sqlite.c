#include "export/sqlite.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/sites/level.h"
#include "analysis/sites/peak.h"
#include "base/map.h"
#include "base/memory.h"
#include "model/module_path.h"
#include "model/stack.h"
#include "model/track.h"

/* The statement that makes the tables. */
static const char sqlite_tables[] =
    "PRAGMA user_version = 1;\n"
    "CREATE TABLE recording ( -- one row\n"
    "  schema TEXT,           -- 'memprof.sqlite/1'\n"
    "  command TEXT, host TEXT, pid INTEGER,\n"
    "  start_unix_ns INTEGER, -- times in all other columns count from here\n"
    "  duration_ns INTEGER,\n"
    "  from_ns INTEGER, to_ns INTEGER,           -- the part that is in here\n"
    "  first_event INTEGER, end_event INTEGER,   -- events [first_event, end_event)\n"
    "  filter TEXT,           -- NULL: every block is in here\n"
    "  complete INTEGER,      -- 0: events were lost or a limit was set; see notes\n"
    "  dropped INTEGER,\n"
    "  rank INTEGER, local_rank INTEGER, world_size INTEGER, node INTEGER, parent INTEGER, -- of its job, where known\n"
    "  role TEXT, job TEXT);\n"
    "CREATE TABLE notes (text TEXT); -- what the recording could not see\n"
    "CREATE TABLE tracks (\n"
    "  id INTEGER PRIMARY KEY,\n"
    "  name TEXT,             -- 'cuda:0/torch'\n"
    "  device TEXT, layer TEXT, pool TEXT,\n"
    "  size_basis TEXT,       -- requested, block, exact\n"
    "  start_bytes INTEGER,   -- live where this part begins\n"
    "  peak_bytes INTEGER, peak_ns INTEGER, -- of this part, whatever the filter\n"
    "  peak_event INTEGER,    -- the peak is reached after this event; first_event - 1: at the beginning\n"
    "  end_bytes INTEGER,     -- live where this part ends\n"
    "  reserved_peak_bytes INTEGER, -- of the whole recording\n"
    "  device_total_bytes INTEGER);\n"
    "CREATE TABLE threads (tid INTEGER, name TEXT);\n"
    "CREATE TABLE stacks (\n"
    "  id INTEGER PRIMARY KEY,\n"
    "  site TEXT,             -- the frame that tells most\n"
    "  function TEXT, file TEXT, line INTEGER, -- of that frame\n"
    "  folded TEXT);          -- all frames, outermost first, ';' between them\n"
    "CREATE TABLE frames (\n"
    "  id INTEGER PRIMARY KEY,\n"
    "  function TEXT, file TEXT, line INTEGER,\n"
    "  module TEXT,           -- path of the shared object\n"
    "  address INTEGER,       -- in the module\n"
    "  language TEXT);        -- native, python, backward (no call: see docs/FORMAT.md)\n"
    "CREATE TABLE stack_frames (stack_id INTEGER, position INTEGER, -- 0: innermost\n"
    "  frame_id INTEGER, PRIMARY KEY (stack_id, position)) WITHOUT ROWID;\n"
    "CREATE TABLE blocks (     -- one row an allocation's life\n"
    "  id INTEGER PRIMARY KEY,\n"
    "  track_id INTEGER, kind TEXT, address INTEGER,\n"
    "  bytes INTEGER,         -- when it was allocated; NULL: not known\n"
    "  stack_id INTEGER, thread INTEGER, -- a tid\n"
    "  alloc_event INTEGER, alloc_ns INTEGER, alloc_step INTEGER, -- event NULL: live before the recording\n"
    "  free_event INTEGER, free_ns INTEGER, free_step INTEGER,    -- NULL: live at its end\n"
    "  region TEXT,           -- the innermost one in which it was allocated\n"
    "  module TEXT,           -- the path of the network's module that ran then\n"
    "  role TEXT,             -- what the program said last that it holds: parameter, gradient, optimizer_state, ...\n"
    "  label TEXT,            -- and that tensor's name\n"
    "  requested_bytes INTEGER, -- asked of PyTorch's allocator; with stream and pool as far as its history tells\n"
    "  stream INTEGER, pool TEXT, -- pool: PyTorch's pair of numbers; 0,0 is the default one\n"
    "  shape TEXT,            -- 'float32 [8, 128]', with the operators' log\n"
    "  operator TEXT, node TEXT, -- what allocated it, and the node of backward that ran that\n"
    "  phase TEXT,            -- then: forward, recompute, backward, optimizer\n"
    "  saved_for TEXT);       -- the node of backward that reads it, if backward did not make it\n"
    "CREATE TABLE uses (block_id INTEGER, time_ns INTEGER, operator TEXT, node TEXT, shape TEXT, -- operator's end\n"
    "  how TEXT,              -- letters: r read, w written, o result, v view, m made\n"
    "  module TEXT, phase TEXT); -- of the operator\n"
    "CREATE TABLE labels (block_id INTEGER, event_id INTEGER, -- after that event; NULL: from the start\n"
    "  role TEXT, label TEXT);\n"
    "CREATE TABLE resizes (block_id INTEGER, event_id INTEGER, bytes INTEGER, -- from that event on\n"
    "  PRIMARY KEY (block_id, event_id)) WITHOUT ROWID;\n"
    "CREATE TABLE events (     -- in order\n"
    "  id INTEGER PRIMARY KEY,\n"
    "  time_ns INTEGER,\n"
    "  step INTEGER,          -- NULL: before the first\n"
    "  type TEXT,             -- alloc, free, resize, oom, step, region_begin, region_end, mark, reserved, start, "
    "stop\n"
    "  track_id INTEGER, thread INTEGER, block_id INTEGER,\n"
    "  delta_bytes INTEGER,   -- of live bytes: alloc, free, resize\n"
    "  bytes INTEGER,         -- oom: asked for; reserved: held from now on\n"
    "  stack_id INTEGER,      -- oom, mark\n"
    "  name TEXT);            -- step, region, mark; oom: the module's\n"
    "CREATE TABLE steps (step INTEGER PRIMARY KEY, name TEXT, start_ns INTEGER, end_ns INTEGER,\n"
    "  first_event INTEGER, end_event INTEGER); -- events [first_event, end_event)\n"
    "CREATE TABLE regions (name TEXT, thread INTEGER, start_ns INTEGER, end_ns INTEGER);\n"
    "CREATE TABLE samples (counter TEXT, time_ns INTEGER, bytes INTEGER); -- cpu/resident, cuda:0/device, ...\n";

#define SITES(view, from, bytes)                                                                                       \
    "CREATE VIEW " view " AS SELECT t.name AS track, SUM(" bytes ") AS bytes, COUNT(*) AS blocks, s.site, b.stack_id," \
    " s.folded FROM " from " b JOIN tracks t ON t.id = b.track_id LEFT JOIN stacks s ON s.id = b.stack_id"             \
    " GROUP BY b.track_id, b.stack_id ORDER BY bytes DESC;\n"

/* Makes indexes and views once the tables are filled. */
static const char sqlite_indexes[] =
    "CREATE INDEX blocks_by_stack ON blocks(stack_id);\n"
    "CREATE INDEX blocks_by_track ON blocks(track_id, alloc_event);\n"
    "CREATE INDEX blocks_by_step ON blocks(alloc_step);\n"
    "CREATE INDEX blocks_by_bytes ON blocks(bytes);\n"
    "CREATE INDEX uses_by_block ON uses(block_id, time_ns);\n"
    "CREATE INDEX events_by_block ON events(block_id);\n"
    "CREATE INDEX events_by_time ON events(time_ns);\n"
    "CREATE INDEX stack_frames_by_frame ON stack_frames(frame_id);\n"
    "CREATE INDEX frames_by_function ON frames(function);\n"
    "CREATE INDEX samples_by_counter ON samples(counter, time_ns);\n"
    /* The blocks that were live when their track was at its peak, with their size at that time. */
    "CREATE VIEW peak_blocks AS SELECT b.*, COALESCE((SELECT r.bytes FROM resizes r WHERE r.block_id = b.id"
    " AND r.event_id <= t.peak_event ORDER BY r.event_id DESC LIMIT 1), b.bytes) AS bytes_then"
    " FROM blocks b JOIN tracks t ON t.id = b.track_id"
    " WHERE (b.alloc_event IS NULL OR b.alloc_event <= t.peak_event)"
    " AND (b.free_event IS NULL OR b.free_event > t.peak_event);\n"
    /* The blocks that are live at the end (of the exported part). */
    "CREATE VIEW outstanding_blocks AS SELECT b.*, COALESCE((SELECT r.bytes FROM resizes r WHERE r.block_id = b.id"
    " AND r.event_id < e.end_event ORDER BY r.event_id DESC LIMIT 1), b.bytes) AS bytes_then"
    " FROM blocks b, recording e WHERE b.free_event IS NULL OR b.free_event >= e.end_event;\n"
    /* The blocks allocated in this part, freed or not. */
    "CREATE VIEW allocated_blocks AS SELECT b.* FROM blocks b, recording e WHERE b.alloc_event >= e.first_event;\n"
    /* Sites by their memory at the peak, at the end, and allocated in all. */
    SITES("peak_sites", "peak_blocks", "b.bytes_then") SITES("outstanding_sites", "outstanding_blocks", "b.bytes_then")
        SITES("allocated_sites", "allocated_blocks", "b.bytes")
    /* Live bytes of each track after each event; correct only without a filter. */
    "CREATE VIEW levels AS SELECT t.name AS track, e.id AS event_id, e.time_ns, e.step,"
    " t.start_bytes + SUM(e.delta_bytes) OVER (PARTITION BY e.track_id ORDER BY e.id) AS bytes"
    " FROM events e JOIN tracks t ON t.id = e.track_id WHERE e.delta_bytes IS NOT NULL;\n"
    /* The highest level within each step, among its own events. */
    "CREATE VIEW step_peaks AS SELECT step, track, MAX(bytes) AS peak_bytes FROM levels WHERE step IS NOT NULL"
    " GROUP BY step, track;\n"
    /* Bytes and blocks allocated in each region by name. */
    "CREATE VIEW region_sums AS SELECT region, COUNT(*) AS blocks, SUM(bytes) AS allocated_bytes FROM allocated_blocks"
    " GROUP BY region ORDER BY allocated_bytes DESC;\n";

enum table {
    RECORDING,
    NOTES,
    TRACKS,
    THREADS,
    STACKS,
    FRAMES,
    STACK_FRAMES,
    BLOCKS,
    LABELS,
    RESIZES,
    USES,
    EVENTS,
    STEPS,
    REGIONS,
    SAMPLES,
    TABLES
};

static const struct {
    const char *name;
    unsigned columns;
} tables[TABLES] = {
    [RECORDING] = {"recording", 20},
    [NOTES] = {"notes", 1},
    [TRACKS] = {"tracks", 13},
    [THREADS] = {"threads", 2},
    [STACKS] = {"stacks", 6},
    [FRAMES] = {"frames", 7},
    [STACK_FRAMES] = {"stack_frames", 3},
    [BLOCKS] = {"blocks", 25},
    [LABELS] = {"labels", 4},
    [RESIZES] = {"resizes", 3},
    [USES] = {"uses", 8},
    [EVENTS] = {"events", 11},
    [STEPS] = {"steps", 6},
    [REGIONS] = {"regions", 4},
    [SAMPLES] = {"samples", 3},
};

struct database {
    const struct mp_block_rows *rows;
    const struct mp_model *model;
    sqlite3 *sqlite;
    sqlite3_stmt *inserts[TABLES];
    struct mp_intern
        frame_keys;         /* function, file, line, module and address of each row of `frames`, under the row's id */
    unsigned char *written; /* by stack */
    struct mp_stack_lines lines;
    struct mp_buffer text;
    int failed; /* SQLite's first error */
};

static void check(struct database *db, int result)
{
    if (result != SQLITE_OK && result != SQLITE_DONE && !db->failed) db->failed = result;
}

/* Inserts one row. The form has a letter for each column: t a text or NULL, n a number (uint64_t, UINT64_MAX: NULL), i
 * a number that may be negative (int64_t). */
static void insert(struct database *db, enum table table, const char *form, ...)
{
    sqlite3_stmt *statement = db->inserts[table];
    va_list values;
    if (db->failed) return;
    va_start(values, form);
    for (int column = 1; form[column - 1]; column++) {
        if (form[column - 1] == 't') {
            const char *text = va_arg(values, const char *);
            mp_buffer_clear(&db->text);
            if (text) mp_buffer_append_utf8(&db->text, text, strlen(text));
            check(db,
                  sqlite3_bind_text(statement, column, text ? mp_buffer_text(&db->text) : NULL, -1, SQLITE_TRANSIENT));
        } else if (form[column - 1] == 'i') {
            check(db, sqlite3_bind_int64(statement, column, va_arg(values, int64_t)));
        } else {
            uint64_t number = va_arg(values, uint64_t);
            check(db, number == UINT64_MAX ? sqlite3_bind_null(statement, column)
                                           : sqlite3_bind_int64(statement, column, (sqlite3_int64)number));
        }
    }
    va_end(values);
    check(db, sqlite3_step(statement));
    sqlite3_reset(statement);
}

static uint64_t or_null(uint32_t id)
{
    return id == MP_NONE || !id ? UINT64_MAX : id;
}

static uint64_t event_or_null(uint32_t event)
{
    return event == MP_NONE ? UINT64_MAX : event;
}

static void put_recording(struct database *db, const char *filter)
{
    const struct mp_model *model = db->model;
    const struct mp_window *window = db->rows->window;
    struct mp_buffer command = {0};
    mp_model_command(model, &command);
    bool whole = !mp_model_incomplete(model) && !mp_model_limited(model);
    const struct mp_member *member = &model->start.member;
    insert(db, RECORDING, "tttnnnnnnntnnnnnnntt", "memprof.sqlite/1", mp_buffer_text(&command),
           *model->start.host ? model->start.host : NULL, (uint64_t)model->start.pid,
           model->start.realtime_ns ? model->start.realtime_ns : UINT64_MAX, model->duration_ns, window->from_ns,
           window->to_ns, (uint64_t)window->first, (uint64_t)window->last, filter, (uint64_t)whole,
           model->coverage.dropped, mp_member_number(member, MP_MEMBER_RANK),
           mp_member_number(member, MP_MEMBER_LOCAL_RANK), mp_member_number(member, MP_MEMBER_WORLD_SIZE),
           mp_member_number(member, MP_MEMBER_NODE), mp_member_number(member, MP_MEMBER_PARENT),
           *member->role ? member->role : NULL, *member->job ? member->job : NULL);
    mp_buffer_free(&command);
    for (uint32_t i = 0; i < model->coverage.note_count; i++)
        insert(db, NOTES, "t", mp_model_text(model, model->coverage.notes[i]));
    for (uint32_t i = 0; i < model->coverage.limit_count; i++)
        insert(db, NOTES, "t", mp_model_text(model, model->coverage.limits[i]));
}

static void put_track(struct database *db, uint16_t at)
{
    const struct mp_model *model = db->model;
    const struct mp_window *window = db->rows->window;
    const struct mp_track *track = &model->tracks.at[at];
    char id[MP_TRACK_ID_MAX];
    struct mp_peak peak;
    mp_peak_locate(model, at, window, false, &peak);
    struct mp_level level = mp_level_start(model, at);
    for (uint32_t event = 0; event < window->first; event++)
        mp_level_apply(&level, model, at, event);
    uint64_t start = level.bytes;
    for (uint32_t event = window->first; event < window->last; event++)
        mp_level_apply(&level, model, at, event);
    uint64_t total = track->device < model->devices.count ? model->devices.at[track->device].total_bytes : UINT64_MAX;
    insert(db, TRACKS, "ntttttnnninnn", (uint64_t)at, mp_track_id(model, at, id), mp_track_device(model, at),
           mp_layer_name(track->layer), track->name ? mp_model_text(model, track->name) : NULL,
           mp_size_basis_name(track->size_basis), start, peak.bytes, peak.ns, (int64_t)peak.moment - 1, level.bytes,
           model->sums.at[at].reserved_peak_bytes, total);
}

static uint32_t put_frame(struct database *db, const struct mp_stack_line *line)
{
    struct mp_buffer key = {0};
    mp_buffer_printf(&key, "%s%c%s%c%s%c%u %llx %u", line->function ? line->function : "", 0,
                     line->file ? line->file : "", 0, line->module ? line->module : "", 0, line->line,
                     (unsigned long long)(line->function ? 0 : line->address), line->cut);
    uint32_t before = db->frame_keys.count;
    uint32_t id = mp_intern_add(&db->frame_keys, (const char *)key.data, key.size);
    mp_buffer_free(&key);
    if (id < before) return id;
    insert(db, FRAMES, "nttntnt", (uint64_t)id, line->cut ? "[frames left out]" : line->function, line->file,
           line->line ? (uint64_t)line->line : UINT64_MAX, line->module,
           line->function || !line->address ? UINT64_MAX : line->address, mp_language_name(line->language));
    return id;
}

static void put_stack(struct database *db, uint32_t stack)
{
    if (!stack || db->written[stack] || db->failed) return;
    db->written[stack] = 1;
    struct mp_buffer site = {0}, folded = {0};
    mp_stack_resolve(db->model, stack, &db->lines);
    mp_frame_headline(&site, &db->lines);
    mp_frame_fold(&folded, &db->lines);
    const struct mp_stack_line *line = mp_stack_headline(&db->lines);
    insert(db, STACKS, "ntttnt", (uint64_t)stack, site.size ? mp_buffer_text(&site) : NULL,
           line ? line->function : NULL, line ? line->file : NULL,
           line && line->line ? (uint64_t)line->line : UINT64_MAX, mp_buffer_text(&folded));
    for (size_t i = 0; i < db->lines.count; i++)
        insert(db, STACK_FRAMES, "nnn", (uint64_t)stack, (uint64_t)i, (uint64_t)put_frame(db, &db->lines.at[i]));
    mp_buffer_free(&site);
    mp_buffer_free(&folded);
}

static void put_blocks(struct database *db)
{
    const struct mp_model_blocks *blocks = &db->model->blocks;
    for (struct mp_row row = {0}; mp_block_rows_next(db->rows, &row) && !db->failed; row.block++) {
        put_stack(db, row.stack);
        insert(db, BLOCKS, "nntnnnnnnnnnnttttnntttttt", (uint64_t)row.block, (uint64_t)blocks->track[row.block],
               row.kind, blocks->address[row.block], row.bytes, or_null(row.stack), row.thread,
               event_or_null(blocks->alloc_event[row.block]), row.alloc_ns, row.alloc_step,
               event_or_null(blocks->free_event[row.block]), row.free_ns, row.free_step, row.region, row.module,
               row.role, row.label, row.requested, row.stream, *row.torch_pool ? row.torch_pool : NULL, row.shape,
               row.made_by, row.node, row.phase, row.saved_for);
    }
    mp_vec_each (const struct mp_model_resize, resize, &db->model->resizes) {
        if (mp_block_rows_pick(db->rows, resize->block))
            insert(db, RESIZES, "nnn", (uint64_t)resize->block, (uint64_t)resize->event, resize->bytes);
    }
}

static const char *text_or_null(const struct database *db, uint32_t string)
{
    return string ? mp_model_text(db->model, string) : NULL;
}

static void put_uses(struct database *db)
{
    mp_vec_each (const struct mp_model_use, use, &db->model->uses) {
        char how[6] = "";
        for (unsigned i = 0; i < 5; i++)
            if (use->how >> i & 1) strncat(how, &"r\0w\0o\0v\0m"[2 * i], 1);
        if (mp_block_rows_pick(db->rows, use->block))
            insert(db, USES, "nntttttt", (uint64_t)use->block, use->time_ns, mp_model_text(db->model, use->operator),
                   text_or_null(db, use->node), text_or_null(db, use->shape), how,
                   use->module ? mp_module_path(db->model, db->rows->root, use->module) : NULL,
                   mp_phase_name(mp_phase_of_use(&db->rows->phases, db->model, use)));
    }
}

static void put_labels(struct database *db)
{
    mp_vec_each (const struct mp_model_label, label, &db->model->labels) {
        if (mp_block_rows_pick(db->rows, label->block))
            insert(db, LABELS, "nntt", (uint64_t)label->block, event_or_null(label->event), mp_role_name(label->role),
                   label->name ? mp_model_text(db->model, label->name) : NULL);
    }
}

static uint64_t tid_of(const struct mp_model *model, uint32_t thread)
{
    return thread < model->threads.count ? model->threads.at[thread].tid : UINT64_MAX;
}

/* The bytes that an event about a block adds to its track's live bytes. */
static int64_t delta_of(const struct mp_model *model, uint32_t event)
{
    struct mp_level level = {0};
    mp_level_apply(&level, model, model->events.track[event], event);
    return (int64_t)level.bytes;
}

static void put_event(struct database *db, uint32_t event)
{
    const struct mp_model *model = db->model;
    const struct mp_model_events *events = &model->events;
    unsigned type = events->type[event];
    uint32_t subject = events->subject[event];
    uint64_t thread = tid_of(model, events->thread[event]), track = events->track[event];
    uint64_t step = or_null(mp_step_of(&db->rows->steps, event));
    if (type == MP_EVENT_ALLOC || type == MP_EVENT_FREE || type == MP_EVENT_RESIZE) {
        if (!mp_block_rows_pick(db->rows, subject)) return;
        insert(db, EVENTS, "nnntnnninnt", (uint64_t)event, events->time_ns[event], step, mp_event_type_name(type),
               track, thread, (uint64_t)subject, delta_of(model, event), UINT64_MAX, UINT64_MAX, NULL);
        return;
    }
    const struct mp_model_note *note = &model->notes.at[subject];
    bool about_bytes = type == MP_EVENT_OOM || type == MP_EVENT_RESERVED;
    put_stack(db, note->stack);
    insert(db, EVENTS, "nnntnnnnnnt", (uint64_t)event, events->time_ns[event], step, mp_event_type_name(type),
           about_bytes ? track : UINT64_MAX, thread, UINT64_MAX, UINT64_MAX, about_bytes ? note->bytes : UINT64_MAX,
           or_null(note->stack), note->name ? mp_model_text(model, note->name) : NULL);
}

static void put_spans(struct database *db)
{
    const struct mp_model *model = db->model;
    struct mp_regions regions;
    for (size_t i = 0; i < db->rows->steps.count; i++) {
        const struct mp_step *step = &db->rows->steps.at[i];
        insert(db, STEPS, "ntnnnn", db->rows->steps.before + (uint64_t)i + 1,
               step->name ? mp_model_text(model, step->name) : NULL, step->start_ns, step->end_ns,
               (uint64_t)step->first, (uint64_t)step->end);
    }
    mp_regions_find(model, &regions);
    mp_vec_each (const struct mp_region, region, &regions)
        insert(db, REGIONS, "tnnn", mp_model_text(model, region->begun.name), tid_of(model, region->begun.thread),
               model->events.time_ns[region->begun.first], region->end_ns);
    mp_vec_free(&regions);
}

static void put_all(struct database *db, const char *filter)
{
    const struct mp_model *model = db->model;
    const struct mp_window *window = db->rows->window;
    put_recording(db, filter);
    for (size_t i = 0; i < model->tracks.count; i++)
        put_track(db, (uint16_t)i);
    for (size_t i = 0; i < model->threads.count; i++)
        insert(db, THREADS, "nt", (uint64_t)model->threads.at[i].tid, mp_model_text(model, model->threads.at[i].name));
    put_blocks(db);
    put_labels(db);
    put_uses(db);
    for (uint32_t event = window->first; event < window->last && !db->failed; event++)
        put_event(db, event);
    put_spans(db);
    for (size_t i = 0; i < model->samples.count && !db->failed; i++) {
        const struct mp_sample *sample = &model->samples.at[i];
        if (sample->time_ns >= window->from_ns && sample->time_ns <= window->to_ns)
            insert(db, SAMPLES, "tnn", mp_model_text(model, sample->counter), sample->time_ns, sample->value);
    }
}

static void prepare(struct database *db)
{
    for (int i = 0; i < TABLES && !db->failed; i++) {
        char text[160];
        int length = snprintf(text, sizeof text, "INSERT INTO %s VALUES (?", tables[i].name);
        for (unsigned column = 1; column < tables[i].columns; column++)
            length += snprintf(text + length, sizeof text - (size_t)length, ",?");
        snprintf(text + length, sizeof text - (size_t)length, ")");
        check(db, sqlite3_prepare_v2(db->sqlite, text, -1, &db->inserts[i], NULL));
    }
}

static void execute(struct database *db, const char *statements)
{
    if (!db->failed) check(db, sqlite3_exec(db->sqlite, statements, NULL, NULL, NULL));
}

static void fill_tables(struct database *db, const char *filter)
{
    execute(db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; "
                "PRAGMA temp_store = MEMORY; BEGIN;");
    execute(db, sqlite_tables);
    prepare(db);
    if (!db->failed) put_all(db, filter);
    execute(db, sqlite_indexes);
    execute(db, "COMMIT;");
}

static enum mp_status finish_database(struct database *db, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    for (int i = 0; i < TABLES; i++)
        sqlite3_finalize(db->inserts[i]);
    if (db->failed) status = mp_fail(error, MP_IO, "cannot write the database: %s", sqlite3_errstr(db->failed));
    int closed = sqlite3_close(db->sqlite);
    if (!status && closed) status = mp_fail(error, MP_IO, "cannot write the database: %s", sqlite3_errstr(closed));
    mp_intern_free(&db->frame_keys);
    mp_stack_lines_free(&db->lines);
    mp_buffer_free(&db->text);
    free(db->written);
    return status;
}

enum mp_status mp_sqlite_export(const struct mp_block_rows *rows, const char *filter, FILE *out, struct mp_error *error)
{
    struct database db = {.rows = rows, .model = rows->model};
    struct stat facts;
    char path[64];
    if (fstat(fileno(out), &facts) || !S_ISREG(facts.st_mode))
        return mp_fail(error, MP_INVALID, "a database cannot be written into a pipe: name a file with -o");
    db.written = mp_alloc_zeroed(rows->model->stacks.count + 1, 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(out));
    check(&db, sqlite3_open_v2(path, &db.sqlite, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL));
    if (!db.failed) fill_tables(&db, filter);
    return finish_database(&db, error);
}
