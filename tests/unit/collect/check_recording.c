/*
 * Recordings of random programs, compared with the truth. Some are complete, bounded or in windows, others end by a
 * kill. Snapshots of now and live blocks are compared, too. Each comparison covers every field (unit/whole.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/sites/peak.h"
#include "collect/fold/fold.h"
#include "collect/metrics/metrics_text.h"
#include "collect/recording/live_file.h"
#include "collect/recording/recording.h"
#include "collect/recover/recover.h"
#include "collect/session/snapshots.h"
#include "model/load.h"
#include "unit/collect/traffic.h"
#include "unit/suite.h"
#include "unit/whole.h"
#include "wire/config.h"

static char folder[] = "/tmp/memprof-recording-XXXXXX";
static pid_t maker; /* the process that made the folder: each test is a child, and also runs destructors */

static const char *in_folder(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static struct mp_model *load(const char *path)
{
    struct mp_model *model;
    struct mp_error error;
    enum mp_status status = mp_model_load(path, &model, &error);
    ck_assert_msg(!status, "%s", status ? error.text : "");
    return model;
}

static struct mp_recording_summary end(struct mp_recording *recording)
{
    struct mp_recording_summary summary;
    mp_recording_end(recording, (struct mp_exit){.known = true, .status = 3}, "exit 3");
    mp_recording_finish(recording, &summary);
    ck_assert_msg(!summary.failed, "%s", summary.failure.text);
    mp_recording_free(recording, true);
    traffic_now_ns = 0;
    return summary;
}

/* Checks the parts of the recording other than events. */
static void check_coverage(const struct traffic *traffic, const struct mp_model *model)
{
    const struct mp_coverage *coverage = &model->coverage;
    ck_assert_uint_eq(coverage->events, traffic->events.count);
    ck_assert_uint_eq(coverage->dropped, 4 + 5 + 6 + 7);
    ck_assert_uint_eq(coverage->truncated_stacks, 11);
    ck_assert_uint_eq(coverage->unmatched_stacks, 12);
    ck_assert_uint_eq(coverage->unknown_frees, traffic->unknown_frees);
    ck_assert_uint_eq(coverage->missed_frees, traffic->missed_frees);
    ck_assert_uint_eq(mp_model_event_count(model), traffic->events.count - traffic->missed_frees);
    ck_assert_uint_eq(coverage->totals_checked, traffic->totals_checked);
    ck_assert_uint_eq(coverage->totals_wrong, 0);
    ck_assert_uint_eq(coverage->source_count, 2);
    ck_assert_str_eq(mp_model_text(model, coverage->sources[0]), "torch");
    ck_assert_str_eq(mp_model_text(model, coverage->sources[1]), "hooks");
    bool told = false;
    for (uint32_t i = 0; i < coverage->note_count; i++)
        told |= !strcmp(mp_model_text(model, coverage->notes[i]),
                        "4 events were dropped: another thread held the recorder's tables for too long to look up "
                        "their tracks");
    ck_assert(told);
    ck_assert_uint_eq(coverage->limit_count, 1); /* without_lock: a driver's block may be missing */
    ck_assert(model->how.known && !model->how.by_signal);
    ck_assert_uint_eq(model->how.status, 3);
    ck_assert_str_eq(mp_model_text(model, model->how.text), "exit 3");
}

static void check_start(const struct mp_model *model)
{
    ck_assert_uint_eq(model->start.monotonic_ns, TRAFFIC_START_NS);
    ck_assert_uint_eq(model->start.realtime_ns, 77);
    ck_assert_uint_eq(model->start.spool_id, traffic_spool_id);
    ck_assert_str_eq(model->start.host, "node-7");
    ck_assert_str_eq(model->start.command[0], "python3");
    ck_assert_str_eq(model->start.command[1], "train.py");
    ck_assert_ptr_null(model->start.command[2]);
}

static void set_counters(struct mp_spool_header *spool)
{
    spool->losses.without_lock = 1;
    spool->losses.dropped_no_ring = 5;
    spool->losses.dropped_no_track = 4;
    spool->rings[0].dropped = 6;
    spool->rings[2].dropped = 7;
    spool->losses.truncated_stacks = 11;
    spool->losses.unmatched_stacks = 12;
    spool->sources = MP_SOURCE_TORCH | MP_SOURCE_HOOKS | MP_SOURCE_SHIM;
    spool->sources &= ~(unsigned)MP_SOURCE_SHIM;
}

#define BUT (WHOLE_BUT_FILE | WHOLE_BUT_START | WHOLE_BUT_COVERAGE | WHOLE_BUT_EXIT)

static const struct mp_ledger_track *highest(const struct mp_recording_summary *summary, const struct mp_model *model,
                                             uint16_t *track)
{
    *track = 0;
    for (uint16_t i = 1; i < model->sums.count; i++)
        if (model->sums.at[i].peak_bytes > model->sums.at[*track].peak_bytes) *track = i;
    return &summary->track;
}

START_TEST(all_is_kept)
{
    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct traffic traffic;
        const char *path = in_folder("all.mp");
        traffic_make(&traffic, seed, 20 + seed * 120, TRAFFIC_HISTORY | TRAFFIC_STEPS);
        struct mp_recording *recording = traffic_record(&traffic, path, NULL, folder);
        set_counters(recording->spool.header);
        traffic_play(&traffic, recording, 0, traffic.records.count);
        struct mp_recording_summary summary = end(recording);
        struct mp_model *model = load(path), *wanted = traffic_model(&traffic);
        ck_whole_model_eq(model, wanted, BUT);
        check_coverage(&traffic, model);
        check_start(model);
        traffic_check_live(&traffic, model);
        uint16_t track;
        const struct mp_ledger_track *reported = highest(&summary, model, &track);
        ck_assert_uint_eq(reported->peak_bytes, model->sums.at[track].peak_bytes);
        ck_assert_uint_eq(reported->peak_ns, model->sums.at[track].peak_ns);
        ck_assert_uint_eq(reported->bytes, model->sums.at[track].end_bytes);
        ck_assert_uint_eq(reported->blocks, model->sums.at[track].end_blocks);
        ck_assert_str_eq(summary.track_id, traffic_track_ids[track]);
        ck_assert_uint_eq(summary.events, traffic.events.count - traffic.missed_frees);
        ck_assert_uint_eq(summary.kept, traffic.events.count);
        ck_assert_uint_eq(summary.dropped, 4 + 5 + 6 + 7);
        ck_assert_uint_eq(summary.steps, traffic.steps);
        ck_assert_uint_eq(summary.file_bytes, model->file.bytes);
        free(summary.path);
        mp_model_free(model);
        mp_model_free(wanted);
        traffic_free(&traffic);
    }
}

