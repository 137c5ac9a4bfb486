#include "collect/session/leaving.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/leaks/leaks.h"
#include "base/memory.h"
#include "base/units.h"
#include "model/load.h"
#include "model/model.h"

#define JUDGED_MAX (UINT64_C(4) << 20) /* only files up to this size are judged, because they are read in a moment */

/* A process matters in any case if it used a device, lost events, or is not known to have ended well. */
bool mp_leaving_may(struct mp_recording *recording, uint64_t below_bytes)
{
    const struct mp_spool_header *spool = recording->spool.header;
    struct mp_recording_summary summary = {0};
    mp_recording_summarise(recording, &summary);
    bool is_rank = mp_recording_is_rank(&summary);
    bool ended_well = mp_recording_ended_well(&summary);
    bool marks_steps = !strcmp(summary.member.role, MP_ROLE_LOADER_WORKER); /* as any worker of a loader */
    return below_bytes && ended_well && !is_rank && !recording->file.failed && !summary.dropped && !summary.ooms &&
           !summary.used_device && summary.all_peak_bytes < below_bytes && summary.copied_bytes < MP_COPIED_MIN &&
           (marks_steps || !(atomic_load(&spool->sources) & MP_SOURCE_C_API));
}

static void note(const struct mp_leaving *leaving, struct mp_recording *recording)
{
    mp_vec_each (const struct mp_left_out, row, &leaving->rows) {
        if (row->owner != recording->id || !row->processes) continue;
        char text[320], counted[MP_MEMBER_COUNTED], peak[MP_UNIT_TEXT], events[MP_UNIT_TEXT];
        snprintf(text, sizeof text,
                 "%s that this process started left no file: %s events, at most %s at once (--follow all keeps such "
                 "files)",
                 mp_member_counted(counted, row->processes, row->role), mp_format_count(events, row->events),
                 mp_format_bytes(peak, row->peak_bytes));
        mp_recording_note(recording, text);
    }
}

/* Findings in a file. */
struct judgement {
    struct mp_recording_summary *summary;
    bool whole;
};

static void look_for_leaks(void *context)
{
    struct judgement *judgement = context;
    struct mp_model *model;
    struct mp_error ignored;
    struct mp_leaks leaks;
    struct mp_leaks_query query = {.track = MP_TRACK_NONE};
    if (mp_model_load(judgement->summary->path, &model, &ignored)) return;
    query.window = mp_window_all(model);
    if (!mp_leaks_find(model, &query, &leaks, &ignored)) {
        judgement->summary->leaks = leaks.leaks;
        judgement->whole = true;
        mp_leaks_free(&leaks);
    }
    mp_model_free(model);
}

/* True if the file was checked for leaks. Without memory, or with a large file, nothing is known about leaks. */
static bool judge_file(struct mp_recording_summary *summary)
{
    struct judgement judgement = {.summary = summary};
    if (!summary->path || summary->failed || summary->file_bytes > JUDGED_MAX) return false;
    if (summary->events < MP_LEAK_STEPS) return true; /* too few for a leak */
    return mp_memory_try(look_for_leaks, &judgement) && judgement.whole;
}

/* The row for the owner's processes of that role; NULL: there is no row, and no memory for one. */
static struct mp_left_out *row_of(struct mp_leaving *leaving, uint64_t owner, const char role[MP_MEMBER_TEXT])
{
    struct mp_left_out row = {.owner = owner};
    for (size_t i = 0; i < leaving->rows.count; i++)
        if (leaving->rows.at[i].owner == owner && !strcmp(leaving->rows.at[i].role, role)) return &leaving->rows.at[i];
    memcpy(row.role, role, sizeof row.role);
    return mp_vec_push(&leaving->rows, row) ? &leaving->rows.at[leaving->rows.count - 1] : NULL;
}

static void add_left_out(struct mp_left_out *to, uint64_t processes, uint64_t events, uint64_t peak_bytes)
{
    to->processes += processes;
    to->events += events;
    if (peak_bytes > to->peak_bytes) to->peak_bytes = peak_bytes;
}

static void forget(struct mp_leaving *leaving, uint64_t owner)
{
    size_t left = 0;
    for (size_t i = 0; i < leaving->rows.count; i++)
        if (leaving->rows.at[i].owner != owner) leaving->rows.at[left++] = leaving->rows.at[i];
    leaving->rows.count = left;
}

/* The children of a left-out process now belong to the process that started it. */
static void pass_on(struct mp_leaving *leaving, uint64_t from, uint64_t to)
{
    for (size_t i = 0, count = leaving->rows.count; i < count; i++) {
        const struct mp_left_out row = leaving->rows.at[i];
        if (row.owner != from) continue;
        struct mp_left_out *into = row_of(leaving, to, row.role);
        if (into)
            add_left_out(into, row.processes, row.events, row.peak_bytes);
        else
            leaving->rows.at[i].owner = to;
    }
}

/* Removes the file, if nobody has replaced it, and notes the process. */
static void leave_out(struct mp_leaving *leaving, uint64_t owner, const struct mp_recording *recording,
                      struct mp_recording_summary *summary)
{
    if (!mp_recording_is_in_place(summary)) return;
    struct mp_left_out *row = row_of(leaving, owner, summary->member.role);
    if (!row || unlink(summary->path)) return; /* without a note, nothing is left out */
    add_left_out(row, 1, summary->events, summary->all_peak_bytes);
    pass_on(leaving, recording->id, owner);
    summary->left_out = true;
}

/* A file with few events cannot show a leak, and will probably be removed: it needs no symbols. */
static void forgo_symbols(struct mp_recording *recording)
{
    if (recording->symbols)
        mp_recording_note(recording, "this file was to be left out and could not be; the names of its native functions "
                                     "were not read (--follow all reads them)");
    mp_recording_forgo_symbols(recording);
}

void mp_leaving_finish(struct mp_leaving *leaving, struct mp_recording *recording, uint64_t owner,
                       struct mp_recording_summary *summary)
{
    uint64_t id = recording->id;
    note(leaving, recording);
    if (owner && recording->events < MP_LEAK_STEPS) forgo_symbols(recording);
    mp_recording_finish(recording, summary);
    bool judged = judge_file(summary);
    if (owner && judged && !summary->leaks) leave_out(leaving, owner, recording, summary);
    forget(leaving, id);
}

void mp_leaving_free(struct mp_leaving *leaving)
{
    mp_vec_free(&leaving->rows);
}
