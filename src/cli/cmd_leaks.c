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
    .summary = "what keeps growing, what is outstanding",
    .usage = "FILE",
    .about =
        "Says how much was never freed, and lists what the program held when blocks of most ages were live: at its "
        "end, or earlier where it freed its leaks before it ended. All tracks are looked at. First come the places "
        "in the program whose blocks were born in the largest number of distinct steps (or, in a recording without "
        "steps, of 64 equal parts of it), then those with most bytes.",
    .example = "memprof leaks run.mp -n 3",
    .options = {MP_REPORT_OPTIONS, MP_WINDOW_OPTIONS, MP_SITE_OPTIONS},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
