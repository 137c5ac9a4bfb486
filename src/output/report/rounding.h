/* Bytes that PyTorch adds to requests, as text and as JSON; see view.h. */
#pragma once

#include <stdint.h>

#include "analysis/sites/placement.h"
#include "base/json.h"
#include "output/form/text.h"

/* The part of a level's bytes that was requested: as a line of text, or nothing; as the keys requested_peak_bytes and
 * rounding; as a number (UINT64_MAX: not all is known). */
void mp_rounding_text(struct mp_text *text, const struct mp_rounding *rounding);
void mp_rounding_json(struct mp_json *json, const struct mp_rounding *rounding);
uint64_t mp_rounding_requested(const struct mp_rounding *rounding);
