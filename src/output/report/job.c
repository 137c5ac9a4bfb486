#include "output/report/job.h"

#include <string.h>

#include "analysis/leaks/leaks.h"
#include "base/units.h"

static void put_name(struct mp_text *text, enum mp_style style, const struct mp_job_view *job, uint32_t process)
{
    struct mp_buffer name = {0};
    mp_job_name(&name, job, process);
    mp_text_put(text, style, "%.*s", (int)name.size, (const char *)name.data);
    mp_buffer_free(&name);
}

static const struct mp_job_process *process_at(const struct mp_job_view *job, uint32_t process)
{
    return &job->model->job.processes.at[process];
}

static void put_steps_of(struct mp_text *text, const struct mp_job_view *job, const struct mp_job_process *process)
{
    char number[MP_UNIT_TEXT];
    mp_text_put(text, MP_PLAIN, ", %s steps (", mp_format_count(number, process->steps));
    mp_text_clean(text->out, mp_model_text(job->model, process->step_source));
    mp_text_put(text, MP_PLAIN, ")");
}

/* "run/   4 ranks of train.py, 8 loader workers   node7, 38.2 s, 212 steps (torch)   complete" */
static void put_header(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    const struct mp_model_job *rows = &job->model->job;
    char number[MP_UNIT_TEXT];
    struct mp_buffer out = {0};
    mp_text_clean(&out, view->path);
    mp_text_put(text, MP_BOLD, "%.*s", (int)out.size, (const char *)out.data);
    mp_text_put(text, MP_PLAIN, "   ");
    for (size_t i = 0; i < job->groups.count && i < 3; i++) {
        mp_buffer_clear(&out);
        mp_job_group_name(&out, job, &job->groups.at[i], job->groups.at[i].count);
        mp_text_put(text, MP_PLAIN, "%s%.*s", i ? ", " : "", (int)out.size, (const char *)out.data);
    }
    if (job->groups.count > 3) mp_text_put(text, MP_PLAIN, ", ...");
    uint32_t hosts = 0;
    for (size_t i = 0; i < rows->processes.count; i++) {
        size_t k = 0;
        while (k < i && rows->processes.at[k].host != rows->processes.at[i].host)
            k++;
        hosts += k == i;
        if (hosts > 1) break;
    }
    mp_text_put(text, MP_PLAIN, "   ");
    if (hosts > 1) {
        mp_text_put(text, MP_PLAIN, "several hosts, ");
    } else if (*mp_model_text(job->model, rows->processes.at[0].host)) {
        mp_text_clean(text->out, mp_model_text(job->model, rows->processes.at[0].host));
        mp_text_put(text, MP_PLAIN, ", ");
    }
    mp_text_put(text, MP_PLAIN, "%s", mp_format_duration(number, job->to_unix_ns - job->from_unix_ns));
    const struct mp_job_process *first = job->highest == MP_NONE ? NULL : process_at(job, job->highest);
    if (first && first->steps) put_steps_of(text, job, first);
    mp_text_put(text, MP_PLAIN, "   %s\n",
                job->problems.count || mp_model_incomplete(job->model) ? "INCOMPLETE"
                : job->limited                                         ? "partial"
                                                                       : "complete");
    mp_buffer_free(&out);
}

/* "61.4 GiB on cuda:2/torch of rank 2, at 12.7 s, step 3", and how the others are. */
static void put_highest(struct mp_text *text, const char *lead, const struct mp_job_view *job)
{
    char number[MP_UNIT_TEXT];
    const struct mp_job_group *group = &job->groups.at[0];
    const struct mp_job_track *track = mp_job_chosen(job, job->highest);
    mp_text_put(text, MP_BOLD, "%s%s", lead, mp_format_bytes(number, track->peak_bytes));
    mp_text_put(text, MP_PLAIN, " in ");
    put_name(text, MP_BOLD, job, job->highest);
    mp_text_put(text, MP_PLAIN, " on ");
    mp_text_clean(text->out, mp_model_text(job->model, track->id));
    mp_text_put(text, MP_PLAIN, ", at %s", mp_format_duration(number, track->peak_ns));
    if (track->peak_step) mp_text_put(text, MP_PLAIN, ", step %s", mp_format_count(number, track->peak_step));
    if (group->count > 1) {
        struct mp_buffer name = {0};
        uint64_t mean = group->sum / group->count;
        mp_job_group_name(&name, job, group, group->count);
        mp_text_put(text, MP_PLAIN, "; the median of %.*s is %s", (int)name.size, (const char *)name.data,
                    mp_format_bytes(number, group->median));
        if (mean)
            mp_text_put(text, MP_PLAIN, ", the highest is %.2f of the mean", (double)track->peak_bytes / (double)mean);
        mp_buffer_free(&name);
    }
    mp_text_put(text, MP_PLAIN, "\n");
}

