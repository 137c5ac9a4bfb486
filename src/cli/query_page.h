/* The page of one recording as a file, as trace_plot and the reports that link to it write it. */
#ifndef MP_CLI_QUERY_PAGE_H
#define MP_CLI_QUERY_PAGE_H

#include "cli/query.h"
#include "output/form/document.h"

/* Writes the page of the query's recording, or of the part that it chooses, to `path` (NULL or "-": stdout). `view` and
 * `site_of_stack` as in struct mp_page_options. Returns an exit status; where it is not 0, a message was printed. */
int mp_query_page_write(const struct mp_query *query, const char *path, const char *view, uint32_t *site_of_stack);

/* Whether --page may stand here: it needs a report in HTML (`html`), and a file of its own. Returns an exit status;
 * where it is not 0, a message was printed. */
int mp_query_page_check(const struct mp_invocation *invocation, bool html);

/* The address of one file for a link in another, as a browser that opened `from` from disk follows it; NULL: both are
 * one file. The caller frees it. */
char *mp_query_page_link(const char *from, const char *to);

/* With --page, writes the page to which the query's document then links. `*site_of_stack`: as mp_query_page_write()
 * told them, else NULL; the caller frees it. Returns an exit status; where it is not 0, a message was printed. */
int mp_query_page_linked(struct mp_query *query, uint32_t **site_of_stack);

#endif