/* Steps that the program does not mark: --step-at. */
START_TEST(calls_of_a_function_are_steps)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct traffic traffic;
        struct mp_record_config config;
        const char *path = in_folder("all.mp");
        mp_record_config_defaults(&config);
        snprintf(config.step_at, sizeof config.step_at, "%s", TRAFFIC_STEP_FUNCTION);
        traffic_make(&traffic, seed, 600 + seed * 60, TRAFFIC_STEPS | TRAFFIC_STEP_AT);
        struct mp_recording *recording = traffic_record(&traffic, path, &config, folder);
        traffic_play(&traffic, recording, 0, traffic.records.count);
        struct mp_recording_summary summary = end(recording);
        struct mp_model *model = load(path), *wanted = traffic_model(&traffic);
        struct mp_steps steps = {0};
        ck_whole_model_eq(model, wanted, BUT);
        mp_steps_marked(model, &steps);
        ck_assert_str_eq(mp_steps_source(&steps), "function");
        ck_assert_uint_eq(steps.count, traffic.steps_at);
        ck_assert_uint_eq(summary.steps, traffic.steps_at);
        ck_assert_uint_gt(steps.count, 2);
        mp_steps_free(&steps);
        free(summary.path);
        mp_model_free(model);
        mp_model_free(wanted);
        traffic_free(&traffic);
    }
}

/* ---- killed ------------------------------------------------------------------------------------------------------ */

