#include "collect/recording/recording_write.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/order.h"
#include "collect/recording/recording_bound.h"
#include "collect/recording/recording_devices.h"
#include "collect/recording/recording_history.h"
#include "model/state/state_write.h"

static enum mp_status recording_write_meanwhile(struct mp_recording *recording, struct mp_error *error);

/* True if two paths lead to the same file. *known: both paths exist. */
static bool are_one(const char *one, const char *other, bool *known)
{
    struct stat left, right;
    if (stat(one, &left) || stat(other, &right)) return *known = false;
    return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

bool mp_recording_look_at_root(struct mp_recording *recording)
{
    char mounts[sizeof recording->root];
    bool known = true;
    snprintf(mounts, sizeof mounts, "/proc/%u/ns/mnt", recording->pid);
    bool shares = are_one(recording->root, "/", &known) && are_one(mounts, "/proc/self/ns/mnt", &known);
    if (known) recording->shares_root = shares;
    return known;
}

/* True if the process maps a deleted file that was at `path`: then another file is at `path` now. *running: the process
 * still has mappings. */
static bool has_replaced(const struct mp_recording *recording, const char *path, bool *running)
{
    char maps[sizeof recording->root], *line = NULL, *deleted;
    size_t room = 0;
    bool found = false;
    snprintf(maps, sizeof maps, "/proc/%u/maps", recording->pid);
    FILE *file = fopen(maps, "re");
    *running = false;
    if (!file || asprintf(&deleted, "%s (deleted)\n", path) < 0) deleted = NULL;
    while (deleted && !found && getline(&line, &room, file) >= 0) {
        size_t length = strlen(line), wanted = strlen(deleted);
        *running = true;
        found = length > wanted && !strcmp(line + length - wanted, deleted);
    }
    free(deleted);
    free(line);
    if (file) fclose(file);
    return found;
}

/* The kernel takes the times of files from its last tick. So they may lag by this much. */
static uint64_t tick_ns(void)
{
    struct timespec tick;
    if (clock_getres(CLOCK_REALTIME_COARSE, &tick))
        return 10 * MP_NS_PER_MS; /* the lowest rate is 100 ticks a
                                   * second */
    return (uint64_t)tick.tv_sec * MP_NS_PER_SECOND + (uint64_t)tick.tv_nsec;
}

/* Identifies a file without a build-id. *known stays empty if the file may not be the loaded one: it was replaced, or
 * the program has ended and the file changed after the program's start. */
static void identify(const struct mp_recording *recording, const char *path, const char *full, struct mp_file_id *known)
{
    struct stat facts;
    bool running;
    if (stat(full, &facts) || has_replaced(recording, path, &running)) return;
    uint64_t changed_ns = (uint64_t)facts.st_ctim.tv_sec * MP_NS_PER_SECOND + (uint64_t)facts.st_ctim.tv_nsec;
    if (!running && (!recording->shares_root || changed_ns + tick_ns() > recording->spool.header->realtime_ns)) return;
    known->size = (uint64_t)facts.st_size;
    known->inode = facts.st_ino;
    known->mtime_ns = facts.st_mtim.tv_sec * INT64_C(1000000000) + facts.st_mtim.tv_nsec;
}

/* A mp_tables_module_seen: finds the file of a module for its symbols. If the process has our root, its path works for
 * us, too, even after the process has ended. */
static void recording_add_module(void *context, uint32_t id, const char *path, const struct mp_file_id *file)
{
    struct mp_recording *recording = context;
    if (!recording->symbols) return;
    bool can_be_asked = mp_recording_look_at_root(recording);
    struct mp_file_id known = *file;
    const char *root = recording->shares_root || !can_be_asked ? "" : recording->root;
    char full[4096];
    snprintf(full, sizeof full, "%s%s", root, path);
    if (!known.build_id_size) identify(recording, path, full, &known);
    struct mp_error ignored; /* on failure the module's addresses stay without names */
    (void)mp_symbols_add_module(recording->symbols, id, path, &known, root, &ignored);
}

/* A forked worker has its parent's command line, so only its stacks show its role. */
static const struct {
    const char *function, *file, *role;
} workers[] = {
    {"_bootstrap", "/multiprocessing/process.py", MP_ROLE_WORKER},
    {"worker", "/multiprocessing/pool.py", MP_ROLE_POOL_WORKER},
    {"_process_worker", "/concurrent/futures/process.py", MP_ROLE_POOL_WORKER},
    {"_worker_loop", "/torch/utils/data/_utils/worker.py", MP_ROLE_LOADER_WORKER},
};
#define WORKERS    (sizeof workers / sizeof *workers)
#define NODES_MOST (UINT64_C(1) << 16) /* only the first nodes are searched: a worker's functions run first */
#define DEPTH_MOST 4096

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && !strcmp(text + length - wanted, end);
}