static void put_reason(struct mp_text *text, const struct mp_job_view *job, const struct mp_job_outlier *outlier,
                       const struct mp_job_reason *reason)
{
    char gap[MP_UNIT_TEXT], own[MP_UNIT_TEXT], others[MP_UNIT_TEXT];
    const struct mp_site site = {.stack = reason->stack, .births = 1};
    uint64_t difference = outlier->more ? reason->own - reason->others : reason->others - reason->own;
    mp_text_put(text, MP_BOLD, "    %s%s", outlier->more ? "+" : "-", mp_format_bytes(gap, difference));
    mp_text_put(text, MP_PLAIN, "  ");
    mp_site_text(text->out, job->model, &site);
    mp_text_put(text, MP_DIM, "   %s here, %s in the others on average\n", mp_format_bytes(own, reason->own),
                mp_format_bytes(others, reason->others));
}

static void put_outliers(struct mp_text *text, const struct mp_job_view *job, size_t limit)
{
    char number[MP_UNIT_TEXT], other[MP_UNIT_TEXT];
    size_t rows = limit && job->outliers.count > limit ? limit : job->outliers.count;
    if (!rows) return;
    mp_text_put(text, MP_BOLD, "\nOUT OF LINE\n");
    for (size_t i = 0; i < rows; i++) {
        const struct mp_job_outlier *outlier = &job->outliers.at[i];
        const struct mp_job_group *group = &job->groups.at[outlier->group];
        mp_text_put(text, MP_PLAIN, "  ");
        put_name(text, MP_BOLD, job, outlier->process);
        uint64_t own = mp_job_peak_of(job, outlier->process);
        mp_format_bytes(number, outlier->distance);
        if (group->count == 2) {
            mp_text_put(text, MP_PLAIN, " needs %s more than ", number);
            put_name(text, MP_PLAIN, job, group->processes[1]);
        } else {
            mp_text_put(text, MP_PLAIN, " needs %s %s than the median of %zu, %s", number,
                        outlier->more ? "more" : "less", group->count, mp_format_bytes(other, group->median));
        }
        if (outlier->more && own > outlier->distance)
            mp_text_put(text, MP_PLAIN, " (%.1f times as much)", (double)own / (double)(own - outlier->distance));
        mp_text_put(text, MP_PLAIN, "%s\n", outlier->reason_count ? ", by" : "");
        for (size_t k = 0; k < outlier->reason_count; k++)
            put_reason(text, job, outlier, &outlier->reasons[k]);
    }
    if (rows < job->outliers.count) mp_text_put(text, MP_DIM, "  and %zu more\n", job->outliers.count - rows);
}

static void put_devices(struct mp_text *text, const struct mp_job_view *job, size_t limit)
{
    char number[MP_UNIT_TEXT], unit[MP_UNIT_TEXT], separate[MP_UNIT_TEXT];
    size_t rows = limit && job->devices.count > limit ? limit : job->devices.count;
    if (!rows) return;
    mp_text_put(text, MP_BOLD, "\nSHARED\n");
    for (size_t i = 0; i < rows; i++) {
        const struct mp_job_device *device = &job->devices.at[i];
        const char *host = mp_model_text(job->model, device->host);
        mp_text_put(text, MP_PLAIN, "  ");
        mp_text_clean(text->out, mp_model_text(job->model, device->device));
        if (*host) {
            mp_text_put(text, MP_PLAIN, " of ");
            mp_text_clean(text->out, host);
        }
        mp_text_put(text, MP_PLAIN, ": %u processes together at most ", device->processes);
        mp_text_put(text, MP_BOLD, "%s", mp_format_bytes(number, device->most));
        if (device->total_bytes != MP_BYTES_UNKNOWN)
            mp_text_put(text, MP_PLAIN, " of %s", mp_format_bytes(number, device->total_bytes));
        uint64_t from = job->from_unix_ns;
        mp_text_put(text, MP_PLAIN, ", at %s",
                    mp_format_duration(number, device->at_unix_ns > from ? device->at_unix_ns - from : 0));
        mp_text_put(text, MP_DIM, "   (a sum of curves of %s, each at its highest within %s; all peaks at once: %s)\n",
                    mp_layer_name(device->layer), mp_format_duration(unit, device->unit_ns),
                    mp_format_bytes(separate, device->separate));
    }
    if (rows < job->devices.count) mp_text_put(text, MP_DIM, "  and %zu more\n", job->devices.count - rows);
}