static enum mp_status name_recovered(void *context, struct mp_recording *recording, char **path, int *fd,
                                     struct mp_error *error)
{
    (void)recording;
    (void)error;
    *path = strdup(context);
    *fd = open(*path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return MP_OK;
}

/* Plays a collector that is killed after a round, while the program goes on for some records. */
static void play_and_die(const struct traffic *traffic, const char *path, const struct mp_record_config *config,
                         size_t taken, size_t count)
{
    pid_t child = fork();
    if (!child) {
        struct mp_recording *recording = traffic_record(traffic, path, config, folder);
        set_counters(recording->spool.header);
        traffic_play(traffic, recording, 0, taken);
        traffic_put(traffic, recording->spool.header, taken, count);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

static struct mp_model *recover(const char *path)
{
    struct mp_recovery recovery;
    struct mp_error error;
    char *name = strdup(in_folder("recovered.mp"));
    enum mp_status status = mp_recover(path, name_recovered, name, &recovery, &error);
    ck_assert_msg(!status, "%s", status ? error.text : "");
    ck_assert(recovery.had_spool);
    struct mp_model *model = load(name);
    free(recovery.summary.path);
    free(name);
    return model;
}

START_TEST(a_kill_loses_nothing)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct traffic traffic;
        const char *path = in_folder("killed.mp");
        traffic_make(&traffic, seed, 50 + seed * 50, TRAFFIC_STEPS);
        size_t count = traffic.records.count, taken = seed % 5 ? count * (seed % 7) / 7 : count;
        unlink(path);
        play_and_die(&traffic, path, NULL, taken, count);
        struct mp_model *model = recover(path), *wanted = traffic_model(&traffic);
        ck_whole_model_eq(model, wanted, BUT);
        traffic_check_live(&traffic, model);
        ck_assert_uint_eq(model->coverage.events, traffic.events.count);
        mp_model_free(model);
        mp_model_free(wanted);
        traffic_free(&traffic);
    }
}

/* ---- bounded ----------------------------------------------------------------------------------------------------- */

static void check_newest(const struct traffic *traffic, const struct mp_model *model, const struct mp_model *all,
                         size_t keep)
{
    size_t count = model->events.count;
    ck_assert_uint_eq(model->past.events + count, traffic->events.count);
    ck_assert_uint_le(count, keep);
    for (size_t i = 0; i < all->sums.count; i++) {
        const struct mp_model_track_sum *got = &model->sums.at[i], *wanted = &all->sums.at[i];
        ck_assert_uint_eq(got->peak_bytes, wanted->peak_bytes);
        ck_assert_uint_eq(got->peak_blocks, wanted->peak_blocks);
        ck_assert_uint_eq(got->peak_ns, wanted->peak_ns);
        ck_assert_uint_eq(got->end_bytes, wanted->end_bytes);
        ck_assert_uint_eq(got->end_blocks, wanted->end_blocks);
        ck_assert_uint_eq(got->reserved_peak_bytes, wanted->reserved_peak_bytes);
    }
    size_t again = 0; /* the events of an open region or a reserved total are repeated */
    while (again < count && model->events.time_ns[again] == model->past.time_ns)
        again++;
    for (size_t i = again; i < count; i++) {
        size_t at = all->events.count - count + i;
        ck_assert_uint_eq(model->events.type[i], all->events.type[at]);
        ck_assert_uint_eq(model->events.time_ns[i], all->events.time_ns[at]);
        ck_assert_uint_eq(model->events.thread[i], all->events.thread[at]);
        ck_assert_uint_eq(model->events.track[i], all->events.track[at]);
    }
}

START_TEST(the_newest_are_kept_whole)
{
    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct traffic traffic;
        struct mp_record_config config;
        const char *path = in_folder("bounded.mp");
        mp_record_config_defaults(&config);
        config.max_events = (uint32_t)(100 + seed * 20);
        traffic_make(&traffic, seed, 200 + seed * 100, TRAFFIC_HISTORY | TRAFFIC_STEPS);
        struct mp_recording *recording = traffic_record(&traffic, path, &config, folder);
        traffic_play(&traffic, recording, 0, traffic.records.count);
        struct mp_recording_summary summary = end(recording);
        struct mp_model *model = load(path), *all = traffic_model(&traffic);
        check_newest(&traffic, model, all, config.max_events);
        traffic_check_live(&traffic, model);
        ck_assert_uint_eq(summary.events, traffic.events.count - traffic.missed_frees);
        ck_assert_uint_eq(summary.kept, model->events.count);
        free(summary.path);
        mp_model_free(model);
        mp_model_free(all);
        traffic_free(&traffic);
    }
}

