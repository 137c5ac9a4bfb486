#include "cli/snapshot_messages.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/device/device_use.h"
#include "analysis/sites/sites.h"
#include "base/memory.h"
#include "base/units.h"
#include "cli/messages.h"
#include "model/module_path.h"
#include "model/track.h"
#include "output/report/reports.h"
#include "output/report/sites.h"

/* The lines printed on stderr when an allocator has run out of memory. */

#define HOLDERS  3
#define REMEDIES 2

static uint32_t find_oom(const struct mp_model *model, uint64_t since_ns)
{
    for (size_t i = 0; i < model->noted.count; i++) {
        uint32_t event = model->noted.at[i];
        if (model->events.type[event] == MP_EVENT_OOM && model->events.time_ns[event] >= since_ns) return event;
    }
    return MP_NONE;
}

/* Bytes that the track's allocator held from the layer below before an event; MP_BYTES_UNKNOWN. */
static uint64_t reserved_before(const struct mp_model *model, uint16_t track, uint32_t event)
{
    for (size_t i = model->noted.count; i-- > 0;) {
        uint32_t at = model->noted.at[i];
        if (at < event && model->events.type[at] == MP_EVENT_RESERVED && model->events.track[at] == track)
            return model->notes.at[model->events.subject[at]].bytes;
    }
    return MP_BYTES_UNKNOWN;
}

/* Appends the line of a stack that a person wants to see. */
static void put_place(struct mp_buffer *text, const struct mp_model *model, uint32_t stack)
{
    struct mp_stack_lines lines = {0};
    mp_stack_resolve(model, stack, &lines);
    const struct mp_stack_line *line = mp_stack_headline(&lines);
    if (line)
        mp_headline_text(text, line);
    else
        mp_buffer_append_text(text, "(no stack)");
    mp_stack_lines_free(&lines);
}

static void say_request(const struct mp_model *model, uint32_t event)
{
    char asked[MP_UNIT_TEXT], id[MP_TRACK_ID_MAX];
    const struct mp_model_note *note = &model->notes.at[model->events.subject[event]];
    struct mp_buffer place = {0};
    put_place(&place, model, note->stack);
    if (note->name) {
        mp_buffer_append_text(&place, ", in ");
        mp_text_clean(&place, mp_module_path(model, mp_module_root(model), note->name));
    }
    mp_message("OUT OF MEMORY on %s: asked for %s at %.*s", mp_track_id(model, model->events.track[event], id),
               mp_format_bytes(asked, note->bytes), (int)place.size, (const char *)place.data);
    mp_buffer_free(&place);
}

static void say_holders(const struct mp_model *model, uint32_t event)
{
    uint16_t track = model->events.track[event];
    struct mp_live_blocks live = {0};
    struct mp_sites sites = {0};
    struct mp_steps none = {0};
    struct mp_grouping grouping = {.by = MP_GROUP_STACK, .sort = MP_SORT_BYTES};
    struct mp_error ignored;
    if (!mp_live_blocks_at(model, track, event, NULL, &live)) return;
    if (!mp_sites_make(model, &live, &none, &grouping, &sites, &ignored)) {
        char allocated[MP_UNIT_TEXT], reserved[MP_UNIT_TEXT], cached[MP_UNIT_TEXT];
        uint64_t held = reserved_before(model, track, event);
        if (held == MP_BYTES_UNKNOWN)
            mp_message("  allocated %s in %zu blocks", mp_format_bytes(allocated, sites.bytes), live.count);
        else
            mp_message("  allocated %s in %zu blocks; reserved %s, of which %s cached and free",
                       mp_format_bytes(allocated, sites.bytes), live.count, mp_format_bytes(reserved, held),
                       mp_format_bytes(cached, held > sites.bytes ? held - sites.bytes : 0));
        for (size_t i = 0; i < sites.count && i < HOLDERS; i++) {
            char bytes[MP_UNIT_TEXT];
            struct mp_buffer place = {0};
            put_place(&place, model, sites.at[i].stack);
            if (sites.at[i].module_count) mp_buffer_append_text(&place, ", in ");
            mp_site_modules_text(&place, &sites, &sites.at[i]);
            mp_message("  %-10s %s  %.*s", i ? "" : "held by", mp_format_bytes(bytes, sites.at[i].bytes),
                       (int)place.size, (const char *)place.data);
            mp_buffer_free(&place);
        }
    }
    mp_sites_free(&sites);
    mp_live_blocks_free(&live);
}