/* ---- report ----------------------------------------------------------------------------------------------------- */

static void put_verdict(struct mp_text *text, const struct mp_job_view *job)
{
    const struct mp_model_job *rows = &job->model->job;
    char number[MP_UNIT_TEXT];
    size_t count = rows->processes.count, unknown = 0;
    uint32_t example = MP_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (rows->processes.at[i].verdict != MP_VERDICT_UNKNOWN) continue;
        unknown++;
        if (example == MP_NONE) example = i;
    }
    if (!unknown) {
        mp_text_put(text, MP_PLAIN, "clean: no site of %s process%s keeps growing\n", mp_format_count(number, count),
                    count == 1 ? "" : "es");
        return;
    }
    mp_text_put(text, MP_PLAIN, "unknown of %zu of %zu process%s", unknown, count, count == 1 ? "" : "es");
    const char *reason = mp_model_text(job->model, rows->processes.at[example].reason);
    if (*reason) {
        mp_text_put(text, MP_PLAIN, "; ");
        put_name(text, MP_PLAIN, job, example);
        mp_text_put(text, MP_PLAIN, ": ");
        mp_text_clean(text->out, reason);
    }
    mp_text_put(text, MP_PLAIN, "\n");
}

static void put_leaks(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    if (!job->leaks.count) {
        mp_text_put(text, MP_BOLD, "\nLEAKS  ");
        put_verdict(text, job);
        return;
    }
    mp_text_put(text, MP_BOLD, "\nLEAKS  in %u of %zu process%s\n", job->leaking, job->model->job.processes.count,
                job->model->job.processes.count == 1 ? "" : "es");
    mp_job_findings_text(text, job, view->limit, false);
}

static void put_steps(struct mp_text *text, const struct mp_job_view *job)
{
    const struct mp_job_step *highest = NULL;
    char number[MP_UNIT_TEXT];
    uint64_t widest = 0, step = 0;
    for (size_t i = 0; i < job->steps.count; i++) {
        const struct mp_job_step *row = &job->steps.at[i];
        if (!highest || row->most > highest->most) highest = row;
        if (row->most - row->least <= widest || row->processes < 2) continue;
        widest = row->most - row->least;
        step = row->first;
    }
    if (!highest) return;
    mp_text_put(text, MP_BOLD, "\nSTEPS  highest in step %llu: %s", (unsigned long long)highest->first,
                mp_format_bytes(number, highest->most));
    mp_text_put(text, MP_PLAIN, " in ");
    put_name(text, MP_PLAIN, job, highest->most_process);
    if (widest)
        mp_text_put(text, MP_PLAIN, "; farthest apart in step %llu, by %s", (unsigned long long)step,
                    mp_format_bytes(number, widest));
    if (job->step_shift) mp_text_put(text, MP_DIM, "   (%llu steps at a time)", 1ULL << job->step_shift);
    mp_text_put(text, MP_PLAIN, "\n");
}

void mp_job_report_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    put_header(text, job, view);
    if (job->leaks.count) put_leaks(text, job, view);
    if (job->highest != MP_NONE) {
        put_highest(text, "\nPEAK  ", job);
        mp_job_processes_text(text, job, view->limit);
    } else {
        mp_text_put(text, MP_PLAIN, "\nno process allocated anything that was recorded\n");
    }
    put_outliers(text, job, view->limit);
    if (job->highest != MP_NONE) {
        mp_text_put(text, MP_BOLD, "\nSITES");
        mp_text_put(text, MP_PLAIN, "  of all processes, each at its own peak; see memprof peak ");
        mp_text_clean(text->out, view->path);
        mp_text_put(text, MP_PLAIN, "\n");
        mp_job_sites_text(text, job, MP_JOB_PEAK, view->limit, MP_JOB_LINES);
    }
    if (!job->leaks.count) put_leaks(text, job, view);
    put_steps(text, job);
    put_devices(text, job, view->limit);
    mp_text_put(text, MP_PLAIN, "\n");
    mp_job_coverage_text(text, job);
}

