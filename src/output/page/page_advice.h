/* Changes that would save memory on a page: in words in its header, and the curve of each as columns. */
#ifndef MP_OUTPUT_PAGE_ADVICE_H
#define MP_OUTPUT_PAGE_ADVICE_H

#include "analysis/advise/advise.h"
#include "base/error.h"
#include "base/json.h"
#include "output/page/page_columns.h"

/* As "advice"; null without any. */
void mp_page_advice_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise);
/* Only for a page of the whole recording. */
enum mp_status mp_page_advice_add(const struct mp_model *model, const struct mp_advise *advise,
                                  struct mp_page_columns *columns, struct mp_error *error);

#endif