/* Writes records [from, to). Labels may come before their events; requests come after. */
static void write_part(struct mp_writer *writer, const struct traffic *traffic, const struct mp_model *all, size_t from,
                       size_t to)
{
    const struct mp_event *events = traffic->events.at;
    uint64_t live[TRAFFIC_TRACKS] = {0}, begin_ns = from ? events[from].time_ns : 0;
    uint64_t end_ns = to < traffic->events.count ? events[to].time_ns : UINT64_MAX;
    uint64_t first_block = UINT64_MAX, last_block = 0;
    struct mp_error error;
    for (uint32_t i = 0; i < all->blocks.count; i++) {
        uint32_t born = all->blocks.alloc_event[i];
        if ((born == MP_NONE || born < from) && all->blocks.free_event[i] >= from &&
            all->blocks.bytes[i] != MP_BYTES_UNKNOWN)
            live[all->blocks.track[i]] += all->blocks.bytes[i];
    }
    mp_vec_each (const struct mp_label, label, &traffic->labels) {
        if (label->time_ns >= begin_ns && label->time_ns < end_ns)
            ck_assert(!mp_writer_labels(writer, label, 1, &error));
    }
    for (size_t i = from; i < to; i++) {
        if (events[i].type != MP_EVENT_ALLOC) continue;
        if (first_block == UINT64_MAX) first_block = events[i].block;
        last_block = events[i].block;
    }
    ck_assert(!mp_writer_events(writer, events + from, to - from, live, TRAFFIC_TRACKS, NULL, 0, &error));
    for (size_t i = 0; first_block != UINT64_MAX && i < traffic->requests.count; i++) {
        const struct mp_block_request *request = &traffic->requests.at[i];
        if (request->block >= first_block && request->block <= last_block)
            ck_assert(!mp_writer_requests(writer, request, 1, &error));
    }
}

static struct mp_model *finish(struct mp_writer *writer)
{
    struct mp_written written;
    struct mp_error error;
    struct mp_coverage coverage = {0};
    struct mp_exit how = {.known = true};
    char path[64];
    ck_assert(!mp_writer_written(writer, &written, &error));
    free(written.chunks);
    int fd = dup(written.fd);
    ck_assert(!mp_writer_coverage(writer, &coverage, &error) && !mp_writer_exit(writer, &how, &error) &&
              !mp_writer_finish(writer, &error));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct mp_model *model = load(path);
    close(fd);
    return model;
}

/* The blocks live at a past peak, by site, module and kind, are complete. */
static void check_past_sites(const struct mp_model *model, uint16_t track, const struct mp_model *all, uint32_t moment)
{
    uint64_t bytes = 0, blocks = 0;
    for (size_t i = 0; i < model->past_sites.count; i++) {
        const struct mp_past_site *site = &model->past_sites.at[i];
        struct mp_past_site sum = {
            .stack = site->stack, .module = site->module, .track = site->track, .kind = site->kind};
        if (site->track != track) continue;
        for (uint32_t k = 0; k < all->blocks.count; k++) {
            uint32_t born = all->blocks.alloc_event[k];
            if (all->blocks.track[k] != track || all->blocks.stack[k] != site->stack ||
                all->blocks.kind[k] != site->kind || (born != MP_NONE && born >= moment) ||
                all->blocks.free_event[k] < moment ||
                strcmp(mp_model_text(all, mp_model_module(all, k)), mp_model_text(model, site->module)))
                continue;
            sum.blocks++;
            if (all->blocks.bytes[k] != MP_BYTES_UNKNOWN) sum.bytes += all->blocks.bytes[k];
        }
        struct mp_past_site reported = sum; /* there may be several entries of one */
        reported.bytes = reported.blocks = 0;
        mp_vec_each (const struct mp_past_site, other, &model->past_sites) {
            if (other->track != track || other->stack != site->stack || other->kind != site->kind ||
                other->module != site->module)
                continue;
            reported.bytes += other->bytes;
            reported.blocks += other->blocks;
        }
        ck_whole_eq(mp_past_site, &reported, &sum);
        bytes += site->bytes;
        blocks += site->blocks;
    }
    ck_assert_uint_eq(bytes, model->sums.at[track].peak_bytes);
    ck_assert_uint_eq(blocks, model->sums.at[track].peak_blocks);
}

