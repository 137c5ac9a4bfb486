/* The report as a document: the same as its text, in the same order, without the device's uses and counters. */
#ifndef MP_OUTPUT_REPORT_DOCUMENT_H
#define MP_OUTPUT_REPORT_DOCUMENT_H

#include "output/report/document.h"
#include "output/report/reports.h"

/* `site_of_stack`: those of the page to which it links (document->page), as mp_page_write() told them; NULL: none. */
void mp_report_document(struct mp_document *document, const struct mp_model *model, const struct mp_story *story,
                        const struct mp_view *view, const uint32_t *site_of_stack);

#endif