static const char *spool_text(const struct mp_tables *tables, uint32_t spool_string)
{
    return mp_intern_get(&tables->strings, mp_tables_spool_string(tables, spool_string), NULL);
}

/* The index of the row in `workers` with the frame's function; WORKERS: none. */
static size_t row_of(const struct mp_tables *tables, const struct mp_wire_frame *frame)
{
    size_t row = 0;
    if (frame->language != MP_PYTHON) return WORKERS;
    const char *function = spool_text(tables, frame->function), *dot = strrchr(function, '.');
    if (dot) function = dot + 1; /* from 3.11 on a method's name begins with the class's name */
    while (row < WORKERS && strcmp(function, workers[row].function) != 0)
        row++;
    return row < WORKERS && ends_with(spool_text(tables, frame->file), workers[row].file) ? row : WORKERS;
}

/* True if an outer frame is that of multiprocessing's start of a process. Otherwise the functions may run in a thread
 * of a ThreadPool, which any process may have. */
static bool is_in_worker(const struct mp_tables *tables, const struct mp_wire_node *nodes, uint32_t node,
                         const struct mp_wire_frame *frames)
{
    for (unsigned depth = 0; node && node < tables->seen[MP_TABLE_NODES] && depth < DEPTH_MOST; depth++) {
        uint32_t frame = nodes[node].frame;
        if (frame < tables->seen[MP_TABLE_FRAMES] && row_of(tables, &frames[frame]) == 0) return true;
        node = nodes[node].parent;
    }
    return false;
}

/* Looks in the tables for functions that only a worker runs. If it finds the role, it writes it into the process's
 * membership in the spool's header. */
static void recording_find_role(struct mp_recording *recording)
{
    const struct mp_tables *tables = &recording->tables;
    struct mp_member *member = &recording->spool.header->member;
    const struct mp_wire_frame *frames = mp_spool_entries(recording->spool.header, MP_TABLE_FRAMES);
    const struct mp_wire_node *nodes = mp_spool_entries(recording->spool.header, MP_TABLE_NODES);
    size_t best = WORKERS;
    if (mp_member_same_rank(member, &recording->group)) return;
    /* The last matching row counts: a pool's worker also has the frame that every worker has. */
    for (uint64_t i = 1; i < tables->seen[MP_TABLE_NODES] && i < NODES_MOST; i++) {
        uint32_t frame = nodes[i].frame;
        if (frame >= tables->seen[MP_TABLE_FRAMES]) continue;
        size_t row = row_of(tables, &frames[frame]);
        if (row == WORKERS || (best < WORKERS && row <= best)) continue;
        if (!row || is_in_worker(tables, nodes, nodes[i].parent, frames)) best = row;
    }
    if (best < WORKERS) mp_member_text(member->role, workers[best].role, strlen(workers[best].role));
}

#define NOTES_WITH_MODULES 16 /* limit of notes about modules without a file, of which a program may have thousands */
#define BASE_FACTOR        4  /* a base comes after this number of events for each live block */

enum mp_status mp_recording_read_tables(struct mp_recording *recording, struct mp_error *error)
{
    return mp_tables_read(&recording->tables, recording->spool.header, recording_add_module, recording, error);
}

enum mp_status mp_recording_open_writer(const struct mp_recording *recording, int fd, const char *configuration,
                                        bool has_spool, struct mp_writer **writer, struct mp_error *error)
{
    const struct mp_spool_header *spool = recording->spool.header;
    const char *command[512] = {NULL};
    const char *at = spool->command, *end = spool->command + sizeof spool->command;
    for (size_t i = 0; i + 1 < sizeof command / sizeof *command && at < end && *at; i++) {
        command[i] = at;
        at += strnlen(at, (size_t)(end - at)) + 1;
    }
    struct mp_recording_start start = {.realtime_ns = spool->realtime_ns,
                                       .monotonic_ns = spool->monotonic_ns,
                                       .pid = recording->pid,
                                       .host = spool->host,
                                       .member = mp_member_copy(&spool->member),
                                       .command = command,
                                       .configuration = configuration,
                                       .spool = has_spool ? recording->spool.path : "",
                                       .spool_id = has_spool ? spool->spool_id : 0};
    return mp_writer_open(fd, &start, writer, error);
}