/* Questions about the end of a file, or about its peak, have the same answers. */
static void check_same_answers(const struct mp_model *model, const struct mp_model *all)
{
    struct mp_open_regions got = {0}, wanted = {0};
    mp_regions_at(model, (uint32_t)model->events.count, &got);
    mp_regions_at(all, (uint32_t)all->events.count, &wanted);
    ck_assert_uint_eq(got.count, wanted.count);
    for (size_t i = 0; i < got.count; i++) {
        ck_assert_str_eq(mp_model_text(model, got.at[i].name), mp_model_text(all, wanted.at[i].name));
        ck_assert_uint_eq(got.at[i].thread, wanted.at[i].thread);
    }
    mp_open_regions_free(&got);
    mp_open_regions_free(&wanted);
    for (uint16_t track = 0; track < TRAFFIC_TRACKS; track++) {
        struct mp_peak_query query = {.track = track, .window = mp_window_all(model)};
        struct mp_peak peak, truth;
        mp_peak_find(model, &query, &peak);
        query.window = mp_window_all(all);
        mp_peak_find(all, &query, &truth);
        ck_assert_uint_eq(peak.bytes, truth.bytes);
        ck_assert_uint_eq(peak.blocks, truth.blocks);
        ck_assert_uint_eq(peak.ns, truth.ns);
        ck_assert_uint_eq(peak.step, truth.step);
        ck_assert_uint_eq(peak.sites.count, truth.sites.count);
        for (size_t i = 0; i < peak.sites.count; i++) {
            const struct mp_site *a = &peak.sites.at[i], *b = &truth.sites.at[i];
            ck_assert_uint_eq(a->bytes, b->bytes);
            ck_assert_uint_eq(a->blocks, b->blocks);
            ck_assert_uint_eq(a->stack, b->stack);
        }
        if (peak.in_past) check_past_sites(model, track, all, truth.moment);
        mp_peak_free(&peak);
        mp_peak_free(&truth);
    }
}

static void fold_in_place(struct mp_writer **writer, uint64_t *events, uint64_t keep)
{
    struct mp_written written;
    struct mp_folded folded;
    struct mp_error error;
    ck_assert(!mp_writer_written(*writer, &written, &error));
    enum mp_status status = mp_fold(&written, *events, keep, memfd_create("folded", 0), &folded, &error);
    ck_assert_msg(!status, "%s", status ? error.text : "");
    free(written.chunks);
    mp_writer_abandon(*writer);
    *writer = folded.writer;
    *events = folded.events;
}

START_TEST(folded_again_and_again)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct traffic traffic;
        traffic_make(&traffic, seed, 300 + seed * 30, TRAFFIC_HISTORY | TRAFFIC_STEPS);
        struct mp_model *all = traffic_model(&traffic);
        struct mp_writer *writer = traffic_write(&traffic, memfd_create("whole", 0));
        uint64_t events = 0, keep = 40 + seed * 5 % 90, dice = seed;
        for (size_t from = 0, to; from < traffic.events.count; from = to) {
            dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407;
            to = from + 1 + (dice >> 33) % 120;
            if (to > traffic.events.count) to = traffic.events.count;
            write_part(writer, &traffic, all, from, to);
            events += to - from;
            if (events > keep) fold_in_place(&writer, &events, keep);
        }
        struct mp_model *model = finish(writer);
        check_newest(&traffic, model, all, keep);
        traffic_check_live(&traffic, model);
        check_same_answers(model, all);
        mp_model_free(model);
        mp_model_free(all);
        traffic_free(&traffic);
    }
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

/* Checks that the events inside of windows are unchanged, and that blocks live over a pause are right afterwards. */
static void check_windows(const struct traffic *traffic, const struct mp_model *model, bool killed)
{
    size_t at = 0;
    bool open = true;
    for (size_t i = 0; i < traffic->events.count; i++) {
        const struct mp_event *event = &traffic->events.at[i];
        open |= event->type == MP_EVENT_START;
        if (!open) continue;
        if (event->type == MP_EVENT_STOP) open = false;
        if (event->type == MP_EVENT_RESERVED && killed) continue; /* changes during a pause died with the collector */
        while (at < model->events.count &&
               (model->events.time_ns[at] < event->time_ns || model->events.type[at] != event->type))
            at++; /* events of the pause, or the totals at its end */
        ck_assert_uint_lt(at, model->events.count);
        ck_assert_msg(model->events.time_ns[at] == event->time_ns, "event %zu, %s at %llu, is not there", i,
                      mp_event_type_name(event->type), (unsigned long long)event->time_ns);
        ck_assert_uint_eq(model->events.thread[at], event->thread);
        at++;
    }
}

