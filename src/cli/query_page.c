#include "cli/query_page.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/messages.h"
#include "cli/page_advice.h"
#include "model/stack.h"
#include "output/page/page.h"

struct page {
    const struct mp_query *query;
    const char *view;
    uint32_t *site_of_stack;
    struct mp_advise *advise; /* NULL: none */
};

static enum mp_status write_page(void *context, FILE *out, struct mp_error *error)
{
    const struct page *page = context;
    const struct mp_query *query = page->query;
    const struct mp_page_cut cut = {
        .window = query->view.window, .filter = query->filter, .filter_text = query->view.filter};
    struct mp_page_options options = {.track = query->track == MP_TRACK_NONE ? -1 : query->track,
                                      .title = mp_path_short(query->view.path),
                                      .view = page->view,
                                      .cut = &cut,
                                      .rules = &query->rules,
                                      .advise = page->advise,
                                      .site_of_stack = page->site_of_stack};
    return mp_page_write(query->model, &options, out, error);
}

int mp_query_page_write(const struct mp_query *query, const char *path, const char *view, uint32_t *site_of_stack)
{
    struct mp_advise advise;
    struct page page = {.query = query, .view = view, .site_of_stack = site_of_stack};
    bool whole = query->view.window.whole && !query->filter; /* changes are replayed on all of a recording */
    if (whole && mp_page_advice(query->model, query->track, &advise)) page.advise = &advise;
    int status = mp_output_write_to(query->invocation, path, write_page, &page);
    if (page.advise) mp_advise_free(page.advise);
    return status;
}

/* A file's name with its folder as the system knows it; as given where there is no such folder. */
static char *whole_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? mp_text_copy_part(path, (size_t)(slash - path) + 1) : mp_text_copy(".");
    char *real = realpath(folder, NULL);
    const char *root = real && !strcmp(real, "/") ? "" : real;
    char *whole = real ? mp_text_make("%s/%s", root, slash ? slash + 1 : path) : mp_text_copy(path);
    free(folder);
    free(real);
    return whole;
}

char *mp_query_page_link(const char *from, const char *to)
{
    char *here = whole_path(from), *there = whole_path(to), *own = realpath(from, NULL), *other = realpath(to, NULL);
    struct mp_buffer link = {0};
    bool same = !strcmp(here, there) || (own && other && !strcmp(own, other)); /* by a link of the file system, too */
    size_t common = 0;
    for (size_t i = 0; here[i] && here[i] == there[i]; i++)
        if (here[i] == '/') common = i + 1;
    mp_buffer_append_text(&link, "./"); /* no name is taken for a scheme */
    for (const char *at = here + common; (at = strchr(at, '/')); at++)
        mp_buffer_append_text(&link, "../");
    mp_buffer_append_address(&link, there + common);
    mp_buffer_append(&link, "", 1);
    free(here);
    free(there);
    free(own);
    free(other);
    if (!same) return (char *)link.data;
    mp_buffer_free(&link);
    return NULL;
}

int mp_query_page_check(const struct mp_invocation *invocation, bool html)
{
    const char *page = invocation->value[MP_OPT_PAGE], *own = invocation->value[MP_OPT_OUTPUT];
    if (!page) return MP_EXIT_DONE;
    if (!html) {
        mp_message("--page is for a report in HTML, which links to it: name that one, too, as in -o report.html");
        return MP_EXIT_USAGE;
    }
    char *link = *page && strcmp(page, "-") ? mp_query_page_link(own ? own : "-", page) : NULL;
    if (!link) mp_message("--page needs the name of a file of its own, as in --page trace.html");
    free(link);
    return link ? MP_EXIT_DONE : MP_EXIT_USAGE;
}

int mp_query_page_linked(struct mp_query *query, uint32_t **site_of_stack)
{
    const struct mp_invocation *invocation = query->invocation;
    const char *path = invocation->value[MP_OPT_PAGE], *own = invocation->value[MP_OPT_OUTPUT];
    *site_of_stack = NULL;
    if (!path) return MP_EXIT_DONE;
    *site_of_stack = mp_alloc((query->model->stacks.count + 1) * sizeof **site_of_stack);
    int status = mp_query_page_write(query, path, NULL, *site_of_stack);
    if (!status) query->document.page = mp_query_page_link(own ? own : "-", path);
    return status;
}
