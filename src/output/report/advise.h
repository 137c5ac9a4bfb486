/*
 * Changes that would save memory, as text and as JSON. As output/report/reports.h.
 */
#ifndef MP_OUTPUT_ADVISE_H
#define MP_OUTPUT_ADVISE_H

#include "analysis/advise/advise.h"
#include "output/report/columns.h"
#include "output/report/reports.h"

void mp_advise_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_advise *advise,
                    const struct mp_view *view);
/* All of its changes, as "changes", without the stacks that they are about. */
void mp_advise_changes_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise);
/* The best so many of its changes as entries of `advice` in a report: as objects, and as lines numbered from `first`
 * on, and as a table of a document. */
void mp_advise_best_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise,
                         size_t most);
void mp_advise_best_text(struct mp_text *text, const struct mp_model *model, const struct mp_advise *advise,
                         size_t most, unsigned first);
void mp_advise_text(struct mp_text *text, const struct mp_model *model, const struct mp_advise *advise,
                    const struct mp_view *view);

#endif