START_TEST(windows_end_with_what_lives)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct traffic traffic;
        const char *path = in_folder("windows.mp");
        traffic_make(&traffic, seed, 50 + seed * 40, TRAFFIC_WINDOWS | TRAFFIC_HISTORY | TRAFFIC_STEPS);
        size_t count = traffic.records.count;
        unlink(path);
        bool kill = seed % 3 == 0;
        struct mp_model *model;
        if (kill) {
            play_and_die(&traffic, path, NULL, count * (seed % 10) / 10, count);
            model = recover(path);
            for (size_t i = 0; i < traffic.live.count;
                 i++) /* readings before the kill are not joined to later allocations */
                traffic.live.at[i].request = (struct mp_request){0};
            model->requests.count = 0;
        } else {
            struct mp_recording *recording = traffic_record(&traffic, path, NULL, folder);
            traffic_play(&traffic, recording, 0, count);
            struct mp_recording_summary summary = end(recording);
            free(summary.path);
            model = load(path);
        }
        traffic_check_live(&traffic, model);
        check_windows(&traffic, model, kill);
        mp_model_free(model);
        traffic_free(&traffic);
    }
}

/* ---- files of now ------------------------------------------------------------------------------------------------ */

static unsigned endings;
static struct mp_snapshot_outcome last_outcome;

static void ended(void *context, const struct mp_snapshot_outcome *now)
{
    (void)context;
    endings++;
    last_outcome = *now;
}

