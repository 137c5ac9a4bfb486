#include "cli/query.h"
#include "model/stack.h"
#include "output/page/page.h"

#define CHANGES 12      /* best changes that the page draws */
#define EVENTS  4000000 /* with more events, replays would make the page wait too long */

struct page {
    const struct mp_query *query;
    const char *view;
    const struct mp_advise *advise; /* NULL: none */
};

static enum mp_status write_page(void *context, FILE *out, struct mp_error *error)
{
    const struct page *page = context;
    const struct mp_query *query = page->query;
    const struct mp_page_cut cut = {
        .window = query->view.window, .filter = query->filter, .filter_text = query->view.filter};
    const struct mp_page_options options = {.track = query->track == MP_TRACK_NONE ? -1 : query->track,
                                            .title = mp_path_short(query->view.path),
                                            .view = page->view,
                                            .cut = &cut,
                                            .rules = &query->rules,
                                            .advise = page->advise};
    return mp_page_write(query->model, &options, out, error);
}

/* Looks for changes that lower the peak of the track shown first. Returns whether *advise was made; then the caller
 * frees it. */
static bool find_advice(const struct mp_query *query, struct mp_advise *advise)
{
    const struct mp_model *model = query->model;
    struct mp_error error;
    uint16_t track = query->track == MP_TRACK_NONE ? mp_track_default(model) : query->track;
    if (!query->view.window.whole || query->filter) return false; /* replays need the whole recording */
    if (track == MP_TRACK_NONE || mp_model_sample_of(model, track) || model->events.count > EVENTS) return false;
    const struct mp_advise_query ask = {.track = track, .kinds = mp_advise_quick_kinds(model), .curves = CHANGES};
    return !mp_advise_find(model, &ask, advise, &error);
}

static int run_trace_plot(const struct mp_invocation *invocation, const char *view)
{
    struct mp_query query;
    struct mp_advise advise;
    struct page page = {.query = &query, .view = view};
    int status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    if (status) return status;
    if (find_advice(&query, &advise)) page.advise = &advise;
    status = mp_output_write(invocation, write_page, &page);
    if (page.advise) mp_advise_free(&advise);
    return mp_query_end(&query, status);
}

static int run_trace(const struct mp_invocation *invocation)
{
    return run_trace_plot(invocation, NULL);
}

static int run_segments(const struct mp_invocation *invocation)
{
    return run_trace_plot(invocation, "segments");
}

const struct mp_command mp_command_trace_plot = {
    .name = "trace_plot",
    .summary = "every allocation over time, as one HTML page",
    .usage = "FILE...",
    .writes = "trace.html",
    .about =
        "The page opens from disk, without a network. --track chooses the track shown first; all are in it. A page "
        "holds every block of up to 100 million events. --from and --to choose a part of the recording, --filter the "
        "blocks; the page says what was left out. Colours show the uses of blocks, also by --rules FILE. Changes that "
        "would lower the peak can be drawn over it, for up to 4 million events and without --from, --to and "
        "--filter.\n\nThe page of a job (several files, a folder, or a merged file) has a bar for each process, their "
        "curves aligned by step or as a heat map, the sites of all, and the difference of two processes.",
    .example = "memprof trace_plot run.mp -o trace.html",
    .meanings = {{MP_OPT_OUTPUT, "write to FILE, needed; - is stdout"}},
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_WINDOW_OPTIONS, MP_OPT_FILTER, MP_OPT_RULES, MP_OPT_SKIP_FRAMES},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_trace,
};

const struct mp_command mp_command_segment_plot = {
    .name = "segment_plot",
    .summary = "the addresses of all blocks, as one HTML page",
    .usage = "FILE",
    .writes = "segments.html",
    .about =
        "The page of trace_plot, opened on its segments: the memory that an allocator got from the driver, with its "
        "blocks and holes, at the peak or at any clicked moment.",
    .example = "memprof segment_plot run.mp -o segments.html",
    .meanings = {{MP_OPT_OUTPUT, "write to FILE, needed; - is stdout"}},
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_WINDOW_OPTIONS, MP_OPT_FILTER, MP_OPT_RULES, MP_OPT_SKIP_FRAMES},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_segments,
};
