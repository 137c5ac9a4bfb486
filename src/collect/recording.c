#include "collect/recording.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define WRITE_AFTER_NS  (2 * MP_NS_PER_SECOND)
#define SAMPLE_EVERY_NS (50 * MP_NS_PER_MS)
#define BASE_FACTOR     4 /* a base is written when this many events came per live block */

struct mp_recording *mp_recording_new(struct mp_spool_file *spool, bool symbols, bool paused, struct mp_error *error)
{
    struct mp_recording *recording = calloc(1, sizeof *recording);
    if (!recording || (symbols && mp_symbols_open(&recording->symbols, error))) {
        free(recording);
        mp_spool_file_close(spool, true);
        if (symbols && recording) return NULL;
        mp_fail(error, MP_NO_MEMORY, "out of memory for a recording");
        return NULL;
    }
    recording->spool = *spool;
    *spool = (struct mp_spool_file){.fd = -1};
    recording->window_open = !paused;
    snprintf(recording->root, sizeof recording->root, "/proc/%u/root", recording->spool.header->pid);
    return recording;
}

static uint64_t since_start(const struct mp_recording *recording, uint64_t monotonic_ns)
{
    uint64_t start = recording->spool.header->monotonic_ns;
    return monotonic_ns > start ? monotonic_ns - start : 0;
}

static bool fail(struct mp_recording *recording, enum mp_status status, const struct mp_error *error)
{
    if (status && !recording->failed) {
        recording->failed = status;
        recording->failure = *error;
        atomic_store(&recording->spool.header->collector_left, 1); /* nobody waits for a file that is over */
    }
    return !status;
}

void mp_recording_note(struct mp_recording *recording, const char *text)
{
    uint32_t id = mp_intern_text(&recording->tables.strings, text);
    for (size_t i = 0; i < recording->notes.count; i++)
        if (recording->notes.at[i] == id) return;
    if (id != MP_INTERN_FAILED) (void)mp_vec_push(&recording->notes, id);
}

/* ---- taking records ------------------------------------------------------------------------------------------- */

static bool remember_live(struct mp_recording *recording)
{
    recording->pending_live.count = 0;
    for (size_t i = 0; i < recording->ledger.tracks.count; i++)
        if (!mp_vec_push(&recording->pending_live, recording->ledger.tracks.at[i].bytes)) return false;
    return true;
}

static enum mp_status keep(struct mp_recording *recording, const struct mp_event *event, struct mp_error *error)
{
    if (!recording->window_open) return MP_OK;
    if (!mp_vec_push(&recording->pending, *event)) return mp_fail(error, MP_NO_MEMORY, "out of memory for events");
    recording->events++;
    recording->events_since_base++;
    return MP_OK;
}

