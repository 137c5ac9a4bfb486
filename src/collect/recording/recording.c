#include "collect/recording/recording.h"
#include "collect/recording/program_name.h"
#include "collect/recording/recording_bound.h"
#include "collect/recording/recording_devices.h"
#include "collect/recording/recording_take.h"
#include "collect/recording/recording_write.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/setting.h"
#include "base/units.h"

#define WRITE_AFTER_NS (2 * MP_NS_PER_SECOND)
/* In this first time, samples are taken more often, so that short runs have enough samples. */
#define FIRST_NS              (5 * MP_NS_PER_SECOND)
#define SAMPLE_EVERY_FIRST_NS (10 * MP_NS_PER_MS)
#define SAMPLE_EVERY_NS       (50 * MP_NS_PER_MS)
#define PRIVATE_EVERY_NS      (500 * MP_NS_PER_MS) /* a sample takes some ms for a process of 1 GiB */

static const char *name_text(const void *strings, uint32_t name)
{
    return mp_intern_get(strings, name, NULL);
}

struct mp_recording *mp_recording_new(struct mp_spool_file *spool, bool symbols, mp_recording_name *name,
                                      void *name_context, struct mp_error *error)
{
    struct mp_recording *recording = calloc(1, sizeof *recording);
    if (!recording) {
        mp_fail(error, MP_NO_MEMORY, "out of memory for a recording");
        return NULL;
    }
    if (symbols && mp_symbols_open(&recording->symbols, error)) {
        free(recording);
        return NULL;
    }
    recording->spool = *spool;
    recording->id = recording->spool.header->spool_id;
    *spool = (struct mp_spool_file){.fd = -1};
    const char *configuration = recording->spool.header->configuration;
    mp_state_open(&recording->state, configuration, name_text, &recording->tables.strings);
    mp_step_rule_only_asked(&recording->state.steps); /* a schedule counts marked steps only */
    mp_setting(recording->step_at, sizeof recording->step_at, configuration, "step_at");
    mp_record_config_defaults(&recording->config);
    mp_record_config_parse(configuration, &recording->config);
    recording->window.is_open = !recording->config.paused;
    recording->state.ledger.paused = recording->config.paused;
    recording->bound.max_events = recording->config.max_events;
    recording->file.name = name;
    recording->file.name_context = name_context;
    recording->pid = recording->spool.header->pid;
    snprintf(recording->root, sizeof recording->root, "/proc/%u/root", recording->pid);
    (void)mp_recording_look_at_root(recording);
    return recording;
}

void mp_recording_schedule(struct mp_recording *recording, const struct mp_schedule *schedule)
{
    struct mp_spool_header *spool = recording->spool.header;
    recording->window.schedule = schedule;
    recording->window.is_open = false;
    recording->state.ledger.paused = true;
    if (!mp_schedule_format(schedule, spool->schedule, sizeof spool->schedule)) *spool->schedule = '\0';
}

const struct mp_schedule_position *mp_recording_resume(struct mp_recording *recording)
{
    const struct mp_spool_header *spool = recording->spool.header;
    uint64_t taken = mp_drain_taken(&recording->drain), first = atomic_load(&spool->schedule_marks[0].taken),
             second = atomic_load(&spool->schedule_marks[1].taken);
    bool is_second = second <= taken && (first > taken || second > first);
    recording->window.state.position = spool->schedule_marks[is_second].position;
    return &recording->window.state.position;
}

void mp_recording_ends_early(struct mp_recording *recording, const char *why)
{
    uint32_t id = mp_intern_text(&recording->tables.strings, why);
    if (id != MP_INTERN_FAILED) recording->ends_early = id;
}

void mp_recording_lacks_processes(struct mp_recording *recording, const char *why)
{
    uint32_t id = mp_intern_text(&recording->tables.strings, why);
    if (id != MP_INTERN_FAILED) recording->lacks_processes = id;
}

static void sample_one(struct mp_recording *recording, const char *counter, uint64_t now, uint64_t value,
                       uint64_t *last)
{
    if (value == *last) return;
    uint32_t id = mp_intern_text(&recording->tables.strings, counter);
    struct mp_sample sample = {.time_ns = mp_recording_time(recording, now), .counter = id, .value = value};
    if (id != MP_INTERN_FAILED && mp_vec_push(&recording->samples, sample)) *last = value;
}

/* Bytes of pages that a worker shared with its parent until it wrote to them. Reading a Python object writes its count
 * of references. Shared pages of libraries do not count: they are clean, and become private when another process ends.
 * The kernel walks all pages for this number. */
