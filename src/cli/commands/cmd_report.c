#include "cli/query.h"
#include "output/report/report.h"

#define TOP_SITES       3 /* the report must fit on one screen */
#define TOP_IN_DOCUMENT 10

static int write_story(struct mp_query *query, const struct mp_leaks *leaks)
{
    struct mp_error error;
    struct mp_peak peak = {0};
    struct mp_step_report steps = {0};
    struct mp_frag frag = {0};
    struct mp_advise advise = {0};
    struct mp_story story = {.leaks = leaks};
    int status = MP_EXIT_DONE;
    if (query->track == MP_TRACK_NONE) query->track = mp_track_default(query->model);
    if (query->track != MP_TRACK_NONE) {
        struct mp_categories *categories = mp_categories_make(query->model, &query->rules);
        struct mp_peak_query ask = {
            query->track, query->view.window, {.by = MP_GROUP_STACK}, categories, query->filter};
        mp_peak_find(query->model, &ask, &peak);
        mp_categories_free(categories);
        mp_query_hold(query, &peak);
        mp_steps_report(query->model, query->track, &query->view.window, &steps);
        story.peak = &peak;
        story.steps = &steps;
        const struct mp_frag_query holes = {.track = query->track, .window = query->view.window, .advise = true};
        bool sampled = mp_model_sample_of(query->model, query->track);
        if (!sampled && mp_frag_find(query->model, &holes, &frag, &error)) status = mp_message_error(&error);
        story.frag = sampled ? NULL : &frag;
        bool whole = query->view.window.whole && !query->filter && !sampled; /* replays need the whole recording */
        const struct mp_advise_query changes = {.track = query->track, .kinds = mp_advise_quick_kinds(query->model)};
        if (!status && whole && mp_advise_find(query->model, &changes, &advise, &error))
            status = mp_message_error(&error);
        story.advise = whole ? &advise : NULL;
    }
    if (!status && query->as_json)
        mp_report_json(&query->json, query->model, &story, &query->view);
    else if (!status)
        mp_report_text(&query->text, query->model, &story, &query->view);
    mp_peak_free(&peak);
    mp_step_report_free(&steps);
    mp_frag_free(&frag);
    mp_advise_free(&advise);
    return status;
}

static int write_report(struct mp_query *query)
{
    struct mp_error error;
    struct mp_leaks leaks;
    struct mp_leaks_query ask = {
        query->track, query->view.window, {.by = MP_GROUP_STACK, .sort = MP_SORT_GROWTH}, query->filter, NULL};
    if (mp_leaks_find(query->model, &ask, &leaks, &error)) return mp_message_error(&error);
    if (!query->as_json)
        mp_sites_sort(&leaks.outstanding, MP_SORT_BYTES); /* in JSON, the order is that of `memprof
                                                           * leaks` */
    int status = write_story(query, &leaks);
    mp_leaks_free(&leaks);
    return status;
}

static int run_report(const struct mp_invocation *invocation)
{
    struct mp_query query;
    enum mp_document_form form;
    bool document;
    int status = mp_form_read(invocation, &document, &form);
    if (!status) status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    if (status) return status;
    if (!query.as_json && !mp_given(invocation, MP_OPT_LIMIT))
        query.view.limit = document ? TOP_IN_DOCUMENT : TOP_SITES;
    status = write_report(&query);
    mp_query_note_others(&query, "report");
    return mp_query_finish(&query, status);
}

const struct mp_command mp_command_report = {
    .name = "report",
    .summary = "the whole story on one screen: peak, leaks, steps, advice",
    .usage = "FILE...",
    .about =
        "--format markdown (or -o FILE.md) is for pull requests and summaries of CI. html (or -o FILE.html) is one "
        "page with the curve, to keep. --columns chooses columns of sites, leaks and regions.",
    .example = "memprof report run.mp",
    .meanings = {{MP_OPT_LIMIT, "show N rows; 0 shows all (text: 3, of a job 8; markdown and html: 10; JSON: all)"}},
    .options = {MP_REPORT_OPTIONS, MP_WINDOW_OPTIONS, MP_OPT_LIMIT, MP_OPT_FILTER, MP_OPT_RULES, MP_OPT_SKIP_FRAMES,
                MP_FORM_OPTIONS},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_report,
};