/* Asks as the program does: it makes the file itself, or passes errno. */
static void ask(struct mp_recording *recording, uint32_t number, const char *name)
{
    struct mp_error error;
    struct mp_snapshot_request request = {.number = number};
    ck_assert(!mp_tables_text(&recording->tables, in_folder(name), &request.path, &error));
    request.file = open(in_folder(name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    request.reason = request.file < 0 ? errno : 0;
    ck_assert(mp_vec_push(&recording->ooms.requests, request));
}

/* The test's process plays the program meanwhile, so its memory would be sampled. The program closes the files that it
 * made. */
static void serve(struct mp_snapshots *snapshots, struct mp_recording *recording)
{
    int file = recording->ooms.requests.at[recording->ooms.requests.count - 1].file;
    recording->pid = (uint32_t)getpid();
    mp_snapshots_serve(snapshots, recording);
    recording->pid = 0;
    if (file >= 0) close(file);
}

/* Each question gets an answer, with a file or without one. */
START_TEST(snapshots_are_of_their_moment)
{
    static const struct mp_snapshot_calls calls = {.ended = ended};
    struct mp_snapshots snapshots = {.calls = &calls};
    struct traffic whole, part;
    const char *path = in_folder("asked.mp");
    traffic_make(&whole, 3, 3000, TRAFFIC_STEPS);
    struct mp_recording *recording = traffic_record(&whole, path, NULL, folder);
    const struct mp_spool_snapshot_answer *answer = &recording->spool.header->snapshot_answer;
    uint64_t id;
    uint32_t number;
    bool written;
    size_t done = 0;
    for (uint32_t round = 1; round <= 4; round++) {
        traffic_make(&part, 3, round * 700, TRAFFIC_STEPS);
        traffic_play(&whole, recording, done, part.records.count);
        mp_recording_round(recording, false);
        done = part.records.count;
        endings = 0;
        if (round == 2) { /* fails, as its folder does not exist; the second question has no waiting program */
            ask(recording, 50, "no/such/folder.mp");
            ask(recording, 0, "no/such/folder.mp");
            serve(&snapshots, recording);
            ck_assert_uint_eq(answer->answered, 50);
            ck_assert_uint_eq(answer->written, 0);
            ck_assert_uint_eq(endings, 2);
            ck_assert_int_eq(last_outcome.status, MP_IO);
            ck_assert_ptr_nonnull(strstr(last_outcome.error.text, "no/such/folder.mp"));
            ck_assert_uint_eq(recording->ooms.requests.count, 0);
            ck_assert(!mp_snapshots_reap(&snapshots, true, &id, &number, &written));
            endings = 0;
        }
        unlink(in_folder("now.mp"));
        ask(recording, round, "now.mp");
        serve(&snapshots, recording);
        ck_assert_msg(mp_snapshots_reap(&snapshots, true, &id, &number, &written), "%u: %s", round,
                      last_outcome.error.text);
        ck_assert_uint_eq(number, round);
        ck_assert_uint_eq(id, recording->id);
        ck_assert(written);
        ck_assert_uint_eq(endings, 1);
        mp_snapshots_answer(recording, number, written);
        ck_assert_uint_eq(answer->answered, round);
        ck_assert_uint_eq(answer->written, 1);
        struct mp_model *model = load(in_folder("now.mp")), *wanted = traffic_model(&part);
        ck_whole_model_eq(model, wanted, BUT);
        traffic_check_live(&part, model);
        mp_model_free(model);
        mp_model_free(wanted);
        traffic_free(&part);
    }
    ask(recording, 60, "now.mp"); /* the file exists, and must not be replaced */
    serve(&snapshots, recording);
    ck_assert_uint_eq(answer->answered, 60);
    ck_assert_uint_eq(answer->written, 0);
    mp_snapshots_free(&snapshots);
    struct mp_recording_summary summary = end(recording);
    free(summary.path);
    traffic_free(&whole);
}

/* Checks the allocators' last reserved totals, by which readers know the memory behind blocks. */
static void check_reserved(const struct traffic *traffic, const struct mp_model *model)
{
    for (uint16_t track = 0; track < TRAFFIC_TRACKS; track++) {
        uint64_t reported = MP_BYTES_UNKNOWN;
        for (size_t i = 0; i < model->noted.count; i++)
            if (model->events.type[model->noted.at[i]] == MP_EVENT_RESERVED &&
                model->events.track[model->noted.at[i]] == track)
                reported = model->notes.at[i].bytes;
        ck_assert_uint_eq(reported, traffic->reserved[track]);
    }
}

/* The live blocks as `memprof leaks --pid` gets them: all blocks with all fields. */
START_TEST(what_is_live_is_told_whole)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct traffic traffic;
        struct mp_error error;
        const char *live = in_folder("live.mp");
        traffic_make(&traffic, seed, 100 + seed * 60, seed % 3 ? TRAFFIC_STEPS : 0);
        struct mp_recording *recording = traffic_record(&traffic, in_folder("lived.mp"), NULL, folder);
        traffic_play(&traffic, recording, 0, traffic.records.count);
        mp_recording_round(recording, true);
        int fd = open(live, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        enum mp_status status = mp_live_file_write(recording, fd, &error);
        ck_assert_msg(!status, "%s", status ? error.text : "");
        struct mp_recording_summary summary = end(recording);
        free(summary.path);
        struct mp_model *model = load(live);
        for (uint32_t i = 0; i < model->blocks.count; i++) /* births are those of their steps */
            if (model->blocks.free_event[i] == MP_NONE) model->blocks.alloc_event[i] = MP_NONE;
        traffic_check_live(&traffic, model);
        check_reserved(&traffic, model);
        ck_assert_uint_eq(model->coverage.events, traffic.events.count - traffic.missed_frees);
        mp_model_free(model);
        traffic_free(&traffic);
    }
}

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

/* The value of the line of metric `name` with these labels, escaped as the format defines; UINT64_MAX: no such line.
 */
static uint64_t metric(const char *text, const char *name, const char *track, const char *key, const char *value)
{
    char escaped[2][300], wanted[700];
    const char *plain[2] = {track, value};
    for (int i = 0; i < 2; i++) {
        char *to = escaped[i];
        for (const char *from = plain[i] ? plain[i] : ""; *from; from++) {
            if (*from == '"' || *from == '\\' || *from == '\n') *to++ = '\\';
            *to++ = *from == '\n' ? 'n' : *from;
        }
        *to = '\0';
    }
    if (key)
        snprintf(wanted, sizeof wanted, "%s{pid=\"0\",track=\"%s\",%s=\"%s\"} ", name, escaped[0], key, escaped[1]);
    else if (track)
        snprintf(wanted, sizeof wanted, "%s{pid=\"0\",track=\"%s\"} ", name, escaped[0]);
    else
        snprintf(wanted, sizeof wanted, "%s{pid=\"0\"} ", name);
    const char *line = strstr(text, wanted);
    if (!line || (line > text && line[-1] != '\n')) return UINT64_MAX;
    return strtoull(line + strlen(wanted), NULL, 10);
}

static uint64_t live_bytes(const struct traffic *traffic, uint16_t track, uint32_t module, uint64_t *blocks)
{
    uint64_t bytes = 0;
    *blocks = 0;
    mp_vec_each (const struct mp_base_block, block, &traffic->live) {
        if (block->track != track || (module && block->module != module)) continue;
        bytes += block->bytes;
        ++*blocks;
    }
    return bytes;
}

/* Checks the format: no two lines with the same labels, and each after the TYPE line of its name. */
static void check_exposition(const char *text)
{
    struct mp_intern lines = {0};
    char name[128] = "";
    mp_intern_bytes(&lines, "", 0);
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        if (sscanf(line, "# TYPE %127s", name) == 1 || *line == '#') continue;
        size_t length = strlen(name), labels = 0;
        ck_assert_msg(length && !strncmp(line, name, length), "%.*s", (int)(end - line), line);
        for (size_t i = 0; line + i < end; i++)
            if (line[i] == ' ') labels = i;
        uint32_t count = lines.count;
        mp_intern_bytes(&lines, line, labels);
        ck_assert_msg(lines.count == count + 1, "twice: %.*s", (int)(end - line), line);
    }
    mp_intern_free(&lines);
}