static enum mp_status open_file(struct mp_recording *recording, struct mp_error *error)
{
    int fd;
    enum mp_status status = mp_recording_read_tables(recording, error);
    if (status) return status;
    recording_find_role(recording);
    status = recording->file.name(recording->file.name_context, recording, &recording->file.path, &fd, error);
    if (status) return status;
    return mp_recording_open_writer(recording, fd, recording->spool.header->configuration, true,
                                    &recording->file.writer, error);
}

enum mp_status mp_recording_write_base(struct mp_recording *recording, struct mp_error *error)
{
    enum mp_status status = mp_state_write_base(&recording->state, recording->file.writer, error);
    recording->events_since_base = 0;
    return status;
}

/* Writes the number of steps before the file's first event, since steps count from the program's start. */
static enum mp_status write_past(struct mp_recording *recording, struct mp_error *error)
{
    struct mp_past past = {.steps = recording->window.steps_unseen, .time_ns = recording->state.time_ns};
    return mp_writer_past(recording->file.writer, &past, error);
}

/* Writes waiting rows of a kind. Labels are written before their events. If a kill comes in between, the spool still
 * has the labels. Recovery then writes them twice, which does no harm. */
static enum mp_status write_rows(struct mp_recording *recording, enum mp_chunk_kind kind, const void *rows,
                                 size_t *count, struct mp_error *error)
{
    if (!*count) return MP_OK;
    enum mp_status status = mp_writer_rows(recording->file.writer, kind, rows, *count, error);
    *count = 0;
    return status;
}

static enum mp_status write_samples(struct mp_recording *recording, struct mp_error *error)
{
    return write_rows(recording, MP_CHUNK_SAMPLES, recording->samples.at, &recording->samples.count, error);
}

static enum mp_status write_pending(struct mp_recording *recording, struct mp_error *error)
{
    struct mp_ring_mark marks[MP_SPOOL_RINGS_MAX];
    size_t mark_count = mp_drain_marks(&recording->drain, marks);
    size_t tracks = recording->pending_live.count;
    enum mp_status status = mp_writer_events(recording->file.writer, recording->pending.at, recording->pending.count,
                                             recording->pending_live.at, tracks, marks, mark_count, error);
    if (!status) recording->bound.file_events += recording->pending.count;
    recording->pending.count = 0;
    if (!status && !recording->window.is_open && !mp_recording_remember_live(recording))
        status = mp_fail(error, MP_NO_MEMORY, "out of memory for events");
    return status;
}

/* Writes an empty chunk of events with the rings' marks, for a base without a chunk of events before it. */
static enum mp_status write_marks(struct mp_recording *recording, struct mp_error *error)
{
    if (!mp_recording_remember_live(recording)) return mp_fail(error, MP_NO_MEMORY, "out of memory for events");
    return write_pending(recording, error);
}

/* Writes the schedule's position to the spool, before the file counts the records until there as taken. The spool has
 * two of these marks, so that one of them fits the file after a kill at any moment. */
static void mark_schedule(struct mp_recording *recording)
{
    struct mp_schedule_mark *marks = recording->spool.header->schedule_marks;
    uint64_t taken = mp_drain_taken(&recording->drain);
    recording->window.mark ^= atomic_load(&marks[recording->window.mark].taken) != taken;
    struct mp_schedule_mark *mark = &marks[recording->window.mark];
    mark->position = recording->window.state.position;
    atomic_store(&mark->taken, taken);
}

