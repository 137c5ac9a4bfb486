#include "collect/session/leaving.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/leaks/leaks.h"
#include "base/memory.h"
#include "base/units.h"
#include "collect/recording/recording_parts.h"
#include "model/model.h"

#define JUDGED_MAX (UINT64_C(4) << 20) /* bytes of a file that is read in a moment */

/* A process that used a device, or lost something, or ended in a way that is not good, or not known, is of interest
 * however little it held. */
bool mp_leaving_may(struct mp_recording *recording, uint64_t below_bytes)
{
    const struct mp_spool_header *spool = recording->spool.header;
    struct mp_recording_summary summary = {0};
    mp_recording_summarise(recording, &summary);
    bool is_rank = mp_member_knows(&summary.member, MP_MEMBER_RANK) && !mp_member_is_helper(&summary.member);
    bool ended_well = mp_recording_ended_well(&summary);
    return below_bytes && ended_well && !is_rank && !recording->failed && !summary.dropped && !summary.ooms &&
           !summary.used_device && summary.all_peak_bytes < below_bytes && !recording->cycles.apart &&
           !(atomic_load(&spool->sources) & MP_SOURCE_C_API);
}

static void note(struct mp_leaving *leaving, struct mp_recording *recording)
{
    size_t left = 0;
    for (size_t i = 0; i < leaving->rows.count; i++) {
        const struct mp_left_out *row = &leaving->rows.at[i];
        if (row->owner != recording->id) {
            leaving->rows.at[left++] = *row;
            continue;
        }
        char text[320], counted[MP_MEMBER_COUNTED], peak[MP_UNIT_TEXT], events[MP_UNIT_TEXT];
        snprintf(text, sizeof text,
                 "%s that this process started left no file: %s events, at most %s at once (--follow all keeps such "
                 "files)",
                 mp_member_counted(counted, row->processes, row->role), mp_format_count(events, row->events),
                 mp_format_bytes(peak, row->peak_bytes));
        mp_recording_note(recording, text);
    }
    leaving->rows.count = left;
}

static void look_for_leaks(void *context)
{
    struct mp_recording_summary *summary = context;
    struct mp_model *model;
    struct mp_error ignored;
    struct mp_leaks leaks;
    struct mp_leaks_query query = {.track = MP_TRACK_NONE};
    if (mp_model_load(summary->path, &model, &ignored)) return;
    query.window = mp_window_all(model);
    if (!mp_leaks_find(model, &query, &leaks, &ignored)) {
        summary->leaks = leaks.leaks;
        mp_leaks_free(&leaks);
    }
    mp_model_free(model);
}

static void judge(struct mp_recording_summary *summary)
{
    if (summary->path && !summary->failed && summary->file_bytes <= JUDGED_MAX)
        (void)mp_memory_try(look_for_leaks, summary); /* where memory is short, nothing is known of leaks */
}

/* Those that the process had started in its turn now belong to the one that had started it. */
static void pass_on(struct mp_leaving *leaving, uint64_t from, uint64_t to)
{
    for (size_t i = 0; i < leaving->rows.count; i++)
        if (leaving->rows.at[i].owner == from) leaving->rows.at[i].owner = to;
}

/* Removes the file, if it is still the one that was made, and remembers the process. */
static void leave_out(struct mp_leaving *leaving, uint64_t owner, const struct mp_recording *recording,
                      struct mp_recording_summary *summary)
{
    struct mp_left_out row = {.owner = owner}, *found = NULL;
    struct stat facts;
    if (lstat(summary->path, &facts) || facts.st_dev != summary->device || facts.st_ino != summary->inode) return;
    memcpy(row.role, summary->member.role, sizeof row.role);
    for (size_t i = 0; i < leaving->rows.count && !found; i++)
        if (leaving->rows.at[i].owner == owner && !strcmp(leaving->rows.at[i].role, row.role))
            found = &leaving->rows.at[i];
    if (!found && !mp_vec_push(&leaving->rows, row)) return; /* what cannot be noted is not left out */
    if (!found) found = &leaving->rows.at[leaving->rows.count - 1];
    if (unlink(summary->path)) return;
    found->processes++;
    found->events += summary->events;
    if (summary->all_peak_bytes > found->peak_bytes) found->peak_bytes = summary->all_peak_bytes;
    pass_on(leaving, recording->id, owner);
    summary->left_out = true;
}

void mp_leaving_finish(struct mp_leaving *leaving, struct mp_recording *recording, uint64_t owner,
                       struct mp_recording_summary *summary)
{
    note(leaving, recording);
    if (owner && recording->events < MP_LEAK_STEPS) mp_recording_forgo_symbols(recording); /* no leak can be in it */
    mp_recording_finish(recording, summary);
    judge(summary);
    if (owner && summary->path && !summary->failed && !summary->leaks) leave_out(leaving, owner, recording, summary);
}

void mp_leaving_free(struct mp_leaving *leaving)
{
    mp_vec_free(&leaving->rows);
}
