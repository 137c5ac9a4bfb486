/* The ways in which commands of the core answer about a job. */
#include <stdlib.h>

#include "base/memory.h"
#include "cli/compare_options.h"
#include "cli/output_file.h"
#include "cli/query.h"
#include "exchange/load/load.h"
#include "jobs/compare_report.h"
#include "jobs/page.h"
#include "jobs/query.h"
#include "output/report/compare.h"

#define TOP_OF_JOB 8
#define FILES_MOST 1000000

static int find_peak(const struct mp_invocation *invocation)
{
    struct mp_job_query query;
    int status = mp_job_open(invocation, &query);
    if (status) return status;
    if (query.job.highest == MP_NONE) {
        mp_message("%s has no allocations: none of its processes has a track", query.view.path);
        status = MP_EXIT_COULD_NOT;
    } else if (query.as_json) {
        mp_job_peak_json(&query.json, NULL, &query.job, &query.view);
    } else {
        mp_job_peak_text(&query.text, &query.job, &query.view);
    }
    return mp_job_close(&query, status);
}

static int judge_job(const struct mp_invocation *invocation)
{
    struct mp_job_query query;
    int status = mp_job_open(invocation, &query);
    if (status) return status;
    bool found = query.job.verdict == MP_VERDICT_LEAK;
    if (query.as_json)
        mp_job_leaks_json(&query.json, NULL, &query.job, &query.view);
    else
        mp_job_leaks_text(&query.text, &query.job, &query.view);
    status = mp_job_close(&query, MP_EXIT_DONE);
    return mp_query_found(invocation, found, status);
}

static int report_job(const struct mp_invocation *invocation)
{
    struct mp_job_query query;
    int status = mp_job_open(invocation, &query);
    if (status) return status;
    if (!query.as_json && !mp_given(invocation, MP_OPT_LIMIT)) query.view.limit = TOP_OF_JOB;
    if (query.as_json)
        mp_job_report_json(&query.json, &query.job, &query.view);
    else
        mp_job_report_text(&query.text, &query.job, &query.view);
    return mp_job_close(&query, MP_EXIT_DONE);
}

static int describe_job(const struct mp_invocation *invocation)
{
    return mp_job_answer(invocation, mp_job_info_text, mp_job_info_json);
}

static int list_steps(const struct mp_invocation *invocation)
{
    return mp_job_answer(invocation, mp_job_steps_text, mp_job_steps_json);
}

static enum mp_status write_job_page(void *context, FILE *out, struct mp_error *error)
{
    const struct mp_job_query *query = context;
    return mp_job_page_write(&query->job, mp_path_short(query->view.path), out, error);
}

static int plot_job(const struct mp_invocation *invocation)
{
    struct mp_job_query query;
    int status = mp_job_open(invocation, &query);
    if (status) return status;
    return mp_job_end(&query, mp_output_write(invocation, write_job_page, &query));
}

static int write_jobs(struct mp_job_query *query, const struct mp_job_comparison *comparison,
                      const struct mp_compare_limit *limit, bool *grew)
{
    struct mp_job_compare compare;
    struct mp_job_comparison whole = *comparison;
    const struct mp_job_view *const sides[MP_SIDES] = {&comparison->jobs[0], &comparison->jobs[comparison->count - 1]};
    mp_job_compare_make(sides, comparison->sense, &compare);
    whole.compare = &compare;
    for (int sense = MP_JOB_PEAK; sense <= MP_JOB_END; sense++)
        *grew |= mp_compare_grew(mp_job_most_of(sides[MP_BEFORE], sense), mp_job_most_of(sides[MP_AFTER], sense),
                                 limit->bytes, limit->percent);
    if (query->as_json)
        mp_job_compare_json(&query->json, &whole);
    else
        mp_job_compare_text(&query->text, &whole);
    mp_form_close(&query->document);
    mp_job_compare_free(&compare);
    return mp_output_buffer(query->invocation, &query->out);
}

/* If one operand is a job, the others are read as jobs, too. */
static int compare_jobs(const struct mp_invocation *invocation)
{
    struct mp_job_query query;
    struct mp_compare_limit limit;
    enum mp_profile_of of = MP_PROFILE_PEAK;
    size_t count = invocation->operand_count, read = 0;
    bool grew = false;
    int status = mp_compare_options(invocation, &limit, &of);
    if (!status) status = mp_job_read_options(invocation, &query);
    if (!status && of == MP_PROFILE_ALLOCATED) {
        mp_message("--of allocated needs single recordings; compare jobs by peak or outstanding");
        status = MP_EXIT_USAGE;
    }
    if (status) return status;
    struct mp_job_view *jobs = mp_alloc_zeroed(count, sizeof *jobs);
    struct mp_model **models = mp_alloc_zeroed(count, sizeof *models);
    bool lacks = false;
    for (; !status && read < count; read++) {
        status = mp_job_load(invocation, invocation->operands + read, 1, &models[read]);
        if (status) break;
        mp_job_view_make(models[read], &jobs[read]);
        lacks |= mp_job_report_problems(invocation->operands[read], &jobs[read]);
    }
    const struct mp_job_comparison comparison = {.jobs = jobs,
                                                 .paths = (const char *const *)invocation->operands,
                                                 .count = count,
                                                 .sense = of == MP_PROFILE_PEAK ? MP_JOB_PEAK : MP_JOB_END,
                                                 .limit = query.view.limit,
                                                 .full_stacks = query.view.full_stacks};
    if (!status) status = write_jobs(&query, &comparison, &limit, &grew);
    for (size_t i = 0; i < read; i++) {
        mp_job_view_free(&jobs[i]);
        mp_model_free(models[i]);
    }
    free(jobs);
    free(models);
    mp_buffer_free(&query.out);
    if (!status && lacks) status = MP_EXIT_INCOMPLETE;
    return mp_query_found(invocation, grew, status);
}

/* True if the operands are a job: more than one, a folder, or a job's file. */
static bool is_job(const struct mp_invocation *invocation)
{
    const char *first = invocation->operand_count ? invocation->operands[0] : NULL;
    return first && !mp_given(invocation, MP_OPT_PID) &&
           (invocation->operand_count > 1 || mp_job_is_folder(first) || mp_exchange_is_job(first));
}

/* True if any operand is a job. */
static bool has_job(const struct mp_invocation *invocation)
{
    for (size_t i = 0; i < invocation->operand_count; i++)
        if (mp_job_is_folder(invocation->operands[i]) || mp_exchange_is_job(invocation->operands[i])) return true;
    return false;
}

const struct mp_command_way mp_command_ways_jobs[] = {
    {"report", FILES_MOST, is_job, report_job},   {"peak", FILES_MOST, is_job, find_peak},
    {"leaks", FILES_MOST, is_job, judge_job},     {"steps", FILES_MOST, is_job, list_steps},
    {"info", FILES_MOST, is_job, describe_job},   {"compare", 0, has_job, compare_jobs},
    {"trace_plot", FILES_MOST, is_job, plot_job}, {NULL, 0, NULL, NULL}};
