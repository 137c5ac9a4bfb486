#include "cli/record/snapshot_closing.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/device/device_use.h"
#include "base/buffer.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/units.h"
#include "base/vec.h"
#include "cli/messages.h"
#include "model/load.h"
#include "model/model.h"
#include "model/track.h"

/* ---- the lines printed on stderr when the command has ended ---- */

#define READ_AGAIN_MAX (UINT64_C(64) << 20) /* only files up to this many bytes are read again */

/* Appends "; unattributed 0.6 GiB" if the device's total is known. The number is the same as in every report. */
static void put_unattributed(const struct mp_recording_summary *summary, char *text, size_t room)
{
    struct mp_model *model;
    struct mp_error ignored;
    struct mp_device_uses uses = {0};
    char number[MP_UNIT_TEXT];
    *text = '\0';
    if (!summary->has_totals || summary->file_bytes > READ_AGAIN_MAX || mp_model_load(summary->path, &model, &ignored))
        return;
    mp_device_uses_find(model, &uses);
    if (mp_device_unattributed(&uses) != MP_BYTES_UNKNOWN)
        snprintf(text, room, "; unattributed %s", mp_format_bytes(number, mp_device_unattributed(&uses)));
    mp_device_uses_free(&uses);
    mp_model_free(model);
}

/* The cost of recording the process (collect/recording/recording.h). */
static void print_memory(const struct mp_recording_memory *memory)
{
    char shared[MP_UNIT_TEXT], own[MP_UNIT_TEXT], live[MP_UNIT_TEXT], names[MP_UNIT_TEXT], rest[MP_UNIT_TEXT];
    mp_message(
        "it took %s shared with the program and %s of memprof's own: live blocks %s, names and threads %s, events "
        "and file %s",
        mp_format_bytes(shared, memory->spool), mp_format_bytes(own, mp_recording_memory_sum(memory)),
        mp_format_bytes(live, memory->ledger), mp_format_bytes(names, memory->tables),
        mp_format_bytes(rest, memory->events + memory->file));
}

/* Prints the lines of the main process. Advice comes last. */
static void print_summary(const struct mp_recording_summary *summary, bool with_memory)
{
    char events[MP_UNIT_TEXT], duration[MP_UNIT_TEXT], size[MP_UNIT_TEXT], peak[MP_UNIT_TEXT], moment[MP_UNIT_TEXT],
        outstanding[MP_UNIT_TEXT], step[48] = "", device[MP_ID_TEXT], rest[64];
    put_unattributed(summary, rest, sizeof rest);
    const struct mp_ledger_track *track = &summary->track;
    char shown[MP_SHOWN_ROOM];
    const char *path = mp_shown_path(shown, summary->path);
    char kept[MP_UNIT_TEXT + 32] = "";
    if (summary->kept < summary->events)
        snprintf(kept, sizeof kept, ", the newest %s kept", mp_format_count(size, summary->kept));
    mp_message("%s  %s events in %s%s, %s", path, mp_format_count(events, summary->events),
               mp_format_duration(duration, summary->duration_ns), kept, mp_format_bytes(size, summary->file_bytes));
    snprintf(device, sizeof device, "%s", summary->track_id);
    if (track->peak_step)
        snprintf(step, sizeof step, " (%sstep %llu)", summary->behind_step ? "after " : "",
                 (unsigned long long)track->peak_step);
    if (*device) /* without a device the recording has only steps, regions and marks */
        mp_message("%s  %speak %s at %s%s, %s outstanding at the end", device,
                   summary->scheduled ? "in the whole run: " : "", mp_format_bytes(peak, track->peak_bytes),
                   mp_format_duration(moment, track->peak_ns), step, mp_format_bytes(outstanding, track->bytes));
    if (with_memory) print_memory(&summary->memory);
    if (summary->dropped)
        mp_message("%s dropped%s.   Next: memprof report %s", mp_dropped_events(summary->dropped),
                   summary->full == summary->dropped ? ": the program was faster than the collector"
                                                     : ", and the report says why",
                   path);
    else if (summary->lacks_names)
        mp_message("all events, 0 dropped; but some have no stack or no name, and the report says why.   Next: memprof "
                   "report %s",
                   path);
    else
        mp_message("%s; 0 dropped%s.   Next: memprof report %s",
                   summary->sample_bytes      ? "a sample of the blocks, whose bytes are estimates"
                   : summary->scheduled       ? "whole, of what was scheduled"
                   : summary->ends_early      ? "whole until then"
                   : summary->lacks_processes ? "whole, of what was recorded"
                   : *kept                    ? "all events in the requested part"
                   : summary->missed          ? "a part of what happened since memprof attached"
                   : summary->attached        ? "whole since memprof attached"
                                              : "complete",
                   rest, path);
}

