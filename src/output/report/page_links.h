/*
 * Links from a document into the page of its recording (output/page/page.h): the place is in the page's address, as
 * viz/src/address.js reads it. Each is that of the document's next text; without a page nothing is linked.
 */
#ifndef MP_OUTPUT_PAGE_LINKS_H
#define MP_OUTPUT_PAGE_LINKS_H

#include "analysis/sites/peak.h"
#include "analysis/sites/steps.h"
#include "output/form/document.h"

/* The recording's part in the page's addresses. */
struct mp_page_links {
    const struct mp_model *model;
    const uint32_t *site_of_stack;      /* as mp_page_write() told it */
    const struct mp_step_report *steps; /* NULL: none are known */
};

/* The sites of the peak: the step that it is in, or else a tenth of the recording on both sides. */
void mp_link_peak(struct mp_document *document, const struct mp_page_links *links, const struct mp_peak *peak);
/* The step, selected in the view of steps. */
void mp_link_step(struct mp_document *document, const struct mp_page_links *links, uint16_t track, uint32_t number);
/* A site's blocks, chosen; `words` says which view and which blocks, in the address's own words: "of=end". */
void mp_link_site(struct mp_document *document, const struct mp_page_links *links, uint16_t track, uint32_t stack,
                  const char *words);

#endif