enum mp_status mp_recording_write(struct mp_recording *recording, bool with_base, struct mp_error *error)
{
    recording->last_write_ns = mp_clock_monotonic_ns();
    enum mp_status status = recording_write_meanwhile(recording, error);
    bool fresh = !recording->file.writer && (recording->pending.count || with_base);
    mark_schedule(recording);
    if (!status && fresh) status = open_file(recording, error);
    if (!status && recording->file.writer) {
        status = mp_recording_read_tables(recording, error);
        if (!status)
            status = mp_tables_write(&recording->tables, recording->spool.header, recording->file.writer, error);
        if (!status && fresh && recording->window.steps_unseen) status = write_past(recording, error);
        if (!status) status = write_samples(recording, error);
        if (!status)
            status = write_rows(recording, MP_CHUNK_LABELS, recording->labels.at, &recording->labels.count, error);
        if (!status)
            status = write_rows(recording, MP_CHUNK_HOLDERS, recording->holders.at, &recording->holders.count, error);
        if (!status)
            status = write_rows(recording, MP_CHUNK_USES, recording->operators.uses.at,
                                &recording->operators.uses.count, error);
        mp_map_clear(&recording->operators.last);
        recording->operators.first = 0;
        bool marked = recording->pending.count;
        if (!status && marked) status = write_pending(recording, error);
        if (!status) status = mp_recording_write_requests(recording, error);
        with_base |=
            recording->events_since_base > BASE_FACTOR * recording->state.ledger.by_address.count + MP_CHUNK_EVENTS;
        if (!status && with_base) status = mp_recording_write_base(recording, error);
        if (!status && with_base && !marked) status = write_marks(recording, error);
    }
    if (status) return status;
    mp_drain_release(&recording->drain, recording->spool.header);
    mp_spool_file_wake(&recording->spool);
    return mp_recording_bound(recording, error);
}

static enum mp_status resolve_frame(struct mp_symbols *resolver, struct mp_tables *tables, uint32_t id,
                                    const struct mp_wire_frame *frame, void *vec_pointer, struct mp_error *error)
{
    MP_VEC(struct mp_symbol) *found = vec_pointer;
    const struct mp_symbol_line *lines;
    size_t count = mp_symbols_resolve(resolver, frame->module, frame->address, &lines);
    enum mp_status status = MP_OK;
    for (size_t i = 0; i < count && !status; i++) {
        struct mp_symbol symbol = {.frame = id, .line = lines[i].line};
        if (lines[i].function) status = mp_tables_text(tables, lines[i].function, &symbol.function, error);
        if (!status && lines[i].file) status = mp_tables_text(tables, lines[i].file, &symbol.file, error);
        if (!status && !mp_vec_push(found, symbol)) status = mp_fail(error, MP_NO_MEMORY, "out of memory for symbols");
    }
    return status;
}

enum mp_status mp_recording_write_symbols(struct mp_recording *recording, struct mp_tables *tables,
                                          struct mp_writer *writer, struct mp_error *error)
{
    if (!recording->symbols) return MP_OK;
    const struct mp_wire_frame *frames = mp_spool_entries(recording->spool.header, MP_TABLE_FRAMES);
    MP_VEC(struct mp_symbol) symbols = {0};
    enum mp_status status = MP_OK;
    for (uint64_t i = 0; i < tables->done[MP_TABLE_FRAMES] && !status; i++) {
        if (frames[i].language != MP_NATIVE || !frames[i].module) continue;
        size_t before = symbols.count;
        status = resolve_frame(recording->symbols, tables, (uint32_t)i, &frames[i], &symbols, error);
        const char *reason = mp_symbols_note(recording->symbols, frames[i].module);
        if (symbols.count == before && reason && recording->notes.count < NOTES_WITH_MODULES)
            mp_recording_note(recording, reason);
    }
    if (!status) status = mp_tables_write(tables, recording->spool.header, writer, error);
    if (!status && symbols.count) status = mp_writer_symbols(writer, symbols.at, symbols.count, error);
    mp_vec_free(&symbols);
    return status;
}

static void note_count(struct mp_recording *recording, uint64_t count, const char *one, const char *more)
{
    char text[256];
    if (!count) return;
    snprintf(text, sizeof text, "%llu %s", (unsigned long long)count, count == 1 ? one : more);
    mp_recording_note(recording, text);
}

/* Notes about the recorder's losses, and about differences between CUPTI's records and its callbacks. (The records only
 * serve to check the callbacks.) */