/* Prints one line, for a process other than the main one. */
static void print_briefly(const struct mp_recording_summary *summary)
{
    char events[MP_UNIT_TEXT], peak[MP_UNIT_TEXT], shown[MP_SHOWN_ROOM];
    const char *path = mp_shown_path(shown, summary->path);
    if (*summary->track_id)
        mp_message("%s  %s events, %s peak %s", path, mp_format_count(events, summary->events), summary->track_id,
                   mp_format_bytes(peak, summary->track.peak_bytes));
    else
        mp_message("%s  %s events", path, mp_format_count(events, summary->events));
}

#define PRINTED_MAX 8 /* whole recordings listed one by one; a command may start thousands of processes */

/* Prints why nothing was recorded. A command that failed early has mostly printed its own reason. */
static void print_unseen(int status)
{
    char failed[48] = "";
    if (status) snprintf(failed, sizeof failed, "ended with status %d and ", status);
    mp_message(
        "nothing was recorded and no file written: the command %smade no CUDA calls, PyTorch tensors or blocks of "
        "memprof.h that memprof could see; snapshot --host records NumPy's arrays and other large blocks of the C "
        "allocator. If it has such memory: is it static, in a sandbox, of another user or root, or does it drop "
        "LD_PRELOAD?",
        failed);
}

static void print_nothing(const struct mp_collector_result *result, const struct mp_collector_options *options)
{
    const struct mp_schedule *schedule = &options->schedule;
    if (mp_schedule_is_set(schedule))
        mp_message("nothing was recorded and no file written: the schedule never came to an active %s; %llu began%s",
                   schedule->by_region ? "region" : "step", (unsigned long long)result->units_seen,
                   result->units_seen || schedule->by_region
                       ? ""
                       : ". It counts steps that are marked: libmemprof.step() in the loop, or --step-at FUNCTION");
    else if (options->record.paused && !*result->note)
        mp_message("nothing was recorded and no file written: --paused waits for libmemprof.start() or "
                   "memprof_start(): the program called neither, or allocated nothing afterwards");
    else if (*result->note)
        mp_message("nothing was recorded and no file written: %s", result->note);
    else
        print_unseen(result->exit_status);
}

/* Prints which calls of --step-at were not counted and, if no process had steps, how to mark them. */
static void print_steps(const struct mp_collector_result *result, const struct mp_record_config *record)
{
    if (*record->step_at && !record->shim)
        mp_message(
            "--step-at with --no-shim: from Python 3.12 on, calls of coroutines and generators are not distinguished, "
            "and steps are too few; leave out --no-shim");
    bool any = false;
    for (size_t i = 0; i < result->recordings.count; i++) {
        any |= result->recordings.at[i].steps > 0;
        if (*result->recordings.at[i].functions) mp_message("%s", result->recordings.at[i].functions);
    }
    if (any) return;
    if (*record->step_at)
        mp_message(
            "--step-at %s: no Python function of that name was seen to allocate, so memprof finds the steps itself; C "
            "and C++ mark steps by memprof_step() or NVTX ranges (--step-range)",
            record->step_at);
    else if (*record->step_range)
        mp_message("--step-range %s: no region's name matches it, so no step was seen", record->step_range);
}

