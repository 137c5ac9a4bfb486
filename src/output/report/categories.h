/* Categories of the blocks at a peak, as text and JSON. Each function takes sites grouped by category. */
#pragma once

#include "analysis/sites/peak.h"
#include "base/json.h"
#include "base/units.h"
#include "output/form/text.h"

/* True if any bytes have a category. */
bool mp_categories_any(const struct mp_sites *categories);
/* "a guess", "2.1 GiB of it a guess", or "". */
#define MP_GUESS_TEXT (MP_UNIT_TEXT + 20)
const char *mp_guess_text(char *to, uint64_t guessed, uint64_t bytes);
/* Writes a row with a bar for each category: the largest first, bytes without a category last. */
void mp_categories_text(struct mp_text *text, const struct mp_sites *categories);
/* An array under "categories"; null if no block has a category. */
void mp_categories_json(struct mp_json *json, const struct mp_sites *categories);

/* A previous graph at the peak. matters(): it is large enough for a line. sentence() has no full stop. The JSON is the
 * object "previous_graph", null if there is none. */
bool mp_previous_matters(const struct mp_peak *peak);
void mp_previous_sentence(struct mp_buffer *out, const struct mp_model *model, const struct mp_peak *peak);
/* Writes the sentence and the advice as a line after `indent`; nothing if the previous graph is too small. */
void mp_previous_text(struct mp_text *text, const struct mp_model *model, const struct mp_peak *peak,
                      const char *indent);
const char *mp_previous_advice(void);
void mp_previous_json(struct mp_json *json, const struct mp_model *model, const struct mp_peak *peak);