static const struct loss {
    size_t counter; /* offset in the spool's header */
    const char *one, *more;
} losses[] = {
#define LOSS(counter, one, more)                                                                                       \
    {                                                                                                                  \
        offsetof(struct mp_spool_header, counter), one, more                                                           \
    }
    LOSS(losses.dropped_no_memory, "event was dropped: the system gave the recorder no memory for its thread",
         "events were dropped: the system gave the recorder no memory for their threads"),
    LOSS(losses.dropped_unattached,
         "call was not recorded: the recorder could not begin yet, for lack of descriptors or memory, or as memprof "
         "did not answer in time",
         "calls were not recorded: the recorder could not begin yet, for lack of descriptors or memory, or as memprof "
         "did not answer in time"),
    LOSS(unsound, "event was dropped: something had written over it in the memory that memprof shares with the program",
         "events were dropped: something had written over them in the memory that memprof shares with the program"),
    LOSS(losses.dropped_retired, "event was dropped: its thread had put itself under seccomp's strict mode",
         "events were dropped: their threads had put themselves under seccomp's strict mode"),
    LOSS(losses.left_hooks,
         "event was dropped, as the program left the recorder in the middle of it (a jump out of a signal handler, or "
         "the end of the thread)",
         "events were dropped, as the program left the recorder in the middle of them (jumps out of signal handlers, "
         "or the ends of threads)"),
    LOSS(losses.dropped_inside,
         "event was dropped: it came in a signal handler that had interrupted the recorder on the same thread",
         "events were dropped: they came in signal handlers that had interrupted the recorder on the same thread"),
    LOSS(cupti.without_call, "memory record of CUPTI had no callback", "memory records of CUPTI had no callback"),
    LOSS(cupti.without_record, "callback of CUPTI had no memory record", "callbacks of CUPTI had no memory record"),
    LOSS(cupti.different, "memory record of CUPTI differed from its callback",
         "memory records of CUPTI differed from their callbacks"),
    LOSS(cupti.dropped, "memory record was dropped by CUPTI", "memory records were dropped by CUPTI"),
    LOSS(cupti.unreadable, "record of CUPTI could not be read", "records of CUPTI could not be read"),
#undef LOSS
};

static void note_losses(struct mp_recording *recording)
{
    struct mp_spool_header *spool = recording->spool.header;
    if (atomic_load(&spool->rings_used) == MP_SPOOL_RINGS_MAX) {
        char text[96];
        snprintf(text, sizeof text, "events were dropped because more than %d threads allocated at once",
                 MP_SPOOL_RINGS_MAX);
        note_count(recording, atomic_load(&spool->losses.dropped_no_ring),
                   "event was dropped because too many threads allocated at once", text);
    } else {
        note_count(recording, atomic_load(&spool->losses.dropped_no_ring),
                   "event was dropped: its thread began before there was room for it",
                   "events were dropped: their threads began before there was room for them");
    }
    uint64_t no_track = atomic_load(&spool->losses.dropped_no_track);
    const struct mp_spool_table *tracks = &spool->tables[MP_TABLE_TRACKS];
    if (atomic_load(&tracks->count) + 1 >= tracks->room) /* the API has room for one pool less */
        note_count(recording, no_track,
                   "event was dropped: a recording has room for 255 tracks, and this one had as many already",
                   "events were dropped: a recording has room for 255 tracks, and this one had as many already");
    else
        note_count(
            recording, no_track,
            "event was dropped: another thread held the recorder's tables for too long to look up its track",
            "events were dropped: another thread held the recorder's tables for too long to look up their tracks");
    uint64_t full = mp_recording_ring_full(spool);
    uint64_t before =
        atomic_load(&spool->written.failed) && spool->written.full_before < full ? spool->written.full_before : full;
    note_count(recording, before,
               "event was dropped: the program was faster than the collector, and the ring of its thread was full",
               "events were dropped: the program was faster than the collector, and the rings of its threads were "
               "full");
    if (full > before) {
        char text[2 * MP_SPOOL_NOTE_TEXT];
        snprintf(text, sizeof text, "%llu event%s dropped, as the file could not be written on: %.*s",
                 (unsigned long long)(full - before), full - before == 1 ? " was" : "s were",
                 (int)sizeof spool->written.why - 1, spool->written.why);
        mp_recording_note(recording, text);
    }
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        note_count(recording, atomic_load((_Atomic uint64_t *)(void *)((char *)spool + losses[i].counter)),
                   losses[i].one, losses[i].more);
    bool by_cupti = atomic_load(&spool->sources) & MP_SOURCE_CUPTI;
    if (recording->ended && by_cupti && !atomic_load(&spool->cupti.flushed))
        mp_recording_note(recording, "the program ended without flushing CUPTI: variables of modules and sizes of "
                                     "pools that were still in its buffers are not recorded");
}