/* ---- a tree of processes ---------------------------------------------------------------------------------------- */

/* True if `a` is more likely than `b` the process that the user means. The first difference decides. */
static bool is_before(const struct mp_recording_summary *a, const struct mp_recording_summary *b, const char *output)
{
    if (a->left_out != b->left_out) return b->left_out;
    if (!a->path != !b->path) return a->path;
    if (a->device_peak_bytes != b->device_peak_bytes) return a->device_peak_bytes > b->device_peak_bytes;
    bool a_helps = mp_member_is_helper(&a->member), b_helps = mp_member_is_helper(&b->member);
    if (a_helps != b_helps) return b_helps;
    if (mp_recording_is_rank(a) && mp_recording_is_rank(b)) {
        if (a->track.peak_bytes != b->track.peak_bytes) return a->track.peak_bytes > b->track.peak_bytes;
        return a->member.number[MP_MEMBER_RANK] < b->member.number[MP_MEMBER_RANK];
    }
    bool a_named = a->path && !strcmp(a->path, output), b_named = b->path && !strcmp(b->path, output);
    return a_named != b_named ? a_named : a->events > b->events;
}

/* Processes of one kind: the text says which and how many. */
struct kind {
    char key[MP_MEMBER_TEXT + MP_PROGRAM_NAME + 8];
    const struct mp_recording_summary *first;
    uint64_t count, peak_bytes, copied_bytes;
};

struct kinds {
    MP_VEC(struct kind) at;
};

#define RANKS "rank"

/* True if the program says more of the process than its role. */
static bool says_program(const struct mp_recording_summary *summary)
{
    return *summary->program && (!*summary->member.role || !strcmp(summary->member.role, MP_ROLE_RAY));
}

/* Makes the key of a process's kind: ranks, a role, or a program. Processes of one kind share a line. */
static void kind_key(const struct mp_recording_summary *summary, const char *more, char *key, size_t room)
{
    const char *role = summary->member.role;
    if (mp_recording_is_rank(summary) && !*role)
        snprintf(key, room, "%s\n%s", RANKS, more);
    else
        snprintf(key, room, "%s\n%s\n%s", role, says_program(summary) ? summary->program : "", more);
}

static void add_kind(struct kinds *kinds, const struct mp_recording_summary *summary, const char *more)
{
    struct kind fresh = {.first = summary};
    size_t i = 0;
    kind_key(summary, more, fresh.key, sizeof fresh.key);
    while (i < kinds->at.count && strcmp(kinds->at.at[i].key, fresh.key) != 0)
        i++;
    if (i == kinds->at.count) mp_vec_add(&kinds->at, fresh);
    struct kind *kind = &kinds->at.at[i];
    kind->count++;
    if (summary->track.peak_bytes > kind->peak_bytes) kind->peak_bytes = summary->track.peak_bytes;
    if (summary->copied_bytes > kind->copied_bytes) kind->copied_bytes = summary->copied_bytes;
}

/* "8 loader workers", "3 more ranks", "2 processes (serve.py)". */
static void put_kind(struct mp_buffer *text, const struct kind *kind, bool has_rank)
{
    char counted[MP_MEMBER_COUNTED];
    const struct mp_recording_summary *first = kind->first;
    if (mp_recording_is_rank(first) && !*first->member.role) {
        mp_buffer_printf(text, "%llu %srank%s", (unsigned long long)kind->count, has_rank ? "more " : "",
                         kind->count == 1 ? "" : "s");
        return;
    }
    mp_buffer_append_text(text, mp_member_counted(counted, kind->count, first->member.role));
    if (says_program(first)) mp_buffer_printf(text, " (%s)", first->program);
}

