#include "cli/query.h"
#include "output/report/info.h"

static int run_info(const struct mp_invocation *invocation)
{
    struct mp_query query;
    int status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    if (status) return status;
    query.view.sizes = mp_given(invocation, MP_OPT_SIZES);
    if (query.as_json)
        mp_info_json(&query.json, NULL, query.model, &query.view);
    else
        mp_info_text(&query.text, query.model, &query.view);
    return mp_query_finish(&query, MP_EXIT_DONE);
}

const struct mp_command mp_command_info = {
    .name = "info",
    .summary = "facts about a recording: command, devices, tracks, coverage",
    .usage = "FILE...",
    .example = "memprof info run.mp",
    .options = {MP_REPORT_OPTIONS, MP_FORM_OPTIONS, MP_OPT_SIZES},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_info,
};