/* Adds a note if a Python used PyTorch without the shim, although the shim was wanted. */
static void note_shim(struct mp_recording *recording)
{
    struct mp_spool_header *spool = recording->spool.header;
    uint32_t sources = atomic_load(&spool->sources);
    if (!recording->config.shim || !(sources & MP_SOURCE_TORCH) || sources & MP_SOURCE_SHIM) return;
    const struct mp_wire_frame *frames = mp_spool_entries(spool, MP_TABLE_FRAMES);
    bool python = false;
    for (uint64_t i = 0; i < recording->tables.seen[MP_TABLE_FRAMES] && !python; i++)
        python = frames[i].language == MP_PYTHON;
    if (python)
        mp_recording_note(recording,
                          "PyTorch was not asked for modules, regions and steps: Python ran with -E, -I or -S, or "
                          "without the PYTHONPATH that memprof sets");
}

enum mp_status mp_recording_limits(struct mp_recording *recording, uint32_t *limits, uint32_t *count,
                                   struct mp_error *error)
{
    const struct mp_spool_header *spool = recording->spool.header;
    const struct {
        bool met;
        const char *text;
    } known[MP_RECORDING_LIMITS - 2] = {
        {recording->config.attached,
         "memprof attached while the program ran: growth is exact since then, and all totals are since then"},
        {recording->window.schedule != NULL, "outside of what was scheduled only live blocks were followed"},
        {atomic_load(&spool->losses.lost_stacks), "the tables of stacks were full: some events have no stack"},
        {atomic_load(&spool->losses.lost_strings),
         "the table of names was full: some functions, regions and modules have no name"},
        {atomic_load(&spool->losses.without_lock),
         "another thread held the recorder's tables for too long: some stacks, names "
         "and blocks of the driver were left out"},
        {recording->tables.mended, "memory shared with the program was damaged: some stacks are cut, or not right"},
    };
    enum mp_status status = MP_OK;
    *count = 0;
    if (recording->ends_early) limits[(*count)++] = recording->ends_early;
    if (recording->lacks_processes) limits[(*count)++] = recording->lacks_processes;
    for (size_t i = 0; i < sizeof known / sizeof *known && !status; i++)
        if (known[i].met) status = mp_tables_text(&recording->tables, known[i].text, &limits[(*count)++], error);
    return status;
}

static uint64_t calls_seen(const struct mp_recording *recording)
{
    const struct mp_step_rule *rule = &recording->state.steps;
    return rule->kind >= MP_STEP_OF_LIBRARY_FUNCTION ? rule->begun[rule->kind] : 0;
}

/* The end of "FILE:FUNCTION" in the form of --step-at: the file with its folder. */
static const char *short_name(const struct mp_recording *recording, uint32_t name)
{
    const char *all = mp_intern_get(&recording->tables.strings, name, NULL), *from = strrchr(all, '/');
    while (from && from > all && from[-1] != '/')
        from--;
    return from ? from : all;
}

void mp_recording_step_functions(const struct mp_recording *recording, char *text, size_t room)
{
    *text = '\0';
    const struct mp_step_rule *rule = &recording->state.steps;
    if (!calls_seen(recording) || !rule->functions[1].calls) return;
    uint32_t counts = rule->users ? rule->users : rule->library;
    int used = snprintf(text, room,
                        "--step-at %s means several functions (FILE.py:FUNCTION chooses): steps are the %" PRIu64
                        " calls of %s",
                        recording->step_at, calls_seen(recording), short_name(recording, counts));
    for (size_t i = 0; i < MP_STEP_FUNCTIONS && rule->functions[i].calls && used < (int)room; i++)
        if (rule->functions[i].number != counts)
            used += snprintf(text + used, room - (size_t)used, ", not the %" PRIu64 " of %s", rule->functions[i].calls,
                             short_name(recording, rule->functions[i].number));
}

/* Adds a note if calls of the function of --step-at may have been missed. A doubt means that a new call may have begun
 * unseen; loops inside of a call cause doubts, too. So readers ignore the function only if few calls were seen, or far
 * more doubts than calls. The note is added if steps may be off by 1 %. */
static void note_doubtful_calls(struct mp_recording *recording)
{
    enum { DOUBTS = 8, FEW_CALLS = 12, DOUBTS_A_CALL = 64, CALLS_A_DOUBT = 100 };
    uint64_t doubts = atomic_load(&recording->spool.header->losses.doubtful_calls);
    uint64_t calls = calls_seen(recording);
    if (doubts >= DOUBTS && (calls < FEW_CALLS || doubts >= DOUBTS_A_CALL * calls)) {
        mp_recording_note(recording, MP_STEPS_IN_DOUBT);
    } else if (doubts && doubts >= calls / CALLS_A_DOUBT) {
        char text[160];
        snprintf(text, sizeof text,
                 "calls of the function of --step-at may be missing, perhaps %" PRIu64
                 ": what a loop in it allocates, or a coroutine, looks like another call",
                 doubts);
        mp_recording_note(recording, text);
    }
}