/* "rank 2 of 4 (train.py)", "main (train.py)", "loader worker 4711". */
static void put_process(struct mp_buffer *text, const struct mp_recording_summary *summary, bool is_main)
{
    const struct mp_member *member = &summary->member;
    bool named = true;
    if (mp_recording_is_rank(summary)) {
        mp_buffer_printf(text, "rank %u", member->number[MP_MEMBER_RANK]);
        if (mp_member_knows(member, MP_MEMBER_WORLD_SIZE))
            mp_buffer_printf(text, " of %u", member->number[MP_MEMBER_WORLD_SIZE]);
    } else if (*member->role) {
        mp_buffer_printf(text, "%s %u", member->role, summary->pid);
        if (mp_member_knows(member, MP_MEMBER_RANK))
            mp_buffer_printf(text, " of rank %u", member->number[MP_MEMBER_RANK]);
        named = says_program(summary);
    } else if (is_main) {
        mp_buffer_append_text(text, "main");
    } else {
        mp_buffer_printf(text, "process %u", summary->pid);
    }
    if (named && *summary->program) mp_buffer_printf(text, " (%s)", summary->program);
}

#define KINDS_PRINTED 4

static void put_kinds(struct mp_buffer *text, const struct kinds *kinds, bool has_rank)
{
    char peak[MP_UNIT_TEXT];
    uint64_t others = 0;
    for (size_t i = 0; i < kinds->at.count; i++) {
        const struct kind *kind = &kinds->at.at[i];
        if (i >= KINDS_PRINTED) {
            others += kind->count;
            continue;
        }
        if (text->size) mp_buffer_append_text(text, "; ");
        put_kind(text, kind, has_rank);
        mp_buffer_printf(text, kind->count == 1 ? ", %s" : ", %s each at most",
                         mp_format_bytes(peak, kind->peak_bytes));
        if (kind->copied_bytes >= MP_COPIED_MIN)
            mp_buffer_printf(text, " and %s of their parent's pages, copied",
                             mp_format_bytes(peak, kind->copied_bytes));
    }
    if (others) mp_buffer_printf(text, "; %llu of other kinds", (unsigned long long)others);
}

/* Like mp_shown_path(), but leaves a star unquoted, so that a shell expands it. */
static const char *shown_star(char room[MP_SHOWN_ROOM], struct mp_buffer *star)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=.,:@/*";
    const char *shown = mp_shown_path(room, mp_buffer_text(star));
    size_t length = strlen(shown);
    if (length < 3 || *shown != '\'' || strspn(shown + 1, plain) != length - 2) return shown;
    room[shown - room + (ptrdiff_t)length - 1] = '\0';
    return shown + 1;
}

/* Names the files: a folder, a single file, or a pattern with a star where names differ. */
static void put_files(struct mp_buffer *text, const struct mp_collector_options *options,
                      const struct mp_recording_summary *main, size_t files)
{
    char shown[MP_SHOWN_ROOM];
    struct mp_buffer star = {0};
    if (options->in_folder) {
        mp_buffer_append_text(text, mp_shown_path(shown, options->folder));
        return;
    }
    const char *slash = strrchr(options->output, '/'), *dot = strrchr(slash, '.');
    bool pattern = strchr(slash, '%') != NULL;
    if (files == 1 || !pattern)
        mp_buffer_append_text(text, mp_shown_path(shown, files == 1 && main->path ? main->path : options->output));
    if (files == 1) return;
    size_t stem = dot && dot > slash + 1 ? (size_t)(dot - options->output) : strlen(options->output);
    for (size_t i = 0; pattern && options->output[i]; i++) {
        bool part = options->output + i > slash && options->output[i] == '%' && options->output[i + 1];
        mp_buffer_append(&star, part ? "*" : options->output + i, 1);
        i += part;
    }
    if (!pattern) mp_buffer_printf(&star, "%.*s.*%s", (int)stem, options->output, options->output + stem);
    if (star.size + 1 < MP_SHOWN_ROOM) mp_buffer_printf(text, "%s%s", pattern ? "" : ", ", shown_star(shown, &star));
    mp_buffer_free(&star);
}

