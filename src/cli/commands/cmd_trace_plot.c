#include "cli/jobs/job.h"
#include "cli/jobs/job_pages.h"
#include "cli/query.h"
#include "cli/query_page.h"
#include "output/page/job_page.h"

struct job_page {
    const struct mp_job_query *query;
    char **links;
};

static enum mp_status write_job_page(void *context, FILE *out, struct mp_error *error)
{
    const struct job_page *page = context;
    return mp_job_page_write(&page->query->job, mp_path_short(page->query->view.path), page->links, out, error);
}

static int plot_job(const struct mp_invocation *invocation)
{
    struct mp_job_query query;
    struct job_page page = {.query = &query};
    int status = mp_job_open(invocation, &query), pages = MP_EXIT_DONE;
    if (status) return status;
    if (mp_given(invocation, MP_OPT_PAGES)) pages = mp_job_pages_write(invocation, &query.job, &page.links);
    if (pages == MP_EXIT_COULD_NOT) status = pages;
    if (!status) status = mp_output_write(invocation, write_job_page, &page);
    mp_job_pages_free(page.links, &query.job);
    status = mp_job_end(&query, status);
    return status ? status : pages;
}

static int run(const struct mp_invocation *invocation, const char *view)
{
    struct mp_query query;
    if (mp_given(invocation, MP_OPT_PAGES) && !mp_job_asked(invocation)) {
        mp_message("--pages is for a job of several recordings, and %s is one", invocation->operands[0]);
        return MP_EXIT_USAGE;
    }
    if (mp_given(invocation, MP_OPT_PAGES) && !mp_job_pages_fit(invocation->value[MP_OPT_OUTPUT])) {
        mp_message("--pages makes a folder beside the page, and %s is no file: name one, as in -o job.html",
                   invocation->value[MP_OPT_OUTPUT]);
        return MP_EXIT_USAGE;
    }
    if (!view && mp_job_asked(invocation)) return plot_job(invocation);
    int status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    if (status) return status;
    return mp_query_end(&query, mp_query_page_write(&query, invocation->value[MP_OPT_OUTPUT], view, NULL));
}

static int run_trace(const struct mp_invocation *invocation)
{
    return run(invocation, NULL);
}

static int run_segments(const struct mp_invocation *invocation)
{
    return run(invocation, "segments");
}

extern const struct mp_command mp_command_trace_plot;
const struct mp_command mp_command_trace_plot = {
    .name = "trace_plot",
    .summary = "every allocation over time, as one HTML page",
    .usage = "FILE...",
    .writes = "trace.html",
    .about =
        "The page needs nothing else: it opens from disk, without a network. --track says which track it shows "
        "first; all are in it. A page holds every block of up to 100 million events; --from and --to choose a part "
        "of the recording, --filter the blocks, and the page says what is not in it. Colours are what blocks are for, "
        "where that is known, by --rules FILE, too. Changes that would lower the peak can be drawn over it, of up to 4 "
        "million events and without --from, --to and --filter. The page of a job (several files, a folder, or what "
        "merge wrote) "
        "has "
        "a bar for each process, their curves on one scale, aligned by step, or as a heat map, the sites of all, and "
        "what "
        "differs between two of them; with --pages a click also leads to a page of each recording.",
    .example = "memprof trace_plot run.mp -o trace.html",
    .meanings = {{MP_OPT_OUTPUT, "write to FILE, needed; - is stdout"}},
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_OPT_PAGES, MP_WINDOW_OPTIONS, MP_OPT_FILTER, MP_OPT_RULES,
                MP_OPT_SKIP_FRAMES},
    .operands_min = 1,
    .operands_max = 1000000,
    .run = run_trace,
};

extern const struct mp_command mp_command_segment_plot;
const struct mp_command mp_command_segment_plot = {
    .name = "segment_plot",
    .summary = "what lies where in memory, as one HTML page",
    .usage = "FILE",
    .writes = "segments.html",
    .about =
        "The page of trace_plot, opened on its segments: the memory that an allocator got from the driver, with the "
        "blocks in it and the holes between them, at the peak or at any moment that is clicked.",
    .example = "memprof segment_plot run.mp -o segments.html",
    .meanings = {{MP_OPT_OUTPUT, "write to FILE, needed; - is stdout"}},
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_WINDOW_OPTIONS, MP_OPT_FILTER, MP_OPT_RULES, MP_OPT_SKIP_FRAMES},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_segments,
};