static enum mp_status write_coverage(struct mp_recording *recording, struct mp_error *error)
{
    static const struct {
        enum mp_source bit;
        const char *name;
    } names[] = {{MP_SOURCE_TORCH, "torch"}, {MP_SOURCE_C_API, "api"}, {MP_SOURCE_CUPTI, "cupti"},
                 {MP_SOURCE_HOOKS, "hooks"}, {MP_SOURCE_NVTX, "nvtx"}, {MP_SOURCE_SHIM, "shim"},
                 {MP_SOURCE_HOST, "host"}};
    const struct mp_spool_header *spool = recording->spool.header;
    note_losses(recording);
    note_shim(recording);
    mp_recording_note_history(recording);
    mp_device_samples_notes(recording);
    note_doubtful_calls(recording);
    char functions[MP_STEP_FUNCTIONS_TEXT];
    mp_recording_step_functions(recording, functions, sizeof functions);
    if (*functions) mp_recording_note(recording, functions);
    if (*recording->step_at && !calls_seen(recording)) {
        char text[MP_STEP_AT_ROOM + 96];
        snprintf(text, sizeof text, "no Python function %s was seen to allocate: --step-at gave no steps",
                 recording->step_at);
        mp_recording_note(recording, text);
    }
    if (!*recording->spool.path)
        mp_recording_note(recording, "the spool had no name: no recovery if program and collector had both died");
    uint32_t limits[MP_RECORDING_LIMITS], limit_count;
    enum mp_status status = mp_recording_limits(recording, limits, &limit_count, error);
    uint32_t sources[sizeof names / sizeof *names], source_count = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++)
        if (atomic_load(&spool->sources) & names[i].bit)
            status = mp_tables_text(&recording->tables, names[i].name, &sources[source_count++], error);
    if (!status) status = mp_tables_text(&recording->tables, recording->how_text, &recording->how.text, error);
    if (!status) status = mp_tables_write(&recording->tables, recording->spool.header, recording->file.writer, error);
    struct mp_coverage coverage = {
        .events = recording->bound.file_events,
        .dropped = mp_recording_dropped(spool),
        .truncated_stacks = atomic_load(&spool->losses.truncated_stacks),
        .unmatched_stacks = atomic_load(&spool->losses.unmatched_stacks),
        .totals_checked = recording->state.ledger.totals_checked,
        .totals_wrong = mp_ledger_totals_wrong(&recording->state.ledger),
        .unknown_frees = recording->state.ledger.unknown_frees,
        .missed_frees = recording->state.ledger.missed_frees,
        .sources = sources,
        .source_count = source_count,
        .notes = recording->notes.at,
        .note_count = (uint32_t)recording->notes.count,
        .limits = limits,
        .limit_count = limit_count,
    };
    return status ? status : mp_writer_coverage(recording->file.writer, &coverage, error);
}

enum mp_status mp_recording_write_end(struct mp_recording *recording, struct mp_error *error)
{
    enum mp_status status = mp_recording_write_symbols(recording, &recording->tables, recording->file.writer, error);
    if (!status) status = mp_recording_write_segments(recording, error);
    if (!status && recording->asides.count)
        status = mp_writer_asides(recording->file.writer, recording->asides.at, recording->asides.count, error);
    if (!status) status = write_coverage(recording, error);
    if (!status) status = write_samples(recording, error);
    if (!status) status = mp_writer_exit(recording->file.writer, &recording->how, error);
    if (status) return status;
    status = mp_writer_finish(recording->file.writer, error);
    recording->file.writer = NULL;
    return status;
}

/* The most steps kept between two windows. The oldest steps are forgotten first. So a window that never opens costs
 * only bounded memory. */
#define UNKEPT_STEPS_MAX (1u << 20)

/* Notes a step that began outside of the window. */
enum mp_status mp_recording_note_step(struct mp_recording *recording, const struct mp_event *event,
                                      struct mp_error *error)
{
    if (!recording->file.writer) return MP_OK; /* the file begins with its first window */
    if (recording->window.unkept_steps.count == UNKEPT_STEPS_MAX) recording->window.unkept_steps.count = 0;
    return mp_vec_push(&recording->window.unkept_steps, *event) ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory");
}