/* ---- the same as JSON ------------------------------------------------------------------------------------------- */

static void process_number(struct mp_json *json, const char *key, uint32_t process)
{
    mp_json_known(json, key, process == MP_NONE ? UINT64_MAX : process);
}

static void outliers_json(struct mp_json *json, const struct mp_job_view *job)
{
    mp_json_array(json, "out_of_line");
    for (size_t i = 0; i < job->outliers.count; i++) {
        const struct mp_job_outlier *outlier = &job->outliers.at[i];
        uint64_t own = mp_job_peak_of(job, outlier->process);
        mp_json_object(json, NULL);
        process_number(json, "process", outlier->process);
        mp_json_number(json, "peak_bytes", own);
        mp_json_number(json, "usual_bytes", outlier->more ? own - outlier->distance : own + outlier->distance);
        mp_json_array(json, "sites");
        for (size_t k = 0; k < outlier->reason_count; k++) {
            mp_json_object(json, NULL);
            mp_json_number(json, "bytes", outlier->reasons[k].own);
            mp_json_number(json, "others_bytes", outlier->reasons[k].others);
            mp_stack_json(json, job->model, outlier->reasons[k].stack);
            mp_json_end_object(json);
        }
        mp_json_end_array(json);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void devices_json(struct mp_json *json, const struct mp_job_view *job)
{
    mp_json_array(json, "shared_devices");
    for (size_t i = 0; i < job->devices.count; i++) {
        const struct mp_job_device *device = &job->devices.at[i];
        const char *host = mp_model_text(job->model, device->host), *uuid = mp_model_text(job->model, device->uuid);
        mp_json_object(json, NULL);
        mp_json_text(json, "host", *host ? host : NULL);
        mp_json_text(json, "device", mp_model_text(job->model, device->device));
        mp_json_text(json, "uuid", *uuid ? uuid : NULL);
        mp_json_text(json, "layer", mp_layer_name(device->layer));
        mp_json_number(json, "processes", device->processes);
        mp_json_number(json, "sum_peak_bytes", device->most);
        mp_json_number(json, "at_unix_ns", device->at_unix_ns);
        mp_json_number(json, "within_ns", device->unit_ns);
        mp_json_number(json, "separate_peaks_bytes", device->separate);
        mp_json_known(json, "total_bytes", device->total_bytes);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void groups_json(struct mp_json *json, const struct mp_job_view *job)
{
    mp_json_array(json, "groups");
    for (size_t i = 0; i < job->groups.count; i++) {
        const struct mp_job_group *group = &job->groups.at[i];
        const char *role = mp_model_text(job->model, group->role), *kind = mp_model_text(job->model, group->kind);
        mp_json_object(json, NULL);
        mp_json_text(json, "program", *group->program ? group->program : NULL);
        mp_json_text(json, "role", *role ? role : NULL);
        mp_json_text(json, "kind", *kind ? kind : NULL);
        mp_json_number(json, "processes", group->count);
        process_number(json, "highest", group->processes[0]);
        process_number(json, "lowest", group->processes[group->count - 1]);
        mp_json_number(json, "most_bytes", mp_job_peak_of(job, group->processes[0]));
        mp_json_number(json, "median_bytes", group->median);
        mp_json_number(json, "mean_bytes", group->sum / group->count);
        mp_json_number(json, "least_bytes", mp_job_peak_of(job, group->processes[group->count - 1]));
        mp_json_number(json, "leaking", group->leaking);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

void mp_job_report_json(struct mp_json *json, const struct mp_job_view *job, const struct mp_view *view)
{
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.report/1");
    mp_job_processes_json(json, job);
    mp_job_info_json(json, "info", job, view);
    mp_job_peak_json(json, "peak", job, view);
    mp_job_leaks_json(json, "leaks", job, view);
    mp_job_steps_json(json, "steps", job, view);
    mp_json_null(json, "frag");
    mp_json_array(json, "advice");
    mp_json_end_array(json);
    mp_job_coverage_json(json, job);
    mp_json_end_object(json);
}

/* ---- peak ------------------------------------------------------------------------------------------------------- */

void mp_job_peak_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    char number[MP_UNIT_TEXT];
    put_highest(text, "", job);
    mp_text_put(text, MP_PLAIN, "\n");
    mp_job_processes_text(text, job, view->limit);
    put_outliers(text, job, view->limit);
    mp_text_put(text, MP_BOLD, "\nSITES");
    mp_text_put(text, MP_PLAIN, "  on ");
    mp_text_clean(text->out, mp_model_text(job->model, job->groups.at[0].kind));
    mp_text_put(text, MP_PLAIN, ", of all processes, each at its own peak: %s together\n",
                mp_format_bytes(number, mp_job_sites_sum(job, MP_JOB_PEAK)));
    mp_job_sites_text(text, job, MP_JOB_PEAK, view->limit, view->full_stacks ? MP_JOB_FULL_STACKS : MP_JOB_STACKS);
    put_devices(text, job, view->limit);
}

void mp_job_peak_json(struct mp_json *json, const char *key, const struct mp_job_view *job, const struct mp_view *view)
{
    const struct mp_job_track *track = job->highest == MP_NONE ? NULL : mp_job_chosen(job, job->highest);
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.peak/1");
    mp_json_text(json, "track", track ? mp_model_text(job->model, track->id) : NULL);
    mp_json_known(json, "peak_bytes", track ? track->peak_bytes : UINT64_MAX);
    mp_json_known(json, "peak_ns", track ? track->peak_ns : UINT64_MAX);
    mp_json_known(json, "step", track && track->peak_step ? track->peak_step : UINT64_MAX);
    mp_json_array(json, "regions");
    mp_json_end_array(json);
    mp_json_known(json, "blocks", track ? track->peak_blocks : UINT64_MAX);
    process_number(json, "process", job->highest);
    groups_json(json, job);
    outliers_json(json, job);
    devices_json(json, job);
    mp_job_sites_json(json, "sites", job, MP_JOB_PEAK, view->limit);
    if (!key) mp_job_processes_json(json, job);
    mp_job_coverage_json(json, job);
    mp_json_end_object(json);
}

/* ---- leaks ------------------------------------------------------------------------------------------------------ */

static void put_answer(struct mp_text *text, const struct mp_job_view *job)
{
    char number[MP_UNIT_TEXT];
    const struct mp_model *model = job->model;
    size_t count = model->job.processes.count;
    if (!job->leaks.count) {
        put_verdict(text, job);
        return;
    }
    uint32_t worst = model->job.findings.at[job->leaks.at[0]].process, slowest = worst;
    for (size_t i = 1; i < job->leaks.count; i++) {
        uint32_t own = model->job.findings.at[job->leaks.at[i]].process;
        if (process_at(job, own)->growth > process_at(job, worst)->growth) worst = own;
        if (process_at(job, own)->growth <= process_at(job, slowest)->growth) slowest = own;
    }
    const struct mp_job_process *process = process_at(job, worst);
    mp_text_put(text, MP_BOLD, "leak: ");
    put_name(text, MP_BOLD, job, worst);
    mp_text_put(text, MP_BOLD, " keeps growing, +%s a step", mp_format_bytes(number, process->growth));
    mp_text_put(text, MP_PLAIN, "; %u of %zu process%s", job->leaking, count, count == 1 ? "" : "es");
    put_steps_of(text, job, process);
    if (slowest != worst) {
        mp_text_put(text, MP_PLAIN, "; the slowest: +%s a step in ",
                    mp_format_bytes(number, process_at(job, slowest)->growth));
        put_name(text, MP_PLAIN, job, slowest);
    }
    mp_text_put(text, MP_PLAIN, "\n");
}

void mp_job_leaks_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    char number[MP_UNIT_TEXT];
    put_answer(text, job);
    if (job->leaks.count) {
        mp_text_put(text, MP_PLAIN, "\n");
        mp_job_findings_text(text, job, view->limit, view->full_stacks);
    }
    mp_text_put(text, MP_PLAIN, "\n%s outstanding at the end in all processes",
                mp_format_bytes(number, job->end_bytes));
    if (!view->outstanding) {
        mp_text_put(text, MP_PLAIN, "; --outstanding lists it\n");
        return;
    }
    mp_text_put(text, MP_PLAIN, "\n");
    if (job->highest != MP_NONE)
        mp_job_sites_text(text, job, MP_JOB_END, view->limit, view->full_stacks ? MP_JOB_FULL_STACKS : MP_JOB_STACKS);
}

static void findings_json(struct mp_json *json, const struct mp_job_view *job, size_t limit)
{
    mp_json_array(json, "findings");
    for (size_t i = 0; i < job->leaks.count && (!limit || i < limit); i++) {
        const struct mp_job_finding *finding = &job->model->job.findings.at[job->leaks.at[i]];
        mp_json_object(json, NULL);
        process_number(json, "process", finding->process);
        mp_json_text(json, "track", mp_model_text(job->model, finding->track));
        mp_json_text(json, "class", mp_leak_class_name(finding->class));
        mp_json_text(json, "confidence", finding->certain ? "certain" : "probable");
        mp_json_number(json, "bytes", finding->bytes);
        mp_json_number(json, "blocks", finding->blocks);
        mp_json_number(json, "bytes_per_step", finding->bytes_per_step);
        mp_json_number(json, "first_step", finding->first_step);
        mp_json_known(json, "eta_oom_steps", finding->eta_oom_steps);
        mp_stack_json(json, job->model, finding->stack);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

void mp_job_leaks_json(struct mp_json *json, const char *key, const struct mp_job_view *job, const struct mp_view *view)
{
    const struct mp_model_job *rows = &job->model->job;
    const struct mp_job_process *first = job->highest == MP_NONE ? NULL : process_at(job, job->highest);
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < rows->processes.count; i++)
        if (mp_job_chosen(job, i)) blocks += mp_job_chosen(job, i)->end_blocks;
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.leaks/1");
    mp_json_text(json, "verdict", mp_verdict_name(job->verdict));
    mp_json_number(json, "leaking_processes", job->leaking);
    mp_json_object(json, "steps");
    mp_json_number(json, "count", first ? first->steps : 0);
    mp_json_text(json, "source", first ? mp_model_text(job->model, first->step_source) : "none");
    mp_json_end_object(json);
    findings_json(json, job, view->limit);
    mp_json_object(json, "outstanding");
    mp_json_number(json, "bytes", job->end_bytes);
    mp_json_number(json, "blocks", blocks);
    mp_job_sites_json(json, "sites", job, MP_JOB_END, view->limit);
    mp_json_end_object(json);
    mp_job_sites_json(json, "growing", job, MP_JOB_GROWTH, view->limit);
    mp_json_object(json, "suppressed");
    mp_json_number(json, "bytes", 0);
    mp_json_number(json, "findings", 0);
    mp_json_end_object(json);
    if (!key) mp_job_processes_json(json, job);
    mp_job_coverage_json(json, job);
    mp_json_end_object(json);
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

void mp_job_steps_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    struct mp_table table;
    char number[MP_UNIT_TEXT];
    size_t count = job->steps.count, first = view->limit && view->limit < count ? count - view->limit : 0;
    if (!count) {
        mp_text_put(text, MP_PLAIN, "no process has steps\n");
        return;
    }
    struct mp_buffer name = {0};
    mp_job_group_name(&name, job, &job->groups.at[0], job->groups.at[0].count);
    mp_text_put(text, MP_PLAIN, "peaks of each step in %.*s, on ", (int)name.size, (const char *)name.data);
    mp_text_clean(text->out, mp_model_text(job->model, job->groups.at[0].kind));
    mp_buffer_free(&name);
    if (job->step_shift) mp_text_put(text, MP_PLAIN, ", %llu steps at a time", 1ULL << job->step_shift);
    mp_text_put(text, MP_PLAIN, "\n");
    mp_table_start_titled(&table, "rrrlrrlr", NULL, "step", "processes", "least", "by", "mean", "most", "by", "apart",
                          NULL);
    for (size_t i = first; i < count; i++) {
        const struct mp_job_step *row = &job->steps.at[i];
        struct mp_buffer least = {0}, most = {0};
        mp_job_name(&least, job, row->least_process);
        mp_job_name(&most, job, row->most_process);
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_count(number, row->first));
        mp_table_cell(&table, MP_PLAIN, "%u", row->processes);
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, row->least));
        mp_table_cell(&table, MP_DIM, "%.*s", (int)least.size, (const char *)least.data);
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, row->sum / row->processes));
        mp_table_cell(&table, MP_BOLD, "%s", mp_format_bytes(number, row->most));
        mp_table_cell(&table, MP_DIM, "%.*s", (int)most.size, (const char *)most.data);
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, row->most - row->least));
        mp_table_end_row(&table);
        mp_buffer_free(&least);
        mp_buffer_free(&most);
    }
    mp_table_finish(&table, text);
    if (first) mp_text_put(text, MP_DIM, "%zu earlier ones; -n %zu shows more\n", first, view->limit * 2);
}