/* Appends the reason why a process gets its own line; nothing if there is no reason. */
static void put_remarks(struct mp_buffer *text, const struct mp_recording_summary *summary)
{
    const char *between = "";
    if (summary->how.known && !mp_recording_ended_well(summary))
        mp_buffer_append_text(text, summary->how_text), between = ", ";
    if (summary->ooms) mp_buffer_printf(text, "%smemory ran out", between), between = ", ";
    if (summary->dropped)
        mp_buffer_printf(text, "%s%s dropped", between, mp_dropped_events(summary->dropped)), between = ", ";
    if (summary->leaks)
        mp_buffer_printf(text, "%s%u site%s growing", between, summary->leaks,
                         summary->leaks == 1 ? " keeps" : "s keep");
}

struct tree {
    const struct mp_collector_result *result;
    const struct mp_collector_options *options;
    const struct mp_recording_summary *main;
    uint64_t events, dropped, duration_ns, file_bytes;
    size_t files, processes, not_whole, lacking;
    bool sampled, scheduled, bounded;
};

static size_t count_processes(const struct mp_collector_result *result)
{
    struct mp_map pids = {0};
    for (size_t i = 0; i < result->recordings.count; i++) {
        uint64_t *place = mp_map_insert(&pids, (uint64_t)result->recordings.at[i].pid + 1, NULL);
        if (place) *place = 1;
    }
    size_t count = pids.count;
    mp_map_free(&pids);
    return count;
}

static void sum_up(struct tree *tree)
{
    mp_vec_each (const struct mp_recording_summary, summary, &tree->result->recordings) {
        if (!tree->main || is_before(summary, tree->main, tree->options->output)) tree->main = summary;
        tree->events += summary->events;
        tree->dropped += summary->dropped;
        if (summary->duration_ns > tree->duration_ns) tree->duration_ns = summary->duration_ns;
        if (!summary->left_out) {
            tree->files++;
            tree->file_bytes += summary->file_bytes;
        }
        tree->not_whole += summary->failed || summary->dropped;
        tree->lacking += summary->lacks_names;
        tree->sampled |= summary->sample_bytes != 0;
        tree->scheduled |= summary->scheduled;
        tree->bounded |= summary->kept < summary->events;
    }
    tree->processes = count_processes(tree->result);
}

static void print_head(const struct tree *tree)
{
    char events[MP_UNIT_TEXT], duration[MP_UNIT_TEXT], size[MP_UNIT_TEXT];
    struct mp_buffer text = {0};
    put_files(&text, tree->options, tree->main, tree->files);
    mp_message("%.*s  %zu processes, %s events in %s, %s", (int)text.size, (const char *)text.data, tree->processes,
               mp_format_count(events, tree->events), mp_format_duration(duration, tree->duration_ns),
               mp_format_bytes(size, tree->file_bytes));
    mp_buffer_free(&text);
}

static void print_main(const struct tree *tree)
{
    const struct mp_recording_summary *main = tree->main;
    const struct mp_ledger_track *track = &main->track;
    char peak[MP_UNIT_TEXT], moment[MP_UNIT_TEXT], outstanding[MP_UNIT_TEXT], step[48] = "";
    struct mp_buffer text = {0}, others = {0};
    struct kinds kinds = {0};
    put_process(&text, main, true);
    if (track->peak_step)
        snprintf(step, sizeof step, " (%sstep %llu)", main->behind_step ? "after " : "",
                 (unsigned long long)track->peak_step);
    if (*main->track_id)
        mp_buffer_printf(&text, "  %s %speak %s at %s%s, %s outstanding at the end", main->track_id,
                         main->scheduled ? "in the whole run: " : "", mp_format_bytes(peak, track->peak_bytes),
                         mp_format_duration(moment, track->peak_ns), step, mp_format_bytes(outstanding, track->bytes));
    mp_message("%.*s", (int)text.size, (const char *)text.data);
    mp_vec_each (const struct mp_recording_summary, summary, &tree->result->recordings) {
        if (summary != main && !summary->left_out) add_kind(&kinds, summary, "");
    }
    put_kinds(&others, &kinds, mp_recording_is_rank(main));
    if (others.size) mp_message("others  %.*s", (int)others.size, (const char *)others.data);
    mp_vec_free(&kinds.at);
    mp_buffer_free(&others);
    mp_buffer_free(&text);
}

