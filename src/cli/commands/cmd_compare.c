#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/compare_options.h"
#include "cli/progress.h"
#include "cli/query.h"
#include "exchange/load/load.h"
#include "output/report/compare.h"
#include "output/report/coverage.h"

/* Makes the profile query of one recording from the options. The caller frees the filter. */
static int ask_of(const struct mp_query *query, const struct mp_model *model, struct mp_profile_query *ask,
                  struct mp_filter **filter)
{
    const struct mp_invocation *invocation = query->invocation;
    struct mp_error error;
    char id[MP_TRACK_ID_MAX];
    *ask = (struct mp_profile_query){.track = mp_track_find(model, mp_track_id(query->model, query->track, id)),
                                     .at = MP_NONE};
    *filter = NULL;
    if (ask->track == MP_TRACK_NONE) return mp_give_up("not every recording has a track %s; --track picks another", id);
    if (mp_window_make(model, invocation->value[MP_OPT_FROM], invocation->value[MP_OPT_TO], &ask->window, &error) ||
        mp_query_filter(query, model, filter, &error))
        return mp_message_error(&error);
    ask->filter = *filter;
    return MP_EXIT_DONE;
}

static int load(const struct mp_query *query, const char *path, struct mp_model **model)
{
    struct mp_error error;
    mp_progress_start(query->invocation, path);
    enum mp_status loaded = mp_exchange_load(path, model, &error);
    mp_progress_end();
    if (!loaded) loaded = mp_query_skip(query->invocation, *model, &error);
    return loaded ? mp_message_error(&error) : MP_EXIT_DONE;
}

static void describe(const struct mp_query *query, const struct mp_model *model, struct mp_compared *compared)
{
    struct mp_buffer words = {0};
    struct mp_text text = {.out = &compared->coverage, .color = query->text.color && !query->document.out};
    mp_model_command(model, &words);
    mp_text_clean(&compared->command, mp_buffer_text(&words));
    mp_buffer_free(&words);
    mp_coverage_text(&text, model);
    compared->events = mp_model_event_count(model);
    compared->complete = !mp_model_incomplete(model) && !mp_model_limited(model);
}

/* Fills in the facts that the report shows about a recording. */
static int sum_up(const struct mp_query *query, const struct mp_model *model, struct mp_compared *compared)
{
    struct mp_profile_query ask;
    struct mp_filter *filter;
    struct mp_profile profile;
    int status = ask_of(query, model, &ask, &filter);
    if (!status) mp_profile_make(model, &ask, &profile);
    mp_filter_free(filter);
    if (status) return status;
    compared->peak_bytes = profile.sums[MP_PROFILE_PEAK].bytes;
    compared->outstanding_bytes = profile.sums[MP_PROFILE_OUTSTANDING].bytes;
    compared->allocated_bytes = profile.sums[MP_PROFILE_ALLOCATED].bytes;
    mp_profile_free(&profile);
    describe(query, model, compared);
    return MP_EXIT_DONE;
}

static int compare(struct mp_query *query, const struct mp_model *before, struct mp_comparison *comparison,
                   const struct mp_compare_limit *limit, bool *grew)
{
    struct mp_compare result;
    struct mp_filter *filters[MP_SIDES] = {NULL, NULL};
    struct mp_compare_query ask = {
        .models = {before, query->model}, .sense = comparison->sense, .grouping = query->view.grouping};
    int status = ask_of(query, before, &ask.asks[MP_BEFORE], &filters[MP_BEFORE]);
    if (!status) status = ask_of(query, query->model, &ask.asks[MP_AFTER], &filters[MP_AFTER]);
    if (!status) mp_compare_make(&ask, &result);
    mp_filter_free(filters[MP_BEFORE]);
    mp_filter_free(filters[MP_AFTER]);
    if (status) return status;
    comparison->compare = &result;
    for (int side = MP_BEFORE; side < MP_SIDES; side++) {
        comparison->tracks[side] = ask.asks[side].track;
        comparison->windows[side] = ask.asks[side].window;
    }
    for (int sense = MP_PROFILE_PEAK; sense <= MP_PROFILE_OUTSTANDING; sense++)
        *grew |= mp_compare_grew(result.sums[MP_BEFORE][sense].bytes, result.sums[MP_AFTER][sense].bytes, limit->bytes,
                                 limit->percent);
    if (query->as_json)
        mp_compare_json(&query->json, comparison);
    else
        mp_compare_text(&query->text, comparison);
    mp_compare_free(&result);
    return MP_EXIT_DONE;
}