/* Prints the cause, where the recording shows it, and the settings that would have helped. */
static void say_cause(const struct mp_model *model, uint32_t event)
{
    const struct mp_frag_query query = {.track = model->events.track[event],
                                        .window = {.first = event, .last = event + 1}};
    struct mp_frag frag;
    struct mp_error ignored;
    if (mp_frag_find(model, &query, &frag, &ignored)) return;
    if (mp_oom_cause_name(frag.oom.cause)) mp_message("  cause: %s", mp_oom_cause_text(frag.oom.cause));
    for (size_t i = 0; i < frag.oom.would_fit.count && i < REMEDIES; i++)
        mp_message("  %s would have fitted it (replayed)", frag.oom.would_fit.at[i]);
    mp_frag_free(&frag);
}

/* Explains the first out-of-memory event at or after `oom_ns` in the recording at `path`, shown under the name `shown`.
 * Prints nothing where the file cannot be read or has no such event. */
static void autopsy(const char *path, const char *shown, uint64_t oom_ns)
{
    struct mp_model *model;
    struct mp_error ignored;
    if (mp_model_load(path, &model, &ignored)) return;
    uint32_t event = find_oom(model, oom_ns);
    if (event != MP_NONE) {
        say_request(model, event);
        say_cause(model, event);
        say_holders(model, event);
        mp_message("  snapshot: %s      memprof trace_plot %s -o oom.html", shown, shown);
    }
    mp_model_free(model);
}

#define READ_AGAIN_MAX (UINT64_C(64) << 20) /* bytes of a file that is quickly read */

/* "; unattributed 0.6 GiB" where the device's total is known: the same number as in every report. */
static void put_unattributed(const struct mp_recording_summary *summary, char *text, size_t room)
{
    struct mp_model *model;
    struct mp_error ignored;
    struct mp_device_uses uses = {0};
    char number[MP_UNIT_TEXT];
    *text = '\0';
    if (!summary->has_totals || summary->file_bytes > READ_AGAIN_MAX || mp_model_load(summary->path, &model, &ignored))
        return;
    if (mp_device_uses_find(model, &uses) && mp_device_unattributed(&uses) != MP_BYTES_UNKNOWN)
        snprintf(text, room, "; unattributed %s", mp_format_bytes(number, mp_device_unattributed(&uses)));
    mp_device_uses_free(&uses);
    mp_model_free(model);
}

/* The cost of recording the process (collect/recording/recording_memory.h). */
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

/* Advice comes last. */
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
    if (track->peak_step) snprintf(step, sizeof step, " (step %llu)", (unsigned long long)track->peak_step);
    if (*device) /* otherwise it has only steps, regions and marks */
        mp_message("%s  %speak %s at %s%s, %s outstanding at the end", device,
                   summary->scheduled ? "in the whole run: " : "", mp_format_bytes(peak, track->peak_bytes),
                   mp_format_duration(moment, track->peak_ns), step, mp_format_bytes(outstanding, track->bytes));
    if (with_memory) print_memory(&summary->memory);
    if (summary->dropped)
        mp_message("%s events were dropped%s.   Next: memprof report %s", mp_format_count(events, summary->dropped),
                   summary->full == summary->dropped ? ": the program was faster than the collector"
                                                     : ", and the report says why",
                   path);
    else if (summary->lacks_names)
        mp_message("all events, 0 dropped; but some have no stack or no name, and the report says why.   Next: memprof "
                   "report %s",
                   path);
    else
        mp_message("%s; 0 dropped%s.   Next: memprof report %s",
                   summary->sample_bytes ? "a sample of the blocks, of which the bytes are estimated"
                   : summary->scheduled  ? "whole, of what was scheduled"
                   : *kept               ? "whole, of what was to be kept"
                                         : "complete",
                   rest, path);
}

/* For a process beside the biggest. */
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

