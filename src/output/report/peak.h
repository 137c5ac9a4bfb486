/* `memprof peak` as text and as JSON; see view.h. */
#pragma once

#include "analysis/sites/peak.h"
#include "analysis/sites/placement.h"
#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"
#include "output/report/view.h"

void mp_peak_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_peak *peak,
                  const struct mp_view *view);

/* " ± 1.2 MiB" for the bytes of a peak that is an estimate, else ""; returns `to`, which has MP_PEAK_ERROR_TEXT
 * bytes. */
#define MP_PEAK_ERROR_TEXT (MP_UNIT_TEXT + 4)
const char *mp_peak_error_text(char *to, const struct mp_model *model, const struct mp_peak *peak);
void mp_peak_text(struct mp_text *text, const struct mp_model *model, const struct mp_peak *peak,
                  const struct mp_view *view);

/* The part of a level's bytes that was requested: as a line of text, or nothing; as the keys requested_peak_bytes and
 * rounding; as a number (UINT64_MAX: not all is known). */
void mp_rounding_text(struct mp_text *text, const struct mp_rounding *rounding);
uint64_t mp_rounding_requested(const struct mp_rounding *rounding);