static void print_left_out(const struct tree *tree)
{
    char from[MP_UNIT_TEXT];
    struct mp_buffer text = {0};
    struct kinds kinds = {0};
    for (size_t i = 0; i < tree->result->recordings.count; i++)
        if (tree->result->recordings.at[i].left_out) add_kind(&kinds, &tree->result->recordings.at[i], "");
    put_kinds(&text, &kinds, false);
    if (text.size)
        mp_message("no file of %.*s (below %s, and no device; --follow all keeps them)", (int)text.size,
                   (const char *)text.data, mp_format_bytes(from, tree->options->file_from_bytes));
    mp_vec_free(&kinds.at);
    mp_buffer_free(&text);
}

/* Prints a line for each process with a problem, or one line for processes of a kind that ended in the same way. */
static void print_remarkable(const struct tree *tree)
{
    struct kinds kinds = {0};
    char shown[MP_SHOWN_ROOM];
    mp_vec_each (const struct mp_recording_summary, summary, &tree->result->recordings) {
        struct mp_buffer remarks = {0};
        if (summary->failed || summary->left_out) continue;
        put_remarks(&remarks, summary);
        if (remarks.size && (summary != tree->main || !summary->dropped))
            add_kind(&kinds, summary, mp_buffer_text(&remarks));
        mp_buffer_free(&remarks);
    }
    for (size_t i = 0; i < kinds.at.count && i < PRINTED_MAX; i++) {
        const struct kind *kind = &kinds.at.at[i];
        struct mp_buffer text = {0}, remarks = {0};
        if (kind->count == 1)
            put_process(&text, kind->first, kind->first == tree->main);
        else
            put_kind(&text, kind, false);
        put_remarks(&remarks, kind->first);
        mp_message("%.*s: %s.   See: memprof %s %s%s", (int)text.size, (const char *)text.data,
                   mp_buffer_text(&remarks), kind->first->leaks ? "leaks" : "report",
                   mp_shown_path(shown, kind->first->path), kind->count == 1 ? "" : ", the first of them");
        mp_buffer_free(&remarks);
        mp_buffer_free(&text);
    }
    if (kinds.at.count > PRINTED_MAX)
        mp_message("and %zu more that ended badly, leak or lack events; --verbose names them",
                   kinds.at.count - PRINTED_MAX);
    mp_vec_free(&kinds.at);
}

static void print_end(const struct tree *tree)
{
    char rest[64], shown[MP_SHOWN_ROOM], next[MP_SHOWN_ROOM + 32] = "";
    bool there = tree->main->path && !access(tree->main->path, F_OK); /* its folder may be gone */
    bool job = there && tree->files > 1 && strchr(strrchr(tree->options->output, '/'), '%');
    const char *path = job || !there ? NULL : tree->main->path;
    struct mp_buffer files = {0};
    if (job) put_files(&files, tree->options, tree->main, tree->files);
    if (path || job)
        snprintf(next, sizeof next, ".   Next: memprof report %.*s%s", (int)files.size, (const char *)files.data,
                 path ? mp_shown_path(shown, path) : "");
    mp_buffer_free(&files);
    put_unattributed(tree->main, rest, sizeof rest);
    if (tree->not_whole)
        mp_message("%zu of %zu recordings are not whole, %s dropped%s%s", tree->not_whole,
                   tree->result->recordings.count, mp_dropped_events(tree->dropped), rest, next);
    else if (tree->lacking)
        mp_message("all events, 0 dropped; but in %zu of %zu recordings some have no stack or no name%s%s",
                   tree->lacking, tree->result->recordings.count, rest, next);
    else
        mp_message("%s; 0 dropped%s%s",
                   tree->sampled                            ? "a sample of the blocks, whose bytes are estimates"
                   : tree->scheduled                        ? "whole, of what was scheduled"
                   : tree->result->survivors                ? "whole until then"
                   : mp_refused_any(&tree->result->refused) ? "whole, of what was recorded"
                   : tree->bounded                          ? "all events in the requested part"
                                                            : "complete",
                   rest, next);
}

