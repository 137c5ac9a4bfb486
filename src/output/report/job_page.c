#include "output/report/job_page.h"

#include "analysis/leaks/leaks.h"
#include "base/units.h"
#include "output/report/document.h"

static void name_cell(struct mp_document *document, const struct mp_job_view *job, uint32_t process)
{
    struct mp_buffer name = {0};
    mp_job_name(&name, job, process);
    mp_document_cell(document, "%.*s", (int)name.size, (const char *)name.data);
    mp_buffer_free(&name);
}

static void put_processes(struct mp_document *document, const struct mp_job_view *job)
{
    static const char *const heads[] = {"Process", "Peak",        "Of the highest", "At",
                                        "Step",    "Outstanding", "A step",         "Verdict"};
    char number[MP_UNIT_TEXT];
    uint64_t highest = job->highest == MP_NONE ? 0 : mp_job_peak_of(job, job->highest);
    mp_document_table(document, "lrlrrrrl", heads);
    for (uint32_t i = 0; i < job->model->job.processes.count; i++) {
        const struct mp_job_process *row = &job->model->job.processes.at[i];
        const struct mp_job_track *track = mp_job_chosen(job, i);
        name_cell(document, job, i);
        mp_document_cell(document, "%s", mp_format_bytes(number, mp_job_peak_of(job, i)));
        mp_document_share(document, mp_job_peak_of(job, i), highest);
        mp_document_cell(document, "%s", track ? mp_format_duration(number, track->peak_ns) : "");
        mp_document_cell(document, "%s", track && track->peak_step ? mp_format_count(number, track->peak_step) : "");
        mp_document_cell(document, "%s", mp_format_bytes(number, mp_job_end_of(job, i)));
        mp_document_cell(document, "%s%s", row->growth ? "+" : "", mp_format_bytes(number, row->growth));
        mp_document_cell(document, "%s", mp_verdict_name(row->verdict));
    }
    mp_document_end_table(document);
}

static void put_leaks(struct mp_document *document, const struct mp_job_view *job)
{
    static const char *const heads[] = {"Process", "A step", "Since step", "By now", "Site"};
    char number[MP_UNIT_TEXT];
    if (!job->leaks.count) return;
    mp_document_heading(document, "Leaks in %u of %zu process%s", job->leaking, job->model->job.processes.count,
                        job->model->job.processes.count == 1 ? "" : "es");
    mp_document_table(document, "lrrrl", heads);
    for (size_t i = 0; i < job->leaks.count; i++) {
        const struct mp_job_finding *finding = &job->model->job.findings.at[job->leaks.at[i]];
        const struct mp_site site = {.stack = finding->stack, .births = 1};
        name_cell(document, job, finding->process);
        mp_document_cell(document, "+%s", mp_format_bytes(number, finding->bytes_per_step));
        mp_document_cell(document, "%s", mp_format_count(number, finding->first_step));
        mp_document_cell(document, "%s", mp_format_bytes(number, finding->bytes));
        mp_document_site(document, job->model, &site);
    }
    mp_document_end_table(document);
}

/* Texts of JSON may hold "<", which could end the element. */
static void put_script(struct mp_buffer *out, const char *id, const struct mp_buffer *data)
{
    mp_buffer_printf(out, "<script type=\"application/json\" id=\"%s\">", id);
    for (size_t i = 0; i < data->size; i++) {
        if (data->data[i] == '<')
            mp_buffer_append_text(out, "\\u003c");
        else
            mp_buffer_append(out, &data->data[i], 1);
    }
    mp_buffer_append_text(out, "</script>\n");
    out->failed |= data->failed;
}

/* Points are in order of process, track and curve. */
static void curves_json(struct mp_json *json, const struct mp_job_view *job)
{
    const struct mp_model_job *rows = &job->model->job;
    mp_json_array(json, NULL);
    for (size_t first = 0, end; first < rows->points.count; first = end) {
        const struct mp_job_point *point = &rows->points.at[first];
        mp_json_object(json, NULL);
        mp_json_number(json, "process", point->process);
        mp_json_text(json, "track", mp_model_text(job->model, point->track));
        mp_json_text(json, "by", point->curve == MP_JOB_BY_STEP ? "step" : "time");
        mp_json_number(json, "unit", UINT64_C(1) << point->shift);
        mp_json_array(json, "points");
        for (end = first; end < rows->points.count; end++) {
            const struct mp_job_point *next = &rows->points.at[end];
            if (next->process != point->process || next->track != point->track || next->curve != point->curve) break;
            mp_json_array(json, NULL);
            mp_json_number(json, NULL, next->at);
            mp_json_number(json, NULL, next->most);
            mp_json_number(json, NULL, next->last);
            mp_json_end_array(json);
        }
        mp_json_end_array(json);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

void mp_job_page(struct mp_buffer *out, const struct mp_job_view *job, const struct mp_view *view)
{
    struct mp_document document;
    struct mp_buffer data = {0};
    struct mp_json json;
    mp_document_start(&document, out, MP_HTML, mp_path_short(view->path));
    mp_document_heading(&document, "Processes");
    put_processes(&document, job);
    put_leaks(&document, job);
    for (size_t i = 0; i < job->problems.count; i++)
        mp_document_paragraph(&document, "Note: %s", job->problems.at[i]);
    mp_json_start(&json, &data);
    mp_job_report_json(&json, job, view);
    put_script(out, "report", &data);
    mp_buffer_clear(&data);
    mp_json_start(&json, &data);
    curves_json(&json, job);
    put_script(out, "curves", &data);
    mp_buffer_free(&data);
    mp_document_end(&document);
}