static int compare_all(struct mp_query *query, enum mp_profile_of sense, const struct mp_compare_limit *limit,
                       bool *grew, bool *incomplete)
{
    size_t count = query->invocation->operand_count;
    struct mp_compared *all = mp_alloc_zeroed(count, sizeof *all);
    struct mp_model *before = NULL, *lacking = NULL; /* the first recording, and the first that lacks something */
    int status = MP_EXIT_DONE;
    for (size_t i = 0; !status && i < count; i++) {
        struct mp_model *model = query->model;
        all[i].path = query->invocation->operands[i];
        if (i + 1 < count) status = load(query, all[i].path, &model);
        if (!status) status = sum_up(query, model, &all[i]);
        if (i + 1 == count || model == query->model) continue;
        bool lacks = !status && mp_query_report_missing(all[i].path, model), first = lacks && !lacking;
        if (first) lacking = model;
        if (!i && !status)
            before = model;
        else if (!first)
            mp_model_free(model);
    }
    *incomplete = lacking;
    struct mp_comparison comparison = {.models = {before, query->model},
                                       .covered = lacking ? lacking : query->model,
                                       .sense = sense,
                                       .all = all,
                                       .count = count,
                                       .view = &query->view};
    if (!status) status = compare(query, before, &comparison, limit, grew);
    if (lacking != before) mp_model_free(lacking);
    mp_model_free(before);
    for (size_t i = 0; i < count; i++) {
        mp_buffer_free(&all[i].command);
        mp_buffer_free(&all[i].coverage);
    }
    free(all);
    return status;
}

static int run_compare(const struct mp_invocation *invocation)
{
    struct mp_query query;
    struct mp_compare_limit limit;
    enum mp_profile_of sense = MP_PROFILE_PEAK;
    enum mp_document_form form;
    bool grew = false, incomplete = false, document;
    int status = mp_compare_options(invocation, &limit, &sense);
    if (!status) status = mp_form_read(invocation, &document, &form);
    if (!status) status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    if (status) return status;
    status = mp_query_pick_track(&query);
    if (!status) status = compare_all(&query, sense, &limit, &grew, &incomplete);
    status = mp_query_finish(&query, status);
    if (!status && incomplete) status = MP_EXIT_INCOMPLETE;
    return mp_query_found(invocation, grew, status);
}

const struct mp_command mp_command_compare = {
    .name = "compare",
    .summary = "the difference between recordings, site by site",
    .usage = "A B [C...]",
    .about =
        "Compares the first recording with the last: peak, outstanding at the end, bytes allocated in all, and the "
        "sites that differ most. Sites are equal by function and, for Python, file and line. Recordings between the "
        "two are listed with peak and outstanding.\n\n--of chooses the figure by which sites are compared (peak). "
        "--group compares categories, modules or regions by their names. --sort growth lists the largest growth first "
        "and the largest decrease last. --fail exits with 3 if peak or outstanding grew by more than --max-growth, a "
        "percentage or a size (5%). --format markdown (or -o FILE.md) is for pull requests, html (or -o FILE.html) one "
        "page with both curves. If one operand is a folder or a merged job, jobs are compared: the highest peaks, and "
        "the sites' averages per process.",
    .example = "memprof compare before.mp after.mp --fail --max-growth 5%",
    .meanings = {{MP_OPT_OF, "compare sites by peak, outstanding or allocated (peak)"},
                 {MP_OPT_FAIL, "exit with 3 if peak or outstanding grew by more than --max-growth"}},
    .options = {MP_REPORT_OPTIONS, MP_WINDOW_OPTIONS, MP_SITE_OPTIONS, MP_OPT_OF, MP_FORM_OPTIONS, MP_OPT_FAIL,
                MP_OPT_MAX_GROWTH},
    .operands_min = 2,
    .operands_max = 1000,
    .run = run_compare,
};
