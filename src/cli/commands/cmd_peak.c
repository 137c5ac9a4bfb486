#include "cli/query.h"
#include "output/report/peak.h"

static int find_peak(struct mp_query *query)
{
    struct mp_peak peak;
    if (mp_query_pick_track(query)) return MP_EXIT_COULD_NOT;
    struct mp_categories *categories = mp_categories_make(query->model, &query->rules);
    query->view.grouping.categories = categories;
    struct mp_peak_query ask = {query->track, query->view.window, query->view.grouping, categories, query->filter};
    mp_peak_find(query->model, &ask, &peak);
    mp_categories_free(categories);
    mp_query_hold(query, &peak);
    if (query->as_json)
        mp_peak_json(&query->json, NULL, query->model, &peak, &query->view);
    else
        mp_peak_text(&query->text, query->model, &peak, &query->view);
    mp_peak_free(&peak);
    return MP_EXIT_DONE;
}

static int run_peak(const struct mp_invocation *invocation)
{
    struct mp_query query;
    int status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    return status ? status : mp_query_finish(&query, find_peak(&query));
}

const struct mp_command mp_command_peak = {
    .name = "peak",
    .summary = "the sites that held memory at the peak",
    .usage = "FILE...",
    .about =
        "Shows the moment with most allocated bytes, and the blocks live then, by the site that allocated them. With "
        "--from and --to, the peak of that time. --filter picks what is listed; the peak stays that of the whole "
        "track.",
    .example = "memprof peak run.mp --group file -n 5",
    .options = {MP_REPORT_OPTIONS, MP_FORM_OPTIONS, MP_WINDOW_OPTIONS, MP_SITE_OPTIONS},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_peak,
};
