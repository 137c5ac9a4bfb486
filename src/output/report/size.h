/* `memprof size` as text and as JSON; see view.h. */
#pragma once

#include "analysis/advise/advise.h"
#include "analysis/sizing/size.h"
#include "base/json.h"
#include "output/form/text.h"
#include "output/report/columns.h"
#include "output/report/view.h"

/* The answer of `memprof size`. `two`: the question had two variables. Only the view's limit is used. */
/* `advise` is the last probe's advice; its best changes are shown. NULL: not requested. */
void mp_size_json(struct mp_json *json, const struct mp_size_answer *answer, const struct mp_advise *advise,
                  const struct mp_view *view);
void mp_size_text(struct mp_text *text, const struct mp_size_answer *answer, const struct mp_advise *advise);

/* Parts that the text and the page of `memprof size` share. */

#define MP_SIZE_BEST_CHANGES 3

/* The answer as tables: the needs of batches, and the probes. */
struct mp_rows mp_size_needs(const struct mp_size_answer *answer);
struct mp_rows mp_size_probes(const struct mp_size_answer *answer);
/* True if needs are only bounded. */
bool mp_size_has_bounds(const struct mp_size_answer *answer);
/* The bytes that are compared with the limit. */
uint64_t mp_size_need_bytes(const struct mp_size_need *need);

/* Write lines of text: the largest batch; the grounds for it; notes. */
void mp_size_answer_text(struct mp_text *text, const struct mp_size_answer *answer);
void mp_size_grounds_text(struct mp_text *text, const struct mp_size_answer *answer);
void mp_size_notes_text(struct mp_text *text, const struct mp_size_answer *answer);
/* Write the table of the sites that grow most, and the best changes to the last probe's program. */
void mp_size_growth_text(struct mp_text *text, const struct mp_size_answer *answer, size_t limit);
void mp_size_changes_text(struct mp_text *text, const struct mp_size_answer *answer, const struct mp_advise *advise);
