#include "cli/query.h"

#define TOP_SITES 3 /* all must fit on one screen */

static int write_story(struct mp_query *query, const struct mp_leaks *leaks)
{
    struct mp_error error;
    struct mp_peak peak = {0};
    struct mp_step_report steps = {0};
    struct mp_frag frag = {0};
    struct mp_story story = {.leaks = leaks};
    int status = MP_EXIT_DONE;
    if (mp_query_pick_track(query)) {
        struct mp_peak_query ask = {query->track, query->view.window, {.by = MP_GROUP_STACK}, query->filter};
        if (mp_peak_find(query->model, &ask, &peak, &error)) return mp_message_error(&error);
        if (mp_steps_report(query->model, query->track, &query->view.window, &steps, &error))
            status = mp_message_error(&error);
        story.peak = &peak;
        story.steps = &steps;
        const struct mp_frag_query holes = {.track = query->track, .window = query->view.window, .advise = true};
        if (!status && mp_frag_find(query->model, &holes, &frag, &error)) status = mp_message_error(&error);
        story.frag = &frag;
    }
    if (!status && query->as_json)
        mp_report_json(&query->json, query->model, &story, &query->view);
    else if (!status)
        mp_report_text(&query->text, query->model, &story, &query->view);
    mp_peak_free(&peak);
    mp_step_report_free(&steps);
    mp_frag_free(&frag);
    return status;
}

static int tell(struct mp_query *query)
{
    struct mp_error error;
    struct mp_leaks leaks;
    struct mp_leaks_query ask = {
        query->track, query->view.window, {.by = MP_GROUP_STACK, .sort = MP_SORT_GROWTH}, query->filter, NULL};
    if (mp_leaks_find(query->model, &ask, &leaks, &error)) return mp_message_error(&error);
    int status = write_story(query, &leaks);
    mp_leaks_free(&leaks);
    return status;
}

static int run(const struct mp_invocation *invocation)
{
    struct mp_query query;
    int status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    if (status) return status;
    if (!query.as_json && !mp_given(invocation, MP_OPT_LIMIT)) query.view.limit = TOP_SITES;
    return mp_query_finish(&query, tell(&query));
}

extern const struct mp_command mp_command_report;
const struct mp_command mp_command_report = {
    .name = "report",
    .summary = "the whole story on one screen: peak, outstanding, steps, coverage",
    .usage = "FILE",
    .example = "memprof report run.mp",
    .options = {MP_REPORT_OPTIONS, MP_WINDOW_OPTIONS, MP_OPT_LIMIT, MP_OPT_FILTER},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