static void answer(struct mp_recording *recording, const struct mp_record *record)
{
    struct mp_spool_answer *answer = &recording->spool.header->answer;
    const struct mp_ledger_track *found = NULL;
    for (size_t i = 0; i < recording->ledger.tracks.count; i++) {
        const struct mp_ledger_track *track = &recording->ledger.tracks.at[i];
        if (record->track == MP_RECORD_ALL_TRACKS ? !found || track->peak_bytes > found->peak_bytes
                                                  : record->track == i)
            found = track;
    }
    atomic_store(&answer->live_bytes, found ? found->bytes : 0);
    atomic_store(&answer->peak_bytes, found ? found->peak_since_reset_bytes : 0);
    atomic_store(&answer->live_blocks, found ? found->blocks : 0);
    atomic_store(&answer->found, found != NULL);
    atomic_store(&answer->answered, (uint32_t)record->bytes);
    syscall(SYS_futex, &answer->answered, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void reset_peaks(struct mp_recording *recording, uint16_t track)
{
    for (size_t i = 0; i < recording->ledger.tracks.count; i++)
        if (track == MP_RECORD_ALL_TRACKS || track == i)
            recording->ledger.tracks.at[i].peak_since_reset_bytes = recording->ledger.tracks.at[i].bytes;
}

static enum mp_status take_reserved(struct mp_recording *recording, const struct mp_event *cause, uint64_t reserved,
                                    struct mp_error *error)
{
    struct mp_ledger_track *track = mp_ledger_track(&recording->ledger, cause->track);
    if (!track || reserved == MP_RECORD_TOTAL_UNKNOWN || track->reserved_bytes == reserved) return MP_OK;
    track->reserved_bytes = reserved;
    struct mp_event event = {.time_ns = cause->time_ns,
                             .bytes = reserved,
                             .thread = cause->thread,
                             .track = cause->track,
                             .type = MP_EVENT_RESERVED};
    return keep(recording, &event, error);
}

static enum mp_status take_block(struct mp_recording *recording, const struct mp_record *record, struct mp_event *event,
                                 struct mp_error *error)
{
    struct mp_ledger *ledger = &recording->ledger;
    bool known = true, is_alloc = record->type == MP_EVENT_ALLOC;
    if (!is_alloc && record->flags & MP_RECORD_IF_KNOWN && !mp_ledger_has(ledger, event->track, event->address))
        return MP_OK;
    struct mp_event missed = {.type = MP_EVENT_NONE};
    enum mp_status status =
        is_alloc ? mp_ledger_alloc(ledger, event, &missed, error) : mp_ledger_free(ledger, event, &known, error);
    if (!status && missed.type) status = keep(recording, &missed, error);
    if (!status) status = take_reserved(recording, event, record->total_reserved, error);
    if (!status) status = keep(recording, event, error);
    if (!status && record->total_allocated != MP_RECORD_TOTAL_UNKNOWN && event->bytes != MP_BYTES_UNKNOWN)
        mp_ledger_check_total(ledger, event->track, is_alloc ? (int64_t)event->bytes : -(int64_t)event->bytes,
                              record->total_allocated);
    return status;
}

static enum mp_status write_base(struct mp_recording *recording, struct mp_error *error);
static enum mp_status write_out(struct mp_recording *recording, mp_recording_name *name, void *context,
                                struct mp_error *error);

struct taking {
    struct mp_recording *recording;
    mp_recording_name *name;
    void *context;
};

static enum mp_status take_window(struct taking *taking, const struct mp_event *event, struct mp_error *error)
{
    struct mp_recording *recording = taking->recording;
    bool opens = event->type == MP_EVENT_START;
    if (opens == recording->window_open) return MP_OK;
    enum mp_status status = MP_OK;
    if (opens) {
        recording->window_open = true;
        recording->pending.count = 0;
        if (!remember_live(recording)) return mp_fail(error, MP_NO_MEMORY, "out of memory for events");
        status = keep(recording, event, error);
        if (!status) status = write_out(recording, taking->name, taking->context, error);
        return status ? status : write_base(recording, error);
    }
    status = keep(recording, event, error);
    if (!status) status = write_out(recording, taking->name, taking->context, error);
    recording->window_open = false;
    return status;
}

static enum mp_status take(struct taking *taking, uint32_t ring, const struct mp_record *record, struct mp_error *error)
{
    struct mp_recording *recording = taking->recording;
    struct mp_spool_header *spool = recording->spool.header;
    if (!recording->pending.count && !remember_live(recording))
        return mp_fail(error, MP_NO_MEMORY, "out of memory for events");
    struct mp_event event = {.time_ns = since_start(recording, record->time_ns),
                             .address = record->address,
                             .bytes = record->bytes,
                             .stack = record->stack,
                             .track = record->track == MP_RECORD_ALL_TRACKS ? 0 : record->track,
                             .type = record->type,
                             .kind = record->kind};
    if (event.time_ns < recording->last_event_ns) event.time_ns = recording->last_event_ns;
    recording->last_event_ns = event.time_ns;
    enum mp_status status = mp_tables_thread(&recording->tables, spool, ring, &event.thread, error);
    if (!status && record->name) {
        event.name = mp_tables_spool_string(&recording->tables, record->name);
        if (!event.name) {
            status = mp_tables_read(&recording->tables, spool, NULL, NULL, error);
            event.name = mp_tables_spool_string(&recording->tables, record->name);
        }
    }
    if (status) return status;
    switch (record->type) {
    case MP_EVENT_ALLOC:
    case MP_EVENT_FREE:
        return take_block(recording, record, &event, error);
    case MP_EVENT_OOM:
        status = take_reserved(recording, &event, record->total_reserved, error);
        return status ? status : keep(recording, &event, error);
    case MP_EVENT_STEP:
        recording->ledger.steps++;
        return keep(recording, &event, error);
    case MP_EVENT_REGION_BEGIN:
    case MP_EVENT_REGION_END:
    case MP_EVENT_MARK:
        return keep(recording, &event, error);
    case MP_EVENT_START:
    case MP_EVENT_STOP:
        return take_window(taking, &event, error);
    case MP_RECORD_STATS:
        answer(recording, record);
        return MP_OK;
    case MP_RECORD_RESET_PEAK:
        reset_peaks(recording, record->track);
        return MP_OK;
    default:
        return MP_OK; /* of a newer recorder */
    }
}

static bool take_record(void *context, uint32_t ring, const struct mp_record *record)
{
    struct taking *taking = context;
    struct mp_error error;
    enum mp_status status = take(taking, ring, record, &error);
    if (!status && taking->recording->pending.count >= MP_CHUNK_EVENTS)
        status = write_out(taking->recording, taking->name, taking->context, &error);
    return fail(taking->recording, status, &error);
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

static void add_module(void *context, uint32_t id, const char *path, const struct mp_file_id *file)
{
    struct mp_recording *recording = context;
    if (!recording->symbols) return;
    struct mp_file_id known = *file;
    struct stat facts;
    char full[4096];
    snprintf(full, sizeof full, "%s%s", recording->root, path);
    if (!known.build_id_size && stat(full, &facts) == 0) {
        known.size = (uint64_t)facts.st_size;
        known.inode = facts.st_ino;
        known.mtime_ns = facts.st_mtim.tv_sec * INT64_C(1000000000) + facts.st_mtim.tv_nsec;
    }
    struct mp_error ignored; /* a module without symbols: its addresses stay bare */
    (void)mp_symbols_add_module(recording->symbols, id, path, &known, access(full, R_OK) ? NULL : recording->root,
                                &ignored);
}

static enum mp_status open_file(struct mp_recording *recording, mp_recording_name *name, void *context,
                                struct mp_error *error)
{
    const struct mp_spool_header *spool = recording->spool.header;
    const char *command[512] = {NULL};
    const char *at = spool->command, *end = spool->command + sizeof spool->command;
    for (size_t i = 0; i + 1 < sizeof command / sizeof *command && at < end && *at; i++) {
        command[i] = at;
        at += strnlen(at, (size_t)(end - at)) + 1;
    }
    int fd;
    enum mp_status status = name(context, recording, &recording->path, &fd, error);
    if (status) return status;
    struct mp_recording_start start = {.realtime_ns = spool->realtime_ns,
                                       .monotonic_ns = spool->monotonic_ns,
                                       .pid = spool->pid,
                                       .host = spool->host,
                                       .command = command,
                                       .configuration = spool->configuration,
                                       .spool = recording->spool.path,
                                       .spool_id = spool->spool_id};
    return mp_writer_open(fd, &start, &recording->writer, error);
}

static enum mp_status write_base(struct mp_recording *recording, struct mp_error *error)
{
    struct mp_base_block *blocks;
    size_t count;
    enum mp_status status = mp_ledger_copy(&recording->ledger, &blocks, &count, error);
    if (status) return status;
    status = mp_writer_base(recording->writer, recording->last_event_ns, blocks, count, error);
    free(blocks);
    recording->events_since_base = 0;
    return status;
}

static enum mp_status write_samples(struct mp_recording *recording, struct mp_error *error)
{
    if (!recording->samples.count) return MP_OK;
    enum mp_status status =
        mp_writer_samples(recording->writer, recording->samples.at, recording->samples.count, error);
    recording->samples.count = 0;
    return status;
}

static enum mp_status write_pending(struct mp_recording *recording, struct mp_error *error)
{
    struct mp_ring_mark marks[MP_SPOOL_RINGS_MAX];
    size_t mark_count = mp_drain_marks(&recording->drain, marks);
    size_t tracks = recording->pending_live.count;
    enum mp_status status = mp_writer_events(recording->writer, recording->pending.at, recording->pending.count,
                                             recording->pending_live.at, tracks, marks, mark_count, error);
    recording->pending.count = 0;
    return status;
}

/* Everything that was taken goes to the file; then the rings get their room back. */
static enum mp_status write_out(struct mp_recording *recording, mp_recording_name *name, void *context,
                                struct mp_error *error)
{
    recording->last_write_ns = mp_clock_monotonic_ns();
    enum mp_status status = MP_OK;
    if (!recording->writer && recording->pending.count) status = open_file(recording, name, context, error);
    if (!status && recording->writer) {
        status = mp_tables_read(&recording->tables, recording->spool.header, add_module, recording, error);
        if (!status) status = mp_tables_write(&recording->tables, recording->spool.header, recording->writer, error);
        if (!status) status = write_samples(recording, error);
        if (!status && recording->pending.count) status = write_pending(recording, error);
        if (!status &&
            recording->events_since_base > BASE_FACTOR * recording->ledger.by_address.count + MP_CHUNK_EVENTS)
            status = write_base(recording, error);
    }
    if (status) return status;
    mp_drain_release(&recording->drain, recording->spool.header);
    mp_spool_file_wake(&recording->spool);
    return MP_OK;
}

/* ---- rounds --------------------------------------------------------------------------------------------------- */

static void sample_one(struct mp_recording *recording, const char *counter, uint64_t now, uint64_t value,
                       uint64_t *last)
{
    if (value == *last) return;
    uint32_t id = mp_intern_text(&recording->tables.strings, counter);
    struct mp_sample sample = {.time_ns = since_start(recording, now), .counter = id, .value = value};
    if (id != MP_INTERN_FAILED && mp_vec_push(&recording->samples, sample)) *last = value;
}

/* Resident and shared memory of the process, from /proc/PID/statm (pages). */
static void sample_memory(struct mp_recording *recording)
{
    uint64_t now = mp_clock_monotonic_ns();
    if (now - recording->last_sample_ns < SAMPLE_EVERY_NS) return;
    recording->last_sample_ns = now;
    char path[64], text[128];
    snprintf(path, sizeof path, "/proc/%u/statm", recording->spool.header->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    unsigned long long resident, shared;
    if (length <= 0) return;
    text[length] = '\0';
    if (sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || !resident) return;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    sample_one(recording, "cpu/resident", now, resident * page, &recording->resident_bytes);
    sample_one(recording, "cpu/shared", now, shared * page, &recording->shared_bytes);
}

static void read_notes(struct mp_recording *recording)
{
    const struct mp_spool_header *spool = recording->spool.header;
    uint64_t count = atomic_load_explicit(&spool->note_count, memory_order_acquire);
    for (; recording->notes_read < count && recording->notes_read < MP_SPOOL_NOTES; recording->notes_read++) {
        char text[MP_SPOOL_NOTE_TEXT + 1] = {0};
        memcpy(text, spool->notes[recording->notes_read], MP_SPOOL_NOTE_TEXT);
        mp_recording_note(recording, text);
    }
}

bool mp_recording_round(struct mp_recording *recording, bool process_ended, mp_recording_name *name, void *context)
{
    if (recording->failed) return false;
    struct mp_spool_header *spool = recording->spool.header;
    atomic_store(&spool->rung, 0);
    if (!process_ended) {
        if (mp_spool_file_grow(&recording->spool)) mp_spool_file_wake(&recording->spool);
        sample_memory(recording);
    }
    struct taking taking = {.recording = recording, .name = name, .context = context};
    bool pressing = mp_drain_is_pressing(spool);
    mp_drain_take(&recording->drain, spool, process_ended, take_record, &taking);
    if (recording->failed) return false;
    read_notes(recording);
    bool first = recording->pending.count && !recording->writer;
    bool late = mp_clock_monotonic_ns() - recording->last_write_ns >= WRITE_AFTER_NS;
    bool something = recording->pending.count || (recording->writer && recording->samples.count);
    if (!(pressing || process_ended || first || (late && something))) return true;
    struct mp_error error;
    return fail(recording, write_out(recording, name, context, &error), &error);
}

/* ---- the end -------------------------------------------------------------------------------------------------- */

static enum mp_status resolve_frame(struct mp_recording *recording, uint32_t id, const struct mp_wire_frame *frame,
                                    void *vec_pointer, struct mp_error *error)
{
    MP_VEC(struct mp_symbol) *found = vec_pointer;
    const struct mp_symbol_line *lines;
    size_t count = mp_symbols_resolve(recording->symbols, frame->module, frame->address, &lines);
    enum mp_status status = MP_OK;
    for (size_t i = 0; i < count && !status; i++) {
        struct mp_symbol symbol = {.frame = id, .line = lines[i].line};
        if (lines[i].function) status = mp_tables_text(&recording->tables, lines[i].function, &symbol.function, error);
        if (!status && lines[i].file) status = mp_tables_text(&recording->tables, lines[i].file, &symbol.file, error);
        if (!status && !mp_vec_push(found, symbol)) status = mp_fail(error, MP_NO_MEMORY, "out of memory for symbols");
    }
    return status;
}

static enum mp_status write_symbols(struct mp_recording *recording, struct mp_error *error)
{
    if (!recording->symbols) return MP_OK;
    const struct mp_wire_frame *frames = mp_spool_entries(recording->spool.header, MP_TABLE_FRAMES);
    MP_VEC(struct mp_symbol) symbols = {0};
    enum mp_status status = MP_OK;
    for (uint64_t i = 0; i < recording->tables.done[MP_TABLE_FRAMES] && !status; i++)
        if (frames[i].language == MP_NATIVE && frames[i].module)
            status = resolve_frame(recording, (uint32_t)i, &frames[i], &symbols, error);
    if (!status) status = mp_tables_write(&recording->tables, recording->spool.header, recording->writer, error);
    if (!status && symbols.count) status = mp_writer_symbols(recording->writer, symbols.at, symbols.count, error);
    mp_vec_free(&symbols);
    return status;
}

static uint64_t count_dropped(const struct mp_spool_header *spool)
{
    uint64_t dropped = atomic_load(&spool->dropped_no_ring);
    for (uint32_t i = 0; i < MP_SPOOL_RINGS_MAX; i++)
        dropped += atomic_load(&spool->rings[i].dropped);
    return dropped;
}

static enum mp_status write_coverage(struct mp_recording *recording, struct mp_exit *how, const char *text,
                                     struct mp_error *error)
{
    static const struct {
        enum mp_source bit;
        const char *name;
    } names[] = {{MP_SOURCE_TORCH, "torch"},
                 {MP_SOURCE_C_API, "api"},
                 {MP_SOURCE_CUPTI, "cupti"},
                 {MP_SOURCE_HOOKS, "hooks"},
                 {MP_SOURCE_NVTX, "nvtx"}};
    const struct mp_spool_header *spool = recording->spool.header;
    if (atomic_load(&spool->lost_stacks))
        mp_recording_note(recording, "the tables of stacks were full: some events have no stack");
    if (!*recording->spool.path)
        mp_recording_note(recording, "the spool had no name: no recovery if program and collector had both died");
    uint32_t sources[sizeof names / sizeof *names], source_count = 0;
    enum mp_status status = MP_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++)
        if (atomic_load(&spool->sources) & names[i].bit)
            status = mp_tables_text(&recording->tables, names[i].name, &sources[source_count++], error);
    if (!status) status = mp_tables_text(&recording->tables, text, &how->text, error);
    if (!status) status = mp_tables_write(&recording->tables, recording->spool.header, recording->writer, error);
    struct mp_coverage coverage = {
        .events = recording->events,
        .dropped = count_dropped(spool),
        .truncated_stacks = atomic_load(&spool->truncated_stacks),
        .unmatched_stacks = atomic_load(&spool->unmatched_stacks),
        .totals_checked = recording->ledger.totals_checked,
        .totals_wrong = recording->ledger.totals_wrong,
        .unknown_frees = recording->ledger.unknown_frees,
        .missed_frees = recording->ledger.missed_frees,
        .sources = sources,
        .source_count = source_count,
        .notes = recording->notes.at,
        .note_count = (uint32_t)recording->notes.count,
    };
    return status ? status : mp_writer_coverage(recording->writer, &coverage, error);
}

static enum mp_status finish_file(struct mp_recording *recording, struct mp_exit *how, const char *text,
                                  struct mp_error *error)
{
    enum mp_status status = write_symbols(recording, error);
    if (!status) status = write_coverage(recording, how, text, error);
    if (!status) status = write_samples(recording, error);
    if (!status) status = mp_writer_exit(recording->writer, how, error);
    if (status) return status;
    status = mp_writer_finish(recording->writer, error);
    recording->writer = NULL;
    return status;
}

static void summarise(struct mp_recording *recording, struct mp_recording_summary *summary)
{
    const struct mp_wire_track *tracks = mp_spool_entries(recording->spool.header, MP_TABLE_TRACKS);
    summary->events = recording->events;
    summary->dropped = count_dropped(recording->spool.header);
    for (size_t i = 0; i < recording->ledger.tracks.count; i++) {
        const struct mp_ledger_track *track = &recording->ledger.tracks.at[i];
        if (*summary->track_id && track->peak_bytes <= summary->track.peak_bytes) continue;
        summary->track = *track;
        size_t length;
        uint32_t name = mp_tables_spool_string(&recording->tables, tracks[i].name);
        const char *pool = mp_intern_get(&recording->tables.strings, name, &length);
        mp_format_track_id(summary->track_id, sizeof summary->track_id, tracks[i].device_type, tracks[i].device_index,
                           tracks[i].layer, pool, length);
    }
}

void mp_recording_finish(struct mp_recording *recording, struct mp_exit how, const char *text, mp_recording_name *name,
                         void *context, struct mp_recording_summary *summary)
{
    *summary = (struct mp_recording_summary){0};
    how.time_ns = since_start(recording, mp_clock_monotonic_ns());
    mp_recording_round(recording, true, name, context);
    struct mp_error error;
    if (recording->writer && !recording->failed) {
        fail(recording, finish_file(recording, &how, text, &error), &error);
        summary->duration_ns = how.time_ns;
    }
    struct stat facts;
    if (recording->path && stat(recording->path, &facts) == 0) summary->file_bytes = (uint64_t)facts.st_size;
    summarise(recording, summary);
    summary->path = recording->path;
    recording->path = NULL;
    summary->failed = recording->failed;
    summary->failure = recording->failure;
    mp_recording_free(recording, true);
}

void mp_recording_free(struct mp_recording *recording, bool remove_spool)
{
    if (!recording) return;
    mp_writer_abandon(recording->writer);
    if (recording->symbols) mp_symbols_close(recording->symbols);
    if (recording->spool.header) {
        atomic_store(&recording->spool.header->collector_left, 1);
        mp_spool_file_wake(&recording->spool);
    }
    mp_spool_file_close(&recording->spool, remove_spool);
    mp_tables_free(&recording->tables);
    mp_ledger_free_all(&recording->ledger);
    mp_vec_free(&recording->pending);
    mp_vec_free(&recording->pending_live);
    mp_vec_free(&recording->samples);
    mp_vec_free(&recording->notes);
    free(recording->path);
    free(recording);
}
