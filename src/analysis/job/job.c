#include "analysis/job/job.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/job/job_state.h"
#include "base/memory.h"

#define DEPTH_MAX 10000 /* a reader of the model would cut the end of a longer path */

struct mp_job *mp_job_new(void)
{
    struct mp_job *job = mp_alloc_zeroed(1, sizeof *job);
    mp_intern_add_text(&job->texts, "");
    mp_intern_add_text(&job->frames, "");
    mp_intern_add_text(&job->stacks, "");
    mp_vec_add(&job->depths, 0);
    return job;
}

void mp_job_free(struct mp_job *job)
{
    if (!job) return;
    mp_intern_free(&job->texts);
    mp_intern_free(&job->frames);
    mp_intern_free(&job->stacks);
    mp_intern_free(&job->keys);
    mp_vec_free(&job->depths);
    mp_vec_free(&job->rows.processes);
    mp_vec_free(&job->rows.tracks);
    mp_vec_free(&job->rows.sites);
    mp_vec_free(&job->rows.holdings);
    mp_vec_free(&job->rows.findings);
    mp_vec_free(&job->rows.points);
    mp_vec_free(&job->rows.troubles);
    free(job);
}

uint32_t mp_job_text(struct mp_job *job, const char *text)
{
    return mp_intern_add_text(&job->texts, text);
}

uint32_t mp_job_frame(struct mp_job *job, const struct mp_job_frame *frame)
{
    return mp_intern_add(&job->frames, (const char *)frame, sizeof *frame) - 1;
}

struct mp_job_frame mp_job_frame_at(const struct mp_job *job, uint32_t frame)
{
    struct mp_job_frame found;
    memcpy(&found, mp_intern_get(&job->frames, frame + 1, NULL), sizeof found);
    return found;
}

struct mp_job_node mp_job_node_at(const struct mp_job *job, uint32_t stack)
{
    struct mp_job_node found = {0, 0};
    if (stack) memcpy(&found, mp_intern_get(&job->stacks, stack, NULL), sizeof found);
    return found;
}

uint32_t mp_job_stack(struct mp_job *job, uint32_t parent, uint32_t frame)
{
    struct mp_job_node node = {parent, frame};
    if (job->depths.at[parent] >= DEPTH_MAX) return parent;
    uint32_t id = mp_intern_add(&job->stacks, (const char *)&node, sizeof node);
    if (id == job->depths.count) mp_vec_add(&job->depths, (uint16_t)(job->depths.at[parent] + 1));
    return id;
}

static int by_number(uint64_t left, uint64_t right)
{
    return left < right ? -1 : left > right;
}

static int by_text(const struct mp_job *job, uint32_t left, uint32_t right)
{
    return left == right ? 0 : strcmp(mp_intern_get(&job->texts, left, NULL), mp_intern_get(&job->texts, right, NULL));
}