static void sample_copied(struct mp_recording *recording, uint64_t now)
{
    char path[64], line[128];
    unsigned long long kib = 0;
    if (!*recording->spool.header->member.role || now - recording->pages.last_private_ns < PRIVATE_EVERY_NS) return;
    recording->pages.last_private_ns = now;
    snprintf(path, sizeof path, "/proc/%u/smaps_rollup", recording->pid);
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "Shared_Dirty: %llu", &kib) == 1;
    if (file) fclose(file);
    if (!found) return;
    uint64_t inherited = (uint64_t)kib << 10;
    if (inherited > recording->pages.inherited_bytes) recording->pages.inherited_bytes = inherited;
    uint64_t copied = recording->pages.inherited_bytes - inherited;
    if (copied > recording->pages.copied_bytes) recording->pages.copied_bytes = copied;
}

/* Shared memory of the process that is no file's, less what the recorder has of it: the program's own. */
static void sample_own_shared(struct mp_recording *recording, uint64_t now)
{
    char path[64], line[128];
    unsigned long long kib = 0;
    struct stat spool;
    snprintf(path, sizeof path, "/proc/%u/status", recording->pid);
    FILE *file = fopen(path, "re");
    while (file && !kib && fgets(line, sizeof line, file))
        if (sscanf(line, "RssShmem: %llu", &kib) == 1) break;
    if (file) fclose(file);
    if (fstat(recording->spool.fd, &spool)) return;
    uint64_t all = (uint64_t)kib << 10, ours = (uint64_t)spool.st_blocks * 512;
    if (all > ours || recording->pages.own_shared_bytes)
        sample_one(recording, "cpu/shared/own", now, all > ours ? all - ours : 0, &recording->pages.own_shared_bytes);
}

/* Bytes of files that the process has mapped to write them for all, from /proc/PID/maps. The kernel may write such
 * pages to the disk, but the mappings and files stay. Reading the list takes 1 ms for some 1 000
 * mappings: it is read if the address space has grown or shrunk, and for at most 5 % of the time. */
static void sample_mapped(struct mp_recording *recording, uint64_t now, uint64_t pages)
{
    char path[64], *line = NULL;
    size_t room = 0;
    uint64_t all = 0;
    struct stat spool;
    if (pages == recording->pages.mapped_pages || now < recording->pages.next_mapped_ns ||
        fstat(recording->spool.fd, &spool))
        return;
    recording->pages.mapped_pages = pages;
    snprintf(path, sizeof path, "/proc/%u/maps", recording->pid);
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &room, file) >= 0) {
        unsigned long long from, to, inode;
        int at = 0;
        const char *rights = strchr(line, ' ');
        if (!rights || strncmp(rights, " rw-s", 5)) continue; /* most of them */
        if (sscanf(line, "%llx-%llx %*s %*x %*x:%*x %llu %n", &from, &to, &inode, &at) < 3 || line[at] != '/') continue;
        if (inode != spool.st_ino && strncmp(line + at, "/memfd:", 7) && strncmp(line + at, "/dev/", 5) &&
            strncmp(line + at, "/SYSV", 5))
            all += to - from;
    }
    free(line);
    if (file) fclose(file);
    sample_one(recording, "cpu/mapped", now, all, &recording->pages.mapped_bytes);
    recording->pages.next_mapped_ns = now + 20 * (mp_clock_monotonic_ns() - now);
}

/* Bytes of the files in /dev/shm that the process made by shm_open(): they stay when nobody maps them. Reading the list
 * takes at most 5 % of the time. */
static void sample_shm(struct mp_recording *recording, uint64_t now)
{
    struct mp_recording_pages *pages = &recording->pages;
    const struct mp_spool_seen *seen = &recording->spool.header->seen;
    for (uint32_t made = atomic_load(&seen->shm_made); pages->shm_read < made; pages->shm_read++)
        (void)mp_map_insert(&pages->shm_files, atomic_load(&seen->inodes[pages->shm_read % MP_SPOOL_SHM]) + 1, NULL);
    if (now < pages->next_shm_ns || !pages->shm_files.count) return;
    DIR *folder = opendir("/dev/shm");
    uint64_t all = 0;
    struct stat file;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (mp_map_find(&pages->shm_files, entry->d_ino + 1) &&
            !fstatat(dirfd(folder), entry->d_name, &file, AT_SYMLINK_NOFOLLOW))
            all += (uint64_t)file.st_blocks * 512;
    if (folder) closedir(folder);
    sample_one(recording, "cpu/shm", now, all, &pages->shm_bytes);
    pages->next_shm_ns = now + 20 * (mp_clock_monotonic_ns() - now);
}

