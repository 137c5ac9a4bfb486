#include "analysis/sites/step_groups.h"
#include "cli/query.h"
#include "output/report/steps.h"

static int report_steps(struct mp_query *query)
{
    struct mp_step_report report;
    if (mp_query_pick_track(query)) return MP_EXIT_COULD_NOT;
    mp_steps_report(query->model, query->track, &query->view.window, &report);
    struct mp_step_groups groups = {.bytes = NULL};
    bool grouped = mp_given(query->invocation, MP_OPT_GROUP);
    if (grouped) mp_step_groups_find(query->model, &report, &query->view.grouping, &groups);
    if (query->as_json)
        mp_steps_json(&query->json, NULL, query->model, &report, grouped ? &groups : NULL, &query->view);
    else
        mp_steps_text(&query->text, query->model, &report, grouped ? &groups : NULL, &query->view);
    mp_step_groups_free(&groups);
    mp_step_report_free(&report);
    return MP_EXIT_DONE;
}

static int run_steps(const struct mp_invocation *invocation)
{
    struct mp_query query;
    int status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    return status ? status : mp_query_finish(&query, report_steps(&query));
}

const struct mp_command mp_command_steps = {
    .name = "steps",
    .summary = "per step and region: allocated, freed, peak, kept",
    .usage = "FILE...",
    .about =
        "A step begins at the program's mark (libmemprof.step(), memprof_step()) and ends with the next. The numbers "
        "of a region cover its time on all threads. -n shows the last N steps. --group shows each step's memory at its "
        "peak, for instance by category.",
    .example = "memprof steps run.mp --from step:10",
    .meanings = {{MP_OPT_LIMIT, "show the last N steps; 0 shows all (text: 10, JSON: all)"}},
    .options = {MP_REPORT_OPTIONS, MP_FORM_OPTIONS, MP_WINDOW_OPTIONS, MP_OPT_LIMIT, MP_OPT_GROUP, MP_OPT_RULES},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_steps,
};
