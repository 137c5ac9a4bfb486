#include "cli/record/snapshot_messages.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/sites/sites.h"
#include "base/memory.h"
#include "base/units.h"
#include "cli/messages.h"
#include "model/load.h"
#include "model/module_path.h"
#include "model/track.h"
#include "output/report/frag.h"
#include "output/report/sites.h"
#include "output/report/view.h"

/* ---- the lines printed on stderr when an allocator has run out of memory ---- */

/* The command that says what to change, by the cause; without a row it is advise, which replays the changes. */
static const char *const answering[MP_OOM_UNKNOWN + 1] = {
    [MP_OOM_FRAGMENTATION] = "frag",
    [MP_OOM_LEAK] = "leaks",
    [MP_OOM_OTHER_PROCESS] = "frag",
};

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

/* Bytes that the track's allocator had reserved before an event; MP_BYTES_UNKNOWN if not recorded. */
static uint64_t reserved_before(const struct mp_model *model, uint16_t track, uint32_t event)
{
    for (size_t i = model->noted.count; i-- > 0;) {
        uint32_t at = model->noted.at[i];
        if (at < event && model->events.type[at] == MP_EVENT_RESERVED && model->events.track[at] == track)
            return model->notes.at[model->events.subject[at]].bytes;
    }
    return MP_BYTES_UNKNOWN;
}

static void say_request(const struct mp_model *model, uint32_t event)
{
    char asked[MP_UNIT_TEXT], id[MP_TRACK_ID_MAX];
    const struct mp_model_note *note = &model->notes.at[model->events.subject[event]];
    struct mp_buffer place = {0};
    mp_stack_headline_text(&place, model, note->stack);
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
    mp_live_blocks_at(model, track, event, NULL, &live);
    mp_sites_make(model, &live, &none, &grouping, &sites);
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
        mp_stack_headline_text(&place, model, sites.at[i].stack);
        if (sites.at[i].module_count) mp_buffer_append_text(&place, ", in ");
        mp_site_modules_text(&place, &sites, &sites.at[i]);
        mp_message("  %-10s %s  %.*s", i ? "" : "held by", mp_format_bytes(bytes, sites.at[i].bytes), (int)place.size,
                   (const char *)place.data);
        mp_buffer_free(&place);
    }
    mp_sites_free(&sites);
    mp_live_blocks_free(&live);
}

/* Prints the cause, if the recording shows it, and the settings that would have helped. Returns the command that says
 * what to change. */
static const char *say_cause(const struct mp_model *model, uint32_t event)
{
    const struct mp_frag_query query = {.track = model->events.track[event],
                                        .window = {.first = event, .last = event + 1}};
    struct mp_frag frag;
    struct mp_error ignored;
    if (mp_frag_find(model, &query, &frag, &ignored)) return "advise";
    if (mp_oom_cause_name(frag.oom.cause) || frag.oom.scarce) mp_message("  cause: %s", mp_oom_cause_text(&frag.oom));
    for (size_t i = 0; i < frag.oom.would_fit.count && i < REMEDIES; i++)
        mp_message("  %s would have fitted it (replayed)%s", frag.oom.would_fit.at[i],
                   frag.oom.scarce ? ", and not one more such request" : "");
    const char *command = answering[frag.oom.cause];
    mp_frag_free(&frag);
    return command ? command : "advise";
}

/* Explains the first out-of-memory event at or after `oom_ns` in the recording at `path`, shown under the name `shown`.
 * Prints nothing if the file cannot be read or has no such event. */
static void autopsy(const char *path, const char *shown, uint64_t oom_ns)
{
    struct mp_model *model;
    struct mp_error ignored;
    if (mp_model_load(path, &model, &ignored)) return;
    uint32_t event = find_oom(model, oom_ns);
    if (event != MP_NONE) {
        say_request(model, event);
        const char *command = say_cause(model, event);
        say_holders(model, event);
        mp_message("  snapshot: %s.   What to change: memprof %s %s", shown, command, shown);
    }
    mp_model_free(model);
}

static void say_oom(void *context)
{
    const struct mp_snapshot_outcome *outcome = context;
    char shown[MP_SHOWN_ROOM];
    autopsy(outcome->path, mp_shown_path(shown, outcome->path), outcome->oom_ns);
}

/* Runs in a child of the collector, which does not end on lack of memory. */
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