void mp_job_steps_json(struct mp_json *json, const char *key, const struct mp_job_view *job, const struct mp_view *view)
{
    const struct mp_job_process *first = job->highest == MP_NONE ? NULL : process_at(job, job->highest);
    const struct mp_job_track *track = job->highest == MP_NONE ? NULL : mp_job_chosen(job, job->highest);
    size_t count = job->steps.count;
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.steps/1");
    mp_json_text(json, "track", track ? mp_model_text(job->model, track->id) : NULL);
    mp_json_text(json, "source", first ? mp_model_text(job->model, first->step_source) : "none");
    mp_json_number(json, "steps_per_row", 1ULL << job->step_shift);
    mp_json_array(json, "steps");
    for (size_t i = view->limit && view->limit < count ? count - view->limit : 0; i < count; i++) {
        const struct mp_job_step *row = &job->steps.at[i];
        mp_json_object(json, NULL);
        mp_json_number(json, "step", row->first);
        mp_json_number(json, "processes", row->processes);
        mp_json_number(json, "peak_bytes", row->most);
        mp_json_number(json, "mean_peak_bytes", row->sum / row->processes);
        mp_json_number(json, "least_peak_bytes", row->least);
        process_number(json, "process", row->most_process);
        process_number(json, "least_process", row->least_process);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    mp_json_array(json, "regions");
    mp_json_end_array(json);
    if (!key) mp_job_processes_json(json, job);
    mp_job_coverage_json(json, job);
    mp_json_end_object(json);
}

/* ---- info ------------------------------------------------------------------------------------------------------- */

void mp_job_info_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    put_header(text, job, view);
    mp_text_put(text, MP_PLAIN, "\n");
    mp_job_processes_text(text, job, 0);
    mp_text_put(text, MP_PLAIN, "\n");
    mp_job_coverage_text(text, job);
}

