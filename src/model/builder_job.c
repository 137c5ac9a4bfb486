#include <string.h>

#include "model/builder_state.h"

/* Replaces a row's text, a string id of the file, by the model's id. */
#define TEXT(row, member) (row)->member = mp_builder_string(b, (row)->member)

#define ADD_ALL(member, from)                                                                                          \
    size_t first = b->model->job.member.count;                                                                         \
    mp_vec_add_all(&b->model->job.member, from, chunk->count);

static void add_processes(struct mp_builder *b, const struct mp_chunk *chunk)
{
    ADD_ALL(processes, chunk->job_processes)
    for (size_t i = first; i < b->model->job.processes.count; i++) {
        struct mp_job_process *row = &b->model->job.processes.at[i];
        TEXT(row, path);
        TEXT(row, command);
        TEXT(row, host);
        TEXT(row, role);
        TEXT(row, job);
        TEXT(row, exit);
        TEXT(row, missing);
        TEXT(row, reason);
        TEXT(row, step_source);
    }
}

static void add_tracks(struct mp_builder *b, const struct mp_chunk *chunk)
{
    ADD_ALL(tracks, chunk->job_tracks)
    for (size_t i = first; i < b->model->job.tracks.count; i++) {
        struct mp_job_track *row = &b->model->job.tracks.at[i];
        TEXT(row, id);
        TEXT(row, kind);
        TEXT(row, device);
        TEXT(row, uuid);
    }
}

static void add_sites(struct mp_builder *b, const struct mp_chunk *chunk)
{
    ADD_ALL(sites, chunk->job_sites)
    for (size_t i = first; i < b->model->job.sites.count; i++)
        TEXT(&b->model->job.sites.at[i], kind);
}

static void add_holdings(struct mp_builder *b, const struct mp_chunk *chunk)
{
    mp_vec_add_all(&b->model->job.holdings, chunk->job_holdings, chunk->count);
}

static void add_findings(struct mp_builder *b, const struct mp_chunk *chunk)
{
    ADD_ALL(findings, chunk->job_findings)
    for (size_t i = first; i < b->model->job.findings.count; i++)
        TEXT(&b->model->job.findings.at[i], track);
}

static void add_points(struct mp_builder *b, const struct mp_chunk *chunk)
{
    ADD_ALL(points, chunk->job_points)
    for (size_t i = first; i < b->model->job.points.count; i++)
        TEXT(&b->model->job.points.at[i], track);
}

static void add_troubles(struct mp_builder *b, const struct mp_chunk *chunk)
{
    ADD_ALL(troubles, chunk->job_troubles)
    for (size_t i = first; i < b->model->job.troubles.count; i++) {
        struct mp_job_trouble *row = &b->model->job.troubles.at[i];
        TEXT(row, path);
        TEXT(row, text);
        /* Older files have no kinds: parentheses around the text mark a partial job. */
        const char *text = mp_model_text(b->model, row->text);
        size_t length = text ? strlen(text) : 0;
        if (row->kind == MP_JOB_UNUSED && length > 1 && text[0] == '(' && text[length - 1] == ')')
            row->kind = MP_JOB_PARTIAL;
    }
}

void mp_builder_add_job(struct mp_builder *b, const struct mp_chunk *chunk)
{
    static void (*const adders[])(struct mp_builder *, const struct mp_chunk *) = {
        add_processes, add_tracks, add_sites, add_holdings, add_findings, add_points, add_troubles};
    adders[chunk->kind - MP_CHUNK_JOB_PROCESSES](b, chunk);
}

/* Adds a track of a process. Each process has few tracks, and each id once, since points are found by the track's
 * id. */
static bool take_track(struct mp_builder *b, const struct mp_job_track *row, size_t processes)
{
    bool fresh;
    if (row->process >= processes || row->layer >= MP_LAYERS || row->size_basis > MP_BASIS_EXACT) return false;
    uint64_t process = (uint64_t)row->process + 1;
    mp_map_at(&b->job_tracks, process << 32 | mp_builder_string(b, row->id), &fresh);
    return fresh && ++*mp_map_at(&b->job_tracks, process, NULL) <= MP_JOB_TRACKS;
}

static bool knows_site(const struct mp_job_site *row, size_t processes, size_t stacks)
{
    return row->stack < stacks && row->least_process < processes && row->most_process < processes && row->processes &&
           row->processes <= processes && row->sense < MP_JOB_SENSES && row->least <= row->most &&
           row->most <= row->bytes;
}

bool mp_builder_knows_job(struct mp_builder *b, const struct mp_chunk *chunk)
{
    size_t processes = b->model->job.processes.count, stacks = b->model->stacks.count ? b->model->stacks.count : 1;
    for (size_t i = 0; i < chunk->count; i++) {
        bool known = true;
        if (chunk->kind == MP_CHUNK_JOB_PROCESSES) known = chunk->job_processes[i].verdict < MP_JOB_VERDICTS;
        if (chunk->kind == MP_CHUNK_JOB_TRACKS) known = take_track(b, &chunk->job_tracks[i], processes);
        if (chunk->kind == MP_CHUNK_JOB_HOLDINGS)
            known = chunk->job_holdings[i].process < processes && chunk->job_holdings[i].stack < stacks;
        if (chunk->kind == MP_CHUNK_JOB_FINDINGS)
            known = chunk->job_findings[i].process < processes && chunk->job_findings[i].stack < stacks &&
                    chunk->job_findings[i].class < MP_JOB_CLASSES;
        if (chunk->kind == MP_CHUNK_JOB_POINTS)
            known = chunk->job_points[i].process < processes && chunk->job_points[i].shift < 64 &&
                    chunk->job_points[i].curve <= MP_JOB_BY_TIME;
        if (chunk->kind == MP_CHUNK_JOB_SITES) known = knows_site(&chunk->job_sites[i], processes, stacks);
        if (!known) return false;
    }
    return true;
}
