#include <string.h>

#include "analysis/allocator/frag.h"
#include "cli/query.h"
#include "output/report/frag.h"

static int find_frag(struct mp_query *query)
{
    struct mp_error error;
    struct mp_frag frag;
    if (mp_query_pick_track(query)) return MP_EXIT_COULD_NOT;
    const struct mp_frag_query ask = {
        .track = query->track, .window = query->view.window, .replay = query->invocation->value[MP_OPT_REPLAY]};
    if (mp_frag_find(query->model, &ask, &frag, &error)) return mp_message_error(&error);
    if (query->as_json)
        mp_frag_json(&query->json, NULL, query->model, &frag);
    else
        mp_frag_text(&query->text, query->model, &frag, &query->view);
    mp_frag_free(&frag);
    return MP_EXIT_DONE;
}

/* Checks of arguments that need no recording. */
static int check_settings(const struct mp_invocation *invocation)
{
    struct mp_error error;
    struct mp_torch_settings settings;
    const char *replay = invocation->value[MP_OPT_REPLAY];
    mp_torch_settings_default(&settings);
    if (!replay || !strcmp(replay, "recorded") || !mp_torch_settings_parse(&settings, replay, &error))
        return MP_EXIT_DONE;
    return mp_message_error(&error);
}

static int run_frag(const struct mp_invocation *invocation)
{
    struct mp_query query;
    int status = check_settings(invocation);
    if (!status) status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    return status ? status : mp_query_finish(&query, find_frag(&query));
}

const struct mp_command mp_command_frag = {
    .name = "frag",
    .summary = "reserved and free memory, what pins holes, why memory ran out",
    .usage = "FILE",
    .about =
        "Shows memory that a caching allocator holds and nobody uses, when memory ran out or else at the end, and the "
        "blocks that keep half-empty segments. After an out-of-memory it gives the cause, and the settings of "
        "PyTorch's allocator that would have fitted the request, proved by a replay.\n\n--replay SETTINGS replays all "
        "requests under other settings, written as in PYTORCH_CUDA_ALLOC_CONF. --replay recorded replays a snapshot's "
        "own trace and shows the first difference, if any; for a recording of memprof it replays the requests under "
        "their own settings.",
    .example = "memprof frag snapshot.pickle --replay expandable_segments:True,max_split_size_mb:512",
    .options = {MP_REPORT_OPTIONS, MP_FORM_OPTIONS, MP_WINDOW_OPTIONS, MP_OPT_LIMIT, MP_OPT_REPLAY},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_frag,
};