/* Resident and shared memory of the process, from /proc/PID/statm (pages). */
static void sample_memory(struct mp_recording *recording)
{
    uint64_t now = mp_clock_monotonic_ns();
    if (!recording->first_sample_ns) recording->first_sample_ns = now;
    uint64_t every = now - recording->first_sample_ns < FIRST_NS ? SAMPLE_EVERY_FIRST_NS : SAMPLE_EVERY_NS;
    if (now - recording->last_sample_ns < every) return;
    recording->last_sample_ns = now;
    char path[64], text[128];
    snprintf(path, sizeof path, "/proc/%u/statm", recording->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    unsigned long long pages, resident, shared;
    if (length <= 0) return;
    text[length] = '\0';
    if (sscanf(text, "%llu %llu %llu", &pages, &resident, &shared) != 3 || !resident) return;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    sample_one(recording, "cpu/resident", now, resident * page, &recording->pages.resident_bytes);
    sample_one(recording, "cpu/shared", now, shared * page, &recording->pages.shared_bytes);
    sample_own_shared(recording, now);
    sample_mapped(recording, now, pages);
    sample_shm(recording, now);
    sample_copied(recording, now);
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

bool mp_recording_round(struct mp_recording *recording, bool process_ended)
{
    if (recording->file.failed) return false;
    struct mp_spool_header *spool = recording->spool.header;
    atomic_store(&spool->rung, 0);
    if (!process_ended) {
        if (mp_spool_file_grow(&recording->spool)) mp_spool_file_wake(&recording->spool);
        if (recording->file.writer) sample_memory(recording); /* without a file, samples would only accumulate */
    }
    mp_device_samples_round(recording);
    bool pressing = mp_drain_is_pressing(spool);
    mp_drain_take(&recording->drain, spool, process_ended, mp_recording_take, recording);
    struct mp_error error;
    if (process_ended) mp_recording_check(recording, mp_recording_look_at_last_ooms(recording, &error), &error);
    if (recording->file.failed) return false;
    read_notes(recording);
    bool first = recording->pending.count && !recording->file.writer;
    bool late = mp_clock_monotonic_ns() - recording->last_write_ns >= WRITE_AFTER_NS;
    bool something =
        recording->pending.count ||
        (recording->file.writer && (recording->samples.count || recording->labels.count || recording->holders.count ||
                                    recording->operators.uses.count || recording->history.requests.count));
    if (!(pressing || process_ended || first || (late && something))) return true;
    return mp_recording_check(recording, mp_recording_write(recording, false, &error), &error);
}

#define ROOM(vec) ((vec).room * sizeof *(vec).at)

static uint64_t of_map(const struct mp_map *map)
{
    return map->room * sizeof *map->slots;
}

static uint64_t of_texts(const struct mp_intern *texts)
{
    return texts->text_room + texts->room * sizeof *texts->offsets + texts->slot_room * sizeof *texts->slots;
}

static uint64_t of_spool(const struct mp_spool_header *spool)
{
    uint64_t bytes = MP_SPOOL_HEADER_BYTES + atomic_load(&spool->rings_committed) * MP_RING_BYTES;
    for (int i = 0; i < MP_TABLES; i++)
        bytes += atomic_load(&spool->tables[i].committed) * mp_spool_entry_bytes((enum mp_spool_table_id)i);
    return bytes;
}

void mp_recording_memory(const struct mp_recording *recording, struct mp_recording_memory *memory)
{
    const struct mp_ledger *ledger = &recording->state.ledger;
    const struct mp_tables *tables = &recording->tables;
    *memory = (struct mp_recording_memory){
        .spool = of_spool(recording->spool.header),
        .ledger = of_map(&ledger->by_address) + ROOM(ledger->blocks) + ROOM(ledger->births) + ROOM(ledger->free_slots) +
                  ROOM(ledger->tracks) + ROOM(ledger->freed_unseen),
        .tables = of_texts(&tables->strings) + of_map(&tables->spool_strings) + ROOM(tables->devices) +
                  ROOM(tables->device_keys) + ROOM(tables->threads) + ROOM(tables->lane_thread),
        .events = ROOM(recording->pending) + ROOM(recording->pending_live) + ROOM(recording->labels) +
                  ROOM(recording->holders) + ROOM(recording->operators.uses) + of_map(&recording->operators.last) +
                  ROOM(recording->window.unkept_steps) + ROOM(recording->samples) + ROOM(recording->notes) +
                  ROOM(recording->state.open) + ROOM(recording->state.reserved) +
                  of_map(&recording->usual_roles.by_kind) + ROOM(recording->lives.ended) +
                  ROOM(recording->lives.begun_ns) + mp_history_bytes(&recording->history),
        .file = recording->file.writer ? mp_writer_memory(recording->file.writer) : 0,
    };
}

uint64_t mp_recording_memory_sum(const struct mp_recording_memory *memory)
{
    return memory->ledger + memory->tables + memory->events + memory->file;
}

void mp_recording_summarise(struct mp_recording *recording, struct mp_recording_summary *summary)
{
    const struct mp_wire_track *tracks = mp_spool_entries(recording->spool.header, MP_TABLE_TRACKS);
    uint64_t held_bytes = 0;
    bool best_holds = false;
    mp_recording_memory(recording, &summary->memory);
    summary->events = recording->events;
    summary->kept = recording->bound.file_events;
    summary->dropped = mp_recording_dropped(recording->spool.header);
    summary->full = mp_recording_ring_full(recording->spool.header);
    summary->lacks_names = mp_recording_lacks_names(recording->spool.header);
    summary->steps = recording->state.ledger.steps;
    mp_recording_step_functions(recording, summary->functions, sizeof summary->functions);
    summary->sample_bytes = recording->config.sample_bytes;
    summary->attached = recording->config.attached;
    summary->scheduled = recording->window.schedule != NULL;
    summary->copied_bytes = recording->pages.copied_bytes;
    summary->ends_early = recording->ends_early != 0;
    summary->lacks_processes = recording->lacks_processes != 0;
    summary->pid = recording->pid;
    bool grouped = recording->group.known;
    summary->member = grouped ? recording->group : mp_member_copy(&recording->spool.header->member);
    summary->under_rank = recording->under_rank && !grouped;
    summary->how = recording->how;
    memcpy(summary->how_text, recording->how_text, sizeof summary->how_text);
    mp_program_name(recording->spool.header->command, sizeof recording->spool.header->command, summary->program);
    summary->ooms = recording->ooms.last_ns || recording->ooms.refusals.count || recording->ooms.passed_over;
    for (size_t i = 0; i < recording->state.ledger.tracks.count; i++) {
        const struct mp_ledger_track *track = &recording->state.ledger.tracks.at[i];
        size_t length;
        uint32_t name = mp_tables_spool_string(&recording->tables, tracks[i].name);
        const char *pool = mp_intern_get(&recording->tables.strings, name, &length);
        bool holds = mp_track_holds_memory(tracks[i].layer, pool);
        bool on_device = tracks[i].device_type != MP_DEVICE_CPU && track->peak_bytes;
        summary->used_device |= on_device;
        if (holds) held_bytes += track->peak_bytes;
        if (track->peak_bytes > summary->all_peak_bytes) summary->all_peak_bytes = track->peak_bytes;
        if (on_device && holds && track->peak_bytes > summary->device_peak_bytes)
            summary->device_peak_bytes = track->peak_bytes;
        if (*summary->track_id && (holds == best_holds ? track->peak_bytes <= summary->track.peak_bytes : best_holds))
            continue;
        best_holds = holds;
        summary->track = *track;
        mp_format_track_id(summary->track_id, sizeof summary->track_id, tracks[i].device_type, tracks[i].device_index,
                           tracks[i].layer, pool, length);
    }
    if (held_bytes > summary->all_peak_bytes) summary->all_peak_bytes = held_bytes;
    uint64_t step = mp_recording_public_step(recording, summary->track.peak_step);
    summary->behind_step = step != summary->track.peak_step;
    summary->track.peak_step = step;
    for (size_t i = 0; i < MP_DEVICES_SEEN; i++)
        summary->has_totals |= recording->devices.devices[i].begun && recording->devices.devices[i].gpu >= 0;
}

bool mp_recording_is_in_place(const struct mp_recording_summary *summary)
{
    struct stat now;
    return summary->path && !summary->failed && !lstat(summary->path, &now) && now.st_dev == summary->device &&
           now.st_ino == summary->inode;
}

bool mp_recording_is_rank(const struct mp_recording_summary *summary)
{
    return mp_member_knows(&summary->member, MP_MEMBER_RANK) && !mp_member_is_helper(&summary->member) &&
           !summary->under_rank;
}

bool mp_recording_ended_well(const struct mp_recording_summary *summary)
{
    const struct mp_exit *how = &summary->how;
    if (!how->known) return false;
    if (!strcmp(summary->member.role, MP_ROLE_RAY) && !how->by_signal && how->status == 1) return true; /* by Ray */
    return how->by_signal ? how->status == SIGTERM && mp_member_is_helper(&summary->member) : !how->status;
}

/* Writes the state at the end, if events were left out after the last window. */
static void write_end(struct mp_recording *recording)
{
    struct mp_error error;
    /* Blocks that lived only after the window are not in the file. So the time since then is written as a single
     * step. */
    if (recording->window.unkept_steps.count) recording->window.unkept_steps.count = 1;
    enum mp_status status = mp_recording_write_gap(recording, 0, &error);
    if (!status) status = mp_recording_write(recording, true, &error);
    mp_recording_check(recording, status, &error);
}

void mp_recording_end(struct mp_recording *recording, struct mp_exit how, const char *text)
{
    recording->ended = true;
    recording->how = how;
    recording->how.time_ns = mp_recording_time(recording, mp_clock_monotonic_ns());
    snprintf(recording->how_text, sizeof recording->how_text, "%s", text);
    char copied[MP_UNIT_TEXT], note[160];
    snprintf(note, sizeof note, "%s" MP_COPIED_NOTE, mp_format_bytes(copied, recording->pages.copied_bytes));
    if (recording->pages.copied_bytes >= MP_COPIED_MIN) mp_recording_note(recording, note);
    mp_recording_round(recording, true);
    if (!recording->window.is_open && recording->file.writer && !recording->file.failed) write_end(recording);
    /* A process that still has this spool mapped need no longer wait for us. */
    atomic_store(&recording->spool.header->collector_left, 1);
    mp_spool_file_wake(&recording->spool);
}

void mp_recording_forgo_symbols(struct mp_recording *recording)
{
    if (recording->symbols) mp_symbols_close(recording->symbols);
    recording->symbols = NULL;
}

void mp_recording_finish(struct mp_recording *recording, struct mp_recording_summary *summary)
{
    *summary = (struct mp_recording_summary){0};
    struct mp_error error;
    struct mp_recording_memory memory;
    mp_recording_memory(recording, &memory);
    bool replaced = recording->file.writer && recording->file.path &&
                    mp_writer_is_replaced(recording->file.writer, recording->file.path);
    if (recording->file.writer && !recording->file.failed) {
        enum mp_status status = mp_recording_bound_end(recording, &error);
        if (!status) status = mp_recording_write_end(recording, &error);
        mp_recording_check(recording, status, &error);
        summary->duration_ns = recording->how.time_ns;
    }
    struct stat facts;
    if (recording->file.path && stat(recording->file.path, &facts) == 0) {
        summary->file_bytes = (uint64_t)facts.st_size;
        summary->device = facts.st_dev;
        summary->inode = facts.st_ino;
    }
    mp_recording_summarise(recording, summary);
    summary->memory = memory;
    summary->path = recording->file.path;
    recording->file.path = NULL;
    summary->failed = recording->file.failed;
    summary->failure = recording->file.failure;
    summary->replaced = replaced;
    if (replaced)
        summary->failed = mp_fail(&summary->failure, MP_IO, "another program has put a file of its own in its place");
}

void mp_recording_free(struct mp_recording *recording, bool remove_spool)
{
    if (!recording) return;
    mp_recording_bound_free(recording);
    mp_writer_abandon(recording->file.writer);
    if (recording->symbols) mp_symbols_close(recording->symbols);
    if (recording->spool.header) {
        atomic_store(&recording->spool.header->collector_left, 1);
        mp_spool_file_wake(&recording->spool);
    }
    mp_spool_file_close(&recording->spool, remove_spool);
    mp_tables_free(&recording->tables);
    mp_state_close(&recording->state);
    mp_device_samples_free(&recording->devices);
    mp_lives_free(&recording->lives);
    mp_usual_roles_free(&recording->usual_roles);
    mp_vec_free(&recording->pending);
    mp_vec_free(&recording->pending_live);
    mp_vec_free(&recording->labels);
    mp_vec_free(&recording->asides);
    mp_vec_free(&recording->holders);
    mp_vec_free(&recording->operators.uses);
    mp_map_free(&recording->operators.last);
    mp_history_free(&recording->history);
    mp_vec_free(&recording->ooms.requests);
    mp_vec_free(&recording->ooms.refusals);
    mp_vec_free(&recording->window.unkept_steps);
    mp_vec_free(&recording->samples);
    mp_map_free(&recording->pages.shm_files);
    mp_vec_free(&recording->notes);
    free(recording->file.path);
    free(recording);
}