static void print_nothing(const struct mp_collector_result *result, const struct mp_collector_options *options)
{
    const struct mp_schedule *schedule = &options->schedule;
    if (schedule->in_cycles)
        mp_message("nothing was recorded and no file written: the schedule never came to an active %s; %llu began%s",
                   schedule->by_region ? "region" : "step", (unsigned long long)result->units_seen,
                   result->units_seen || schedule->by_region
                       ? ""
                       : ". It counts steps that are marked: libmemprof.step() in the loop, or --step-at FUNCTION");
    else if (mp_schedule_is_set(schedule))
        mp_message("nothing was recorded and no file written: no allocation was seen in the time that --delay and "
                   "--duration leave");
    else if (options->record.paused && !*result->note)
        mp_message("nothing was recorded and no file written: --paused waits until the program says start "
                   "(libmemprof.start(), memprof_start()); that was never said, or nothing was allocated after it");
    else if (*result->note)
        mp_message("nothing was recorded and no file written: %s", result->note);
    else
        mp_message(
            "nothing was recorded and no file written: the command made no allocation that memprof can see (calls of "
            "the CUDA driver, PyTorch tensors, or blocks announced through memprof.h), or where it did, memprof could "
            "not be reached (a process of another user or in another root, a sandbox, an environment without "
            "LD_PRELOAD, "
            "a static program)");
}

/* Prints how steps could have been seen, where no process had any. */
static void print_no_steps(const struct mp_collector_result *result, const struct mp_record_config *record)
{
    for (size_t i = 0; i < result->recordings.count; i++)
        if (result->recordings.at[i].steps) return;
    if (*record->step_at)
        mp_message("--step-at %s: no function of that name was seen to allocate, so no step was", record->step_at);
    else if (*record->step_range)
        mp_message("--step-range %s: no region's name matches it, so no step was seen", record->step_range);
}

bool mp_snapshot_report(const struct mp_collector_result *result, const struct mp_collector_options *options,
                        bool quiet, bool verbose)
{
    bool whole = true;
    size_t outcome = 0, biggest = 0;
    char shown[MP_SHOWN_ROOM];
    for (size_t i = 1; i < result->recordings.count; i++)
        if (result->recordings.at[i].events > result->recordings.at[biggest].events) biggest = i;
    for (size_t i = 0; i < result->recordings.count; i++) {
        const struct mp_recording_summary *summary = &result->recordings.at[i];
        bool is_whole = !summary->failed && !summary->dropped;
        whole &= is_whole;
        if (is_whole && i != biggest && outcome++ >= PRINTED_MAX) continue;
        if (summary->failed)
            mp_message("%s: the recording stopped early: %s. What was written before is readable; the rest waits for "
                       "memprof recover",
                       summary->path ? mp_shown_path(shown, summary->path) : "snapshot", summary->failure.text);
        else if (!quiet && (i == biggest || summary->dropped))
            print_summary(summary, verbose);
        else if (!quiet)
            print_briefly(summary);
    }
    if (outcome > PRINTED_MAX && !quiet)
        mp_message("and %zu more recordings beside it, whole as well, in %zu files in all", outcome - PRINTED_MAX,
                   result->recordings.count);
    if (result->refused) {
        whole = false;
        mp_message("%s%s", result->refusal.text,
                   result->refused > 1 ? "; others could not be recorded either" : "; it ran on unrecorded");
    } else if (!result->recordings.count) {
        whole = false;
        print_nothing(result, options);
    }
    bool by_steps = options->schedule.in_cycles && !result->units_seen;
    if ((result->recordings.count || by_steps) && !quiet) print_no_steps(result, &options->record);
    return whole;
}

static void say_oom(void *context)
{
    const struct mp_snapshot_outcome *outcome = context;
    char shown[MP_SHOWN_ROOM];
    autopsy(outcome->path, mp_shown_path(shown, outcome->path), outcome->oom_ns);
}

/* Runs in a child of the collector, which has no hook for lack of memory. */
void mp_snapshot_say_oom(void *quiet, const struct mp_snapshot_outcome *outcome)
{
    (void)quiet;
    struct mp_snapshot_outcome one = *outcome;
    if (one.at_oom && !mp_memory_try(say_oom, &one)) mp_message("not enough memory to say why memory ran out");
}

void mp_snapshot_say(void *quiet, const struct mp_snapshot_outcome *outcome)
{
    char events[MP_UNIT_TEXT], size[MP_UNIT_TEXT], shown[MP_SHOWN_ROOM];
    if (outcome->status)
        mp_message("no snapshot was taken%s: %s", outcome->at_oom ? " when memory ran out" : "", outcome->error.text);
    else if (!outcome->at_oom && !*(const bool *)quiet)
        mp_message("%s  %s events so far, %s", mp_shown_path(shown, outcome->path),
                   mp_format_count(events, outcome->events), mp_format_bytes(size, outcome->file_bytes));
}