int mp_job_compare(const struct mp_job *job, uint32_t left, uint32_t right)
{
    const struct mp_job_process *a = &job->rows.processes.at[left], *b = &job->rows.processes.at[right];
    if (left == right) return 0;
    int order = by_number(a->rank, b->rank);
    if (!order) order = by_number(a->helper, b->helper);
    if (!order) order = by_number(a->node, b->node);
    if (!order) order = by_text(job, a->host, b->host);
    if (!order) order = by_text(job, a->path, b->path);
    if (!order) order = by_text(job, a->role, b->role);
    if (!order) order = by_number(a->pid, b->pid);
    if (!order) order = by_number(a->start_unix_ns, b->start_unix_ns);
    if (!order) order = by_number(a->duration_ns, b->duration_ns);
    if (!order) order = by_number(a->events, b->events);
    if (!order) order = by_number(a->steps, b->steps);
    if (!order) order = by_number(a->growth, b->growth);
    if (!order) order = by_text(job, a->command, b->command);
    return order;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

void mp_job_add_site(struct mp_job *job, const struct mp_job_site *site)
{
    const struct mp_job_site_key key = {site->stack, site->kind, site->sense};
    uint32_t id = mp_intern_add(&job->keys, (const char *)&key, sizeof key);
    if (id > job->rows.sites.count) {
        mp_vec_add(&job->rows.sites, *site);
        return;
    }
    struct mp_job_site *known = &job->rows.sites.at[id - 1];
    known->bytes = sum(known->bytes, site->bytes);
    known->blocks = sum(known->blocks, site->blocks);
    known->processes += site->processes;
    if (site->least < known->least ||
        (site->least == known->least && mp_job_compare(job, site->least_process, known->least_process) < 0)) {
        known->least = site->least;
        known->least_process = site->least_process;
    }
    if (site->most > known->most ||
        (site->most == known->most && mp_job_compare(job, site->most_process, known->most_process) < 0)) {
        known->most = site->most;
        known->most_process = site->most_process;
    }
}

void mp_job_add_trouble(struct mp_job *job, enum mp_job_trouble_kind kind, const char *path, const char *why)
{
    struct mp_job_trouble row = {mp_job_text(job, path), mp_job_text(job, why), (uint8_t)kind};
    mp_vec_add(&job->rows.troubles, row);
}

/* ---- adding a finished job ---------------------------------------------------------------------------- */

struct translation {
    struct mp_job *job;
    const struct mp_model *model;
    uint32_t *texts, *stacks; /* by id in the model: the id in the job */
    uint32_t first;           /* index of the first process added */
};

static uint32_t text_of(const struct translation *t, uint32_t id)
{
    if (t->texts[id] == MP_NONE) {
        size_t length;
        const char *text = mp_intern_get(&t->model->strings, id, &length);
        t->texts[id] = mp_intern_add(&t->job->texts, text, length);
    }
    return t->texts[id];
}

static uint32_t frame_of(const struct translation *t, const struct mp_model_frame *from)
{
    const struct mp_model_line *line = from->line_count ? &t->model->lines.at[from->first_line] : NULL;
    uint32_t module = from->raw.module ? t->model->modules.at[from->raw.module].path : 0;
    const struct mp_job_frame frame = {.language = from->raw.language,
                                       .module = text_of(t, module),
                                       .function = line ? text_of(t, line->function) : 0,
                                       .file = line ? text_of(t, line->file) : 0,
                                       .line = line ? line->line : 0,
                                       .address = {(uint32_t)from->raw.address, (uint32_t)(from->raw.address >> 32)}};
    return mp_job_frame(t->job, &frame);
}

static void translate_stacks(struct translation *t)
{
    const struct mp_model *model = t->model;
    uint32_t *frames = mp_alloc((model->frames.count + 1) * sizeof *frames);
    for (size_t i = 0; i < model->frames.count; i++)
        frames[i] = frame_of(t, &model->frames.at[i]);
    t->stacks = mp_alloc_zeroed(model->stacks.count + 1, sizeof *t->stacks);
    for (size_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        uint32_t frame = node->frame == MP_FRAME_CUT ? MP_FRAME_CUT : frames[node->frame];
        t->stacks[i] = mp_job_stack(t->job, t->stacks[node->parent], frame);
    }
    free(frames);
}

static void add_processes(struct translation *t)
{
    for (size_t i = 0; i < t->model->job.processes.count; i++) {
        struct mp_job_process row = t->model->job.processes.at[i];
        uint32_t *const texts[] = {&row.path, &row.command, &row.host,   &row.role,       &row.job,
                                   &row.exit, &row.missing, &row.reason, &row.step_source};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            *texts[k] = text_of(t, *texts[k]);
        mp_vec_add(&t->job->rows.processes, row);
    }
}

static void add_of_processes(struct translation *t)
{
    const struct mp_model_job *from = &t->model->job;
    struct mp_model_job *to = &t->job->rows;
    for (size_t i = 0; i < from->tracks.count; i++) {
        struct mp_job_track row = from->tracks.at[i];
        uint32_t *const texts[] = {&row.id, &row.kind, &row.device, &row.uuid};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            *texts[k] = text_of(t, *texts[k]);
        row.process += t->first;
        mp_vec_add(&to->tracks, row);
    }
    for (size_t i = 0; i < from->holdings.count; i++) {
        struct mp_job_holding row = from->holdings.at[i];
        row.process += t->first;
        row.stack = t->stacks[row.stack];
        mp_vec_add(&to->holdings, row);
    }
    for (size_t i = 0; i < from->findings.count; i++) {
        struct mp_job_finding row = from->findings.at[i];
        row.process += t->first;
        row.stack = t->stacks[row.stack];
        row.track = text_of(t, row.track);
        row.holder = text_of(t, row.holder);
        mp_vec_add(&to->findings, row);
    }
    for (size_t i = 0; i < from->points.count; i++) {
        struct mp_job_point row = from->points.at[i];
        row.process += t->first;
        row.track = text_of(t, row.track);
        mp_vec_add(&to->points, row);
    }
}

static void add_job(struct mp_job *job, const char *path, const struct mp_model *model)
{
    struct translation t = {.job = job, .model = model, .first = (uint32_t)job->rows.processes.count};
    t.texts = mp_alloc((model->strings.count + 1) * sizeof *t.texts);
    memset(t.texts, 0xff, (model->strings.count + 1) * sizeof *t.texts);
    translate_stacks(&t);
    add_processes(&t);
    add_of_processes(&t);
    for (size_t i = 0; i < model->job.sites.count; i++) {
        struct mp_job_site row = model->job.sites.at[i];
        row.stack = t.stacks[row.stack];
        row.kind = text_of(&t, row.kind);
        row.least_process += t.first;
        row.most_process += t.first;
        mp_job_add_site(job, &row);
    }
    for (size_t i = 0; i < model->job.troubles.count; i++) {
        struct mp_job_trouble row = model->job.troubles.at[i];
        row.path = text_of(&t, row.path);
        row.text = text_of(&t, row.text);
        mp_vec_add(&job->rows.troubles, row);
    }
    uint32_t missing = mp_job_missing(job, model);
    if (missing) {
        struct mp_job_trouble row = {mp_job_text(job, path), missing, MP_JOB_PARTIAL};
        mp_vec_add(&job->rows.troubles, row);
    }
    free(t.texts);
    free(t.stacks);
}

enum mp_status mp_job_add(struct mp_job *job, const char *path, const struct mp_model *model, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    if (mp_model_is_job(model))
        add_job(job, path, model);
    else
        mp_job_add_recording(job, path, model, &status, error);
    return status;
}