void mp_job_info_json(struct mp_json *json, const char *key, const struct mp_job_view *job, const struct mp_view *view)
{
    const struct mp_model *model = job->model;
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.info/1");
    mp_json_object(json, "file");
    mp_json_text(json, "path", view->path);
    mp_json_known(json, "bytes", model->file_bytes ? model->file_bytes : UINT64_MAX);
    mp_json_text(json, "format", "job");
    mp_json_end_object(json);
    mp_json_null(json, "process");
    mp_json_known(json, "start_unix_ns", job->from_unix_ns ? job->from_unix_ns : UINT64_MAX);
    mp_json_number(json, "duration_ns", job->to_unix_ns - job->from_unix_ns);
    mp_json_array(json, "tracks");
    for (size_t i = 0; i < model->job.tracks.count; i++) {
        const struct mp_job_track *track = &model->job.tracks.at[i];
        const char *uuid = mp_model_text(model, track->uuid);
        mp_json_object(json, NULL);
        process_number(json, "process", track->process);
        mp_json_text(json, "id", mp_model_text(model, track->id));
        mp_json_text(json, "uuid", *uuid ? uuid : NULL);
        mp_json_text(json, "size_basis", mp_size_basis_name(track->size_basis));
        mp_json_number(json, "events", track->events);
        mp_json_number(json, "peak_bytes", track->peak_bytes);
        mp_json_number(json, "peak_ns", track->peak_ns);
        mp_json_number(json, "end_bytes", track->end_bytes);
        mp_json_known(json, "reserved_peak_bytes", track->reserved_bytes);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    if (!key) mp_job_processes_json(json, job);
    mp_job_coverage_json(json, job);
    mp_json_end_object(json);
}
