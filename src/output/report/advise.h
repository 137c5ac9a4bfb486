/*
 * Changes that would save memory, as text and as JSON. Rules as in output/report/view.h.
 */
#pragma once

#include "analysis/advise/advise.h"
#include "output/report/columns.h"
#include "output/report/view.h"

void mp_advise_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_advise *advise,
                    const struct mp_view *view);
/* Writes all changes of `advise` as "changes", without their stacks. */
void mp_advise_changes_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise);
/* These write the best changes, at most `count`, as entries of `advice` in a report: as objects; as lines numbered from
 * `first`; as a table of a document. */
void mp_advise_best_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise,
                         size_t most);
void mp_advise_best_text(struct mp_text *text, const struct mp_model *model, const struct mp_advise *advise,
                         size_t most, unsigned first);
void mp_advise_text(struct mp_text *text, const struct mp_model *model, const struct mp_advise *advise,
                    const struct mp_view *view);
