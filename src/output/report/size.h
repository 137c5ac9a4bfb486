/* `memprof size` as text and as JSON; see view.h. */
#pragma once

#include "analysis/advise/advise.h"
#include "analysis/sizing/size.h"
#include "base/json.h"
#include "output/form/text.h"
#include "output/report/view.h"

/* The answer of `memprof size`. `two`: the question had two variables. Only the view's limit is used. */
/* `advise` is the last probe's advice; its best changes are shown. NULL: not requested. */
void mp_size_json(struct mp_json *json, const struct mp_size_answer *answer, const struct mp_advise *advise,
                  const struct mp_view *view);
void mp_size_text(struct mp_text *text, const struct mp_size_answer *answer, const struct mp_advise *advise);
