#include "jobs/page.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/leaks.h"
#include "base/intern.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/units.h"
#include "base/varint.h"
#include "output/form/html.h"
#include "output/page/page_file.h"

/* The most rows that a page shows: nobody reads more, and 50 000 sites would be most of the page's bytes. */
#define SITES_SHOWN    300
#define LEAKS_SHOWN    1000
#define OUTLIERS_SHOWN 1000

/* The page's JSON under construction. Stacks and frames are numbered in order of first use. */
struct facts {
    const struct mp_job_view *job;
    const struct mp_model_job *rows;
    struct mp_json json;
    uint32_t *stack_of; /* the page's number of a stack, by the model's id; MP_NONE: not used yet */
    MP_VEC(uint32_t) stacks;
    struct mp_intern frames; /* their JSON */
};

static void put_text(struct facts *f, const char *key, uint32_t text)
{
    mp_json_text(&f->json, key, mp_model_text(f->job->model, text));
}

static void put_stack(struct facts *f, uint32_t stack)
{
    if (f->stack_of[stack] == MP_NONE) {
        f->stack_of[stack] = (uint32_t)f->stacks.count;
        mp_vec_add(&f->stacks, stack);
    }
    mp_json_number(&f->json, NULL, f->stack_of[stack]);
}

static void put_buffer(struct facts *f, const char *key, struct mp_buffer *text)
{
    mp_json_bytes_of_text(&f->json, key, (const char *)text->data, text->size);
    mp_buffer_free(text);
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

/* Writes a column: a member with one value for each process. */
#define EACH_PROCESS(key, put)                                                                                         \
    do {                                                                                                               \
        mp_json_array(&f->json, key);                                                                                  \
        for (uint32_t i = 0; i < f->rows->processes.count; i++) {                                                      \
            const struct mp_job_process *process = &f->rows->processes.at[i];                                          \
            const struct mp_job_track *track = mp_job_chosen(f->job, i);                                               \
            (void)process, (void)track;                                                                                \
            put;                                                                                                       \
        }                                                                                                              \
        mp_json_end_array(&f->json);                                                                                   \
    } while (0)

static void put_known(struct facts *f, uint32_t number)
{
    mp_json_known(&f->json, NULL, number == MP_NONE ? UINT64_MAX : number);
}

static void put_name(struct facts *f, uint32_t process)
{
    struct mp_buffer name = {0};
    mp_job_name(&name, f->job, process);
    put_buffer(f, NULL, &name);
}

static void put_processes(struct facts *f)
{
    uint64_t from = f->job->from_unix_ns;
    mp_json_object(&f->json, "processes");
    EACH_PROCESS("name", put_name(f, i));
    EACH_PROCESS("path", put_text(f, NULL, process->path));
    EACH_PROCESS("host", put_text(f, NULL, process->host));
    EACH_PROCESS("command", put_text(f, NULL, process->command));
    EACH_PROCESS("exit", put_text(f, NULL, process->exit));
    EACH_PROCESS("missing", put_text(f, NULL, process->missing));
    EACH_PROCESS("reason", put_text(f, NULL, process->reason));
    EACH_PROCESS("pid", put_known(f, process->pid));
    EACH_PROCESS("rank", put_known(f, process->rank));
    EACH_PROCESS("group", mp_json_number(&f->json, NULL, f->job->group[i]));
    EACH_PROCESS("start_ns",
                 mp_json_number(&f->json, NULL, process->start_unix_ns > from ? process->start_unix_ns - from : 0));
    EACH_PROCESS("duration_ns", mp_json_number(&f->json, NULL, process->duration_ns));
    EACH_PROCESS("events", mp_json_number(&f->json, NULL, process->events));
    EACH_PROCESS("steps", mp_json_number(&f->json, NULL, process->steps));
    EACH_PROCESS("growth", mp_json_number(&f->json, NULL, process->growth));
    EACH_PROCESS("verdict", mp_json_text(&f->json, NULL, mp_verdict_name(process->verdict)));
    EACH_PROCESS("track", mp_json_text(&f->json, NULL, track ? mp_model_text(f->job->model, track->id) : NULL));
    EACH_PROCESS("peak", mp_json_number(&f->json, NULL, track ? track->peak_bytes : 0));
    EACH_PROCESS("peak_ns", mp_json_number(&f->json, NULL, track ? track->peak_ns : 0));
    EACH_PROCESS("peak_step", mp_json_number(&f->json, NULL, track ? track->peak_step : 0));
    EACH_PROCESS("end", mp_json_number(&f->json, NULL, track ? track->end_bytes : 0));
    EACH_PROCESS("reserved", mp_json_known(&f->json, NULL, track ? track->reserved_bytes : UINT64_MAX));
    EACH_PROCESS("capacity", mp_json_known(&f->json, NULL, track ? track->device_bytes : UINT64_MAX));
    mp_json_end_object(&f->json);
}

static void put_groups(struct facts *f)
{
    mp_json_array(&f->json, "groups");
    mp_vec_each (const struct mp_job_group, group, &f->job->groups) {
        struct mp_buffer name = {0};
        mp_job_group_name(&name, f->job, group, group->count);
        mp_json_object(&f->json, NULL);
        put_buffer(f, "name", &name);
        put_text(f, "kind", group->kind);
        mp_json_number(&f->json, "count", group->count);
        mp_json_number(&f->json, "median", group->median);
        mp_json_number(&f->json, "growth", group->growth);
        mp_json_number(&f->json, "leaking", group->leaking);
        mp_json_end_object(&f->json);
    }
    mp_json_end_array(&f->json);
}

/* ---- what is wrong, and where ----------------------------------------------------------------------------------- */

static void put_outliers(struct facts *f)
{
    mp_json_array(&f->json, "outliers");
    for (size_t i = 0; i < f->job->outliers.count && i < OUTLIERS_SHOWN; i++) {
        const struct mp_job_outlier *outlier = &f->job->outliers.at[i];
        mp_json_object(&f->json, NULL);
        mp_json_number(&f->json, "process", outlier->process);
        mp_json_bool(&f->json, "more", outlier->more);
        mp_json_number(&f->json, "distance", outlier->distance);
        mp_json_array(&f->json, "sites");
        for (size_t k = 0; k < outlier->reason_count; k++) {
            mp_json_array(&f->json, NULL);
            put_stack(f, outlier->reasons[k].stack);
            mp_json_number(&f->json, NULL, outlier->reasons[k].own);
            mp_json_number(&f->json, NULL, outlier->reasons[k].others);
            mp_json_end_array(&f->json);
        }
        mp_json_end_array(&f->json);
        mp_json_end_object(&f->json);
    }
    mp_json_end_array(&f->json);
    mp_json_number(&f->json, "outlier_count", f->job->outliers.count);
}

static void put_leaks(struct facts *f)
{
    mp_json_array(&f->json, "leaks");
    for (size_t i = 0; i < f->job->leaks.count && i < LEAKS_SHOWN; i++) {
        const struct mp_job_finding *finding = &f->rows->findings.at[f->job->leaks.at[i]];
        mp_json_array(&f->json, NULL);
        mp_json_number(&f->json, NULL, finding->process);
        put_stack(f, finding->stack);
        mp_json_number(&f->json, NULL, finding->bytes_per_step);
        mp_json_number(&f->json, NULL, finding->first_step);
        mp_json_number(&f->json, NULL, finding->bytes);
        mp_json_number(&f->json, NULL, finding->blocks);
        mp_json_bool(&f->json, NULL, finding->certain == 1);
        mp_json_text(&f->json, NULL, mp_model_text(f->job->model, finding->holder));
        mp_json_end_array(&f->json);
    }
    mp_json_end_array(&f->json);
}

static void put_devices(struct facts *f)
{
    uint64_t from = f->job->from_unix_ns;
    mp_json_array(&f->json, "devices");
    mp_vec_each (const struct mp_job_device, device, &f->job->devices) {
        mp_json_object(&f->json, NULL);
        put_text(f, "host", device->host);
        put_text(f, "device", device->device);
        mp_json_number(&f->json, "processes", device->processes);
        mp_json_number(&f->json, "most", device->most);
        mp_json_number(&f->json, "at_ns", device->at_unix_ns > from ? device->at_unix_ns - from : 0);
        mp_json_known(&f->json, "capacity", device->total_bytes);
        mp_json_end_object(&f->json);
    }
    mp_json_end_array(&f->json);
}

static void put_notes(struct facts *f)
{
    mp_json_array(&f->json, "notes");
    for (size_t i = 0; i < f->job->problems.count; i++)
        mp_json_text(&f->json, NULL, f->job->problems.at[i]);
    for (size_t i = 0; i < f->job->notes.count; i++)
        mp_json_text(&f->json, NULL, f->job->notes.at[i]);
    mp_json_end_array(&f->json);
    mp_json_text(&f->json, "coverage",
                 f->job->problems.count || mp_model_incomplete(f->job->model) ? "INCOMPLETE"
                 : f->job->limited                                            ? "partial"
                                                                              : "complete");
}

/* ---- sites ------------------------------------------------------------------------------------------------------ */

MP_ORDER_OF_POINTERS(by_bytes, struct mp_job_site, MP_FALLING(bytes) ?: MP_COMPARE(a, b))

static void put_site(struct facts *f, const struct mp_job_site *site)
{
    mp_json_array(&f->json, NULL);
    put_stack(f, site->stack);
    put_text(f, NULL, site->kind);
    mp_json_number(&f->json, NULL, site->bytes);
    mp_json_number(&f->json, NULL, site->blocks);
    mp_json_number(&f->json, NULL, site->processes);
    mp_json_number(&f->json, NULL, site->least);
    mp_json_number(&f->json, NULL, site->least_process);
    mp_json_number(&f->json, NULL, site->most);
    mp_json_number(&f->json, NULL, site->most_process);
    mp_json_end_array(&f->json);
}

/* Writes the sites at the peaks, of all kinds of memory. Sites beyond SITES_SHOWN are given as a count and a sum. */
static void put_sites(struct facts *f)
{
    MP_VEC(const struct mp_job_site *) sites = {0};
    uint64_t rest = 0;
    for (size_t i = 0; i < f->rows->sites.count; i++)
        if (f->rows->sites.at[i].sense == MP_JOB_PEAK) mp_vec_add(&sites, &f->rows->sites.at[i]);
    if (sites.count) qsort(sites.at, sites.count, sizeof *sites.at, by_bytes);
    mp_json_array(&f->json, "sites");
    for (size_t i = 0; i < sites.count; i++) {
        if (i < SITES_SHOWN)
            put_site(f, sites.at[i]);
        else
            rest += sites.at[i]->bytes;
    }
    mp_json_end_array(&f->json);
    mp_json_number(&f->json, "site_count", sites.count);
    mp_json_number(&f->json, "other_sites_bytes", rest);
    mp_vec_free(&sites);
}

/* The largest items that each process held at its peak, in order of the processes. */
static void put_holdings(struct facts *f)
{
    mp_json_array(&f->json, "holdings");
    mp_vec_each (const struct mp_job_holding, holding, &f->rows->holdings) {
        mp_json_number(&f->json, NULL, holding->process);
        put_stack(f, holding->stack);
        mp_json_number(&f->json, NULL, holding->bytes);
        mp_json_number(&f->json, NULL, holding->blocks);
    }
    mp_json_end_array(&f->json);
}

static uint32_t frame_id(struct facts *f, const struct mp_stack_line *line)
{
    struct mp_buffer text = {0};
    struct mp_json json;
    mp_json_start(&json, &text);
    json.flat = true;
    mp_json_array(&json, NULL);
    mp_json_text(&json, NULL, line->function);
    mp_json_text(&json, NULL, line->file ? line->file : line->module);
    mp_json_number(&json, NULL, line->line);
    mp_json_number(&json, NULL, line->language);
    mp_json_end_array(&json);
    uint32_t id = mp_intern_add(&f->frames, (const char *)text.data, text.size);
    mp_buffer_free(&text);
    return id;
}

static void put_stacks(struct facts *f)
{
    struct mp_stack_lines lines = {0};
    mp_json_array(&f->json, "stacks");
    for (size_t i = 0; i < f->stacks.count; i++) {
        const struct mp_site site = {.stack = f->stacks.at[i]};
        struct mp_buffer label = {0};
        mp_site_text(&label, f->job->model, &site);
        mp_json_array(&f->json, NULL);
        put_buffer(f, NULL, &label);
        mp_stack_resolve(f->job->model, f->stacks.at[i], &lines);
        for (size_t k = 0; k < lines.count; k++)
            mp_json_number(&f->json, NULL, frame_id(f, &lines.at[k]));
        mp_json_end_array(&f->json);
    }
    mp_json_end_array(&f->json);
    mp_json_array(&f->json, "frames");
    for (uint32_t i = 0; i < f->frames.count; i++) {
        size_t length;
        const char *text = mp_intern_get(&f->frames, i, &length);
        if (length)
            mp_json_digits(&f->json, NULL, text);
        else
            mp_json_null(&f->json, NULL);
    }
    mp_json_end_array(&f->json);
    mp_stack_lines_free(&lines);
}

/* ---- curves ----------------------------------------------------------------------------------------------------- */

/* The index at which the next curve's points begin. Points are in order of process, track and curve. */
static size_t curve_end(const struct mp_model_job *rows, size_t first)
{
    const struct mp_job_point *point = &rows->points.at[first];
    size_t end = first + 1;
    while (end < rows->points.count && rows->points.at[end].process == point->process &&
           rows->points.at[end].track == point->track && rows->points.at[end].curve == point->curve)
        end++;
    return end;
}

/* Writes each point as the difference from the point before: curves hardly change from step to step, so the numbers are
 * small. Points by time count from the job's start, even if the process's own start is unknown. */
static void put_points(struct mp_buffer *to, const struct mp_job_point *points, size_t count, uint64_t from)
{
    uint64_t at = points->curve == MP_JOB_BY_TIME && points->shift < 64 ? from >> points->shift : 0, most = 0;
    for (size_t i = 0; i < count; i++) {
        mp_page_add_time(to, &at, points[i].at);
        mp_varint_append(to, mp_zigzag((int64_t)(points[i].most - most)));
        mp_varint_append(to, mp_zigzag((int64_t)(points[i].most - points[i].last)));
        most = points[i].most;
    }
}

static void put_curves(struct facts *f, const char *key, enum mp_job_curve curve, struct mp_page_row *row)
{
    mp_json_array(&f->json, key);
    for (size_t first = 0, end; first < f->rows->points.count; first = end) {
        const struct mp_job_point *point = &f->rows->points.at[first];
        end = curve_end(f->rows, first);
        if (point->curve != curve) continue;
        mp_json_array(&f->json, NULL);
        mp_json_number(&f->json, NULL, point->process);
        put_text(f, NULL, point->track);
        mp_json_number(&f->json, NULL, point->shift);
        mp_json_number(&f->json, NULL, end - first);
        mp_json_end_array(&f->json);
        bool known = f->rows->processes.at[point->process].start_unix_ns;
        put_points(row->raw, point, end - first, known ? f->job->from_unix_ns : 0);
        row->count += end - first;
    }
    mp_json_end_array(&f->json);
}

/* ---- the page --------------------------------------------------------------------------------------------------- */

static enum mp_status make_columns(const struct mp_job_view *job, struct mp_page_columns *columns,
                                   struct mp_error *error)
{
    struct mp_buffer text = {0}, steps = {0}, clock = {0};
    struct mp_page_row rows[] = {{"step", &steps, 0}, {"clock", &clock, 0}, {"facts", &text, 1}};
    struct facts f = {.job = job, .rows = &job->model->job};
    f.stack_of = mp_alloc((job->model->stacks.count + 1) * sizeof *f.stack_of);
    memset(f.stack_of, 0xff, (job->model->stacks.count + 1) * sizeof *f.stack_of);
    mp_json_start(&f.json, &text);
    f.json.flat = true;
    mp_json_object(&f.json, NULL);
    mp_json_known(&f.json, "highest", job->highest == MP_NONE ? UINT64_MAX : job->highest);
    mp_json_number(&f.json, "duration_ns", job->to_unix_ns - job->from_unix_ns);
    mp_json_number(&f.json, "events", job->events);
    mp_json_text(&f.json, "verdict", mp_verdict_name(job->verdict));
    mp_json_number(&f.json, "leaking", job->leaking);
    put_notes(&f);
    put_groups(&f);
    put_processes(&f);
    put_outliers(&f);
    put_leaks(&f);
    put_devices(&f);
    put_sites(&f);
    put_holdings(&f);
    put_stacks(&f);
    put_curves(&f, "by_step", MP_JOB_BY_STEP, &rows[0]);
    put_curves(&f, "by_clock", MP_JOB_BY_TIME, &rows[1]);
    mp_json_end_object(&f.json);
    enum mp_status status = mp_page_columns_add(columns, "job", rows, sizeof rows / sizeof *rows, error);
    mp_buffer_free(&text);
    mp_buffer_free(&steps);
    mp_buffer_free(&clock);
    mp_vec_free(&f.stacks);
    mp_intern_free(&f.frames);
    free(f.stack_of);
    return status;
}

enum mp_status mp_job_page_write(const struct mp_job_view *job, const char *title, FILE *out, struct mp_error *error)
{
    struct mp_page_columns columns = {0};
    struct mp_buffer header = {0}, shown = {0};
    struct mp_json json;
    enum mp_status status = make_columns(job, &columns, error);
    if (!status) {
        mp_json_start(&json, &header);
        json.flat = true;
        mp_json_object(&json, NULL);
        mp_json_text(&json, "schema", "memprof.job_page/1");
        mp_json_text(&json, "version", PACKAGE_VERSION);
        mp_json_text(&json, "title", title);
        mp_page_put_columns(&json, &columns);
        mp_json_end_object(&json);
        mp_html_text(&shown, title);
        status = mp_page_file_write(mp_job_page_template, &shown, &header, &columns, out, error);
    }
    mp_page_columns_free(&columns);
    mp_buffer_free(&header);
    mp_buffer_free(&shown);
    return status;
}
