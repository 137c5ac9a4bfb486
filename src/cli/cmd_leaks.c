#include "cli/query.h"

static int find_leaks(struct mp_query *query)
{
    struct mp_error error;
    struct mp_leaks leaks;
    struct mp_leaks_query ask = {query->track, query->view.window, query->view.grouping, query->filter};
    if (mp_leaks_find(query->model, &ask, &leaks, &error)) return mp_message_error(&error);
    if (query->as_json)
        mp_leaks_json(&query->json, NULL, query->model, &leaks, &query->view);
    else
        mp_leaks_text(&query->text, query->model, &leaks, &query->view);
    mp_leaks_free(&leaks);
    return MP_EXIT_DONE;
}

static int run(const struct mp_invocation *invocation)
{
    struct mp_query query;
    int status = mp_query_open(invocation, MP_SORT_GROWTH, &query);
    return status ? status : mp_query_finish(&query, find_leaks(&query));
}

extern const struct mp_command mp_command_leaks;
const struct mp_command mp_command_leaks = {
    .name = "leaks",
    .summary = "what is outstanding at the end, what keeps growing first",
    .usage = "FILE",
    .about =
        "Lists the blocks that were never freed, on all tracks, by the place in the program that allocated them. "
        "First come those whose blocks were born in the largest number of distinct steps (or, in a recording "
        "without steps, of 64 equal parts of it), then those with most bytes. With --to, what is live at that time.",
    .example = "memprof leaks run.mp -n 3",
    .options = {MP_REPORT_OPTIONS, MP_WINDOW_OPTIONS, MP_SITE_OPTIONS},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