static void print_tree(const struct mp_collector_result *result, const struct mp_collector_options *options,
                       bool verbose)
{
    struct tree tree = {.result = result, .options = options};
    sum_up(&tree);
    print_head(&tree);
    print_main(&tree);
    print_left_out(&tree);
    print_remarkable(&tree);
    for (size_t i = 0; verbose && i < result->recordings.count; i++)
        print_briefly(&result->recordings.at[i]);
    if (verbose) print_memory(&tree.main->memory);
    print_end(&tree);
}

/* Prints the files of one process. There are several if programs followed one another by exec(). */
static void print_one_process(const struct mp_collector_result *result, bool verbose)
{
    size_t outcome = 0, biggest = 0;
    for (size_t i = 1; i < result->recordings.count; i++)
        if (result->recordings.at[i].events > result->recordings.at[biggest].events) biggest = i;
    for (size_t i = 0; i < result->recordings.count; i++) {
        const struct mp_recording_summary *summary = &result->recordings.at[i];
        bool is_whole = !summary->failed && !summary->dropped;
        if (summary->failed || (!verbose && is_whole && i != biggest && outcome++ >= PRINTED_MAX)) continue;
        if (i == biggest || summary->dropped)
            print_summary(summary, verbose);
        else
            print_briefly(summary);
    }
    if (outcome > PRINTED_MAX)
        mp_message("and %zu more whole recordings, in %zu files in all", outcome - PRINTED_MAX,
                   result->recordings.count);
}

/* Says how a program runs that failed for want of a GPU. A status above 125 has another reason. */
static void print_plan(int status)
{
    static const char *const driver[] = {"/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"};
    for (size_t i = 0; i < sizeof driver / sizeof *driver; i++)
        if (!access(driver[i], F_OK)) return;
    if (status > 0 && status <= 125)
        mp_message(
            "the command failed, and no driver of NVIDIA is here: if it needs a GPU, memprof plan -- COMMAND runs it "
            "without one");
}

bool mp_snapshot_report(const struct mp_collector_result *result, const struct mp_collector_options *options,
                        bool quiet, bool verbose)
{
    bool whole = true;
    char shown[MP_SHOWN_ROOM];
    mp_vec_each (const struct mp_recording_summary, summary, &result->recordings) {
        whole &= !summary->failed && !summary->dropped;
        if (!summary->failed) continue;
        if (summary->replaced) {
            mp_message("%s: this recording is lost: %s. Give each run a file of its own",
                       mp_shown_path(shown, summary->path), summary->failure.text);
            continue;
        }
        mp_message("%s: the recording stopped early: %s. Earlier events are readable, the last ones wait in shared "
                   "memory for memprof recover, and %s dropped",
                   summary->path ? mp_shown_path(shown, summary->path) : "snapshot", summary->failure.text,
                   mp_dropped_events(summary->dropped));
    }
    if (result->survivors) {
        whole = false;
        mp_message("%s; --wait records all processes to their end", result->survived);
    }
    if (!quiet && count_processes(result) > 1)
        print_tree(result, options, verbose);
    else if (!quiet)
        print_one_process(result, verbose);
    if (mp_refused_any(&result->refused)) {
        whole = false;
        char text[MP_REFUSED_TEXT];
        mp_refused_say(&result->refused, text, sizeof text);
        mp_message("%s", text);
    } else if (!result->recordings.count) {
        whole = false;
        print_nothing(result, options);
    }
    if (!quiet) print_plan(result->exit_status);
    bool by_steps = mp_schedule_is_set(&options->schedule) && !result->units_seen;
    if ((result->recordings.count || by_steps) && !quiet) print_steps(result, &options->record);
    return whole;
}