struct gap {
    MP_VEC(struct mp_event) events;
};

/* Orders by time. At equal times ends come first, since their addresses may be reused at once. */
MP_ORDER(by_time, struct mp_event,
         MP_RISING(time_ns) ?: MP_COMPARE(b->type == MP_EVENT_FREE, a->type == MP_EVENT_FREE) ?: MP_RISING(block))

static bool add_block(struct gap *gap, const struct mp_base_block *block, unsigned type, uint32_t thread)
{
    struct mp_event event = {.time_ns = block->birth_ns,
                             .address = block->address,
                             .bytes = block->bytes,
                             .block = block->block,
                             .stack = type == MP_EVENT_ALLOC ? block->stack : 0,
                             .name = type == MP_EVENT_ALLOC ? block->module : 0,
                             .thread = thread,
                             .track = block->track,
                             .type = (uint8_t)type,
                             .kind = block->kind};
    return mp_vec_push(&gap->events, event);
}

/* Writes a step that is a named region as a region of no length. */
static bool add_step(struct gap *gap, const struct mp_event *step)
{
    struct mp_event end = *step;
    end.type = MP_EVENT_REGION_END;
    end.name = 0;
    return mp_vec_push(&gap->events, *step) && (step->type != MP_EVENT_REGION_BEGIN || mp_vec_push(&gap->events, end));
}

static bool collect(struct mp_recording *recording, uint64_t first_new, uint32_t thread, struct gap *gap)
{
    const struct mp_ledger *ledger = &recording->state.ledger;
    bool done = true;
    for (size_t i = 0; done && i < ledger->freed_unseen.count; i++)
        done = add_block(gap, &ledger->freed_unseen.at[i], MP_EVENT_FREE, thread);
    for (size_t i = 0; done && recording->file.writer && i < ledger->blocks.count; i++) {
        const struct mp_base_block *block = &ledger->blocks.at[i];
        if (block->track != MP_LEDGER_SLOT_FREE && block->block >= first_new)
            done = add_block(gap, block, MP_EVENT_ALLOC, thread);
    }
    for (size_t i = 0; done && i < recording->window.unkept_steps.count; i++)
        done = add_step(gap, &recording->window.unkept_steps.at[i]);
    return done;
}

enum mp_status mp_recording_write_gap(struct mp_recording *recording, uint32_t thread, struct mp_error *error)
{
    struct gap gap = {0};
    uint64_t first_new = recording->state.ledger.next_block;
    enum mp_status status = mp_ledger_resume(&recording->state.ledger, error);
    recording->window.is_open = true;
    if (!status && !collect(recording, first_new, thread, &gap))
        status = mp_fail(error, MP_NO_MEMORY, "out of memory for what was not kept");
    if (gap.events.count) qsort(gap.events.at, gap.events.count, sizeof *gap.events.at, by_time);
    for (size_t i = 0; !status && i < gap.events.count; i++) {
        if (!mp_vec_push(&recording->pending, gap.events.at[i]))
            status = mp_fail(error, MP_NO_MEMORY, "out of memory for events");
        recording->events++;
        recording->events_since_base++;
        if (!status && recording->pending.count == MP_CHUNK_EVENTS)
            status = mp_recording_write(recording, false, error);
    }
    recording->state.ledger.freed_unseen.count = recording->window.unkept_steps.count = 0;
    mp_vec_free(&gap.events);
    return status;
}

/* Writes the same changes while the window stays closed, before the taken records are released from the rings. Does so
 * only if steps began meanwhile: a later window needs these. */
static enum mp_status recording_write_meanwhile(struct mp_recording *recording, struct mp_error *error)
{
    bool ended = recording->how_text[0] || recording->window.state.position.over;
    if (recording->window.is_open || !recording->file.writer || ended || !recording->window.unkept_steps.count)
        return MP_OK;
    enum mp_status status = mp_recording_write_gap(recording, 0, error);
    recording->window.is_open = false;
    recording->state.ledger.paused = true;
    return status;
}

/* Remembers the live bytes before the file's next event. False: out of memory. */
bool mp_recording_remember_live(struct mp_recording *recording)
{
    recording->pending_live.count = 0;
    for (size_t i = 0; i < recording->state.ledger.tracks.count; i++)
        if (!mp_vec_push(&recording->pending_live, recording->state.ledger.tracks.at[i].bytes)) return false;
    return true;
}