/* The ten modules that hold most are listed. Their sum is at most the track's bytes, and each number is right. */
START_TEST(metrics_say_what_is_true)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct traffic traffic;
        struct mp_buffer out = {0};
        traffic_make(&traffic, seed, 40 + seed * 40, TRAFFIC_STEPS);
        struct mp_recording *recording = traffic_record(&traffic, in_folder("measured.mp"), NULL, folder);
        set_counters(recording->spool.header);
        traffic_play(&traffic, recording, 0, traffic.records.count);
        mp_recording_round(recording, true);
        mp_metrics_write(&out, &recording, 1);
        mp_buffer_append(&out, "", 1);
        ck_assert(!out.failed);
        const char *text = (const char *)out.data;
        struct mp_model *truth = traffic_model(&traffic);
        unsigned modules = 0;
        for (uint16_t track = 0; track < TRAFFIC_TRACKS; track++) {
            const char *id = traffic_track_ids[track];
            uint64_t blocks, bytes = live_bytes(&traffic, track, 0, &blocks);
            ck_assert_uint_eq(metric(text, "memprof_live_bytes", id, NULL, NULL), bytes);
            ck_assert_uint_eq(metric(text, "memprof_live_blocks", id, NULL, NULL), blocks);
            ck_assert_uint_eq(metric(text, "memprof_peak_bytes", id, NULL, NULL), truth->sums.at[track].peak_bytes);
            ck_assert_uint_eq(metric(text, "memprof_reserved_bytes", id, NULL, NULL), traffic.reserved[track]);
            for (uint32_t module = 1; module < traffic.texts.count; module++) {
                const char *name = traffic_text(&traffic, module);
                uint64_t value = metric(text, "memprof_module_live_bytes", id, "module", name);
                uint64_t wanted = live_bytes(&traffic, track, module, &blocks);
                if (value == UINT64_MAX) continue;
                ck_assert_uint_eq(value, wanted);
                ck_assert_uint_gt(blocks, 0);
                modules++;
            }
        }
        ck_assert_uint_le(modules, MP_METRICS_SITES);
        ck_assert_uint_gt(modules, 4);
        ck_assert_uint_eq(metric(text, "memprof_events_total", NULL, NULL, NULL),
                          traffic.events.count - traffic.missed_frees);
        ck_assert_uint_eq(metric(text, "memprof_dropped_events_total", NULL, NULL, NULL), 4 + 5 + 6 + 7);
        ck_assert_uint_eq(metric(text, "memprof_steps_total", NULL, NULL, NULL), traffic.steps);
        ck_assert_str_eq(text + strlen(text) - 6, "# EOF\n");
        check_exposition(text);
        mp_model_free(truth);
        mp_buffer_free(&out);
        struct mp_recording_summary summary = end(recording);
        free(summary.path);
        traffic_free(&traffic);
    }
}

static void make_folder(void) __attribute__((constructor));
static void make_folder(void)
{
    if (!mkdtemp(folder)) exit(1);
    maker = getpid();
}

static void remove_folder(void) __attribute__((destructor));
static void remove_folder(void)
{
    static const char *const names[] = {"all.mp",   "killed.mp", "recovered.mp", "bounded.mp", "windows.mp",
                                        "asked.mp", "now.mp",    "live.mp",      "lived.mp",   "measured.mp"};
    if (getpid() != maker) return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(names[i]));
    rmdir(folder);
}

MP_SUITE("recording", all_is_kept, calls_of_a_function_are_steps, a_kill_loses_nothing, the_newest_are_kept_whole,
         folded_again_and_again, windows_end_with_what_lives, snapshots_are_of_their_moment, what_is_live_is_told_whole,
         metrics_say_what_is_true)
