/* Categories of the blocks at a peak, as text, document and JSON: of sites grouped by category. */
#ifndef MP_OUTPUT_CATEGORIES_H
#define MP_OUTPUT_CATEGORIES_H

#include "analysis/sites/sites.h"
#include "base/json.h"
#include "output/report/document.h"
#include "output/report/text.h"

/* Whether most of the bytes have one: else a table of them says little. */
bool mp_categories_tell(const struct mp_sites *categories);
/* A row each with a bar, the largest first, what has none last. */
void mp_categories_text(struct mp_text *text, const struct mp_sites *categories);
void mp_categories_document(struct mp_document *document, const struct mp_sites *categories);
/* An array under "categories"; null where no block has one. */
void mp_categories_json(struct mp_json *json, const struct mp_sites *categories);

#endif
