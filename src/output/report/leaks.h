/* `memprof leaks` as text and as JSON; see view.h. */
#pragma once

#include <stdint.h>

#include "analysis/leaks/leak_finding.h"
#include "analysis/leaks/leaks.h"
#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"
#include "output/report/view.h"

void mp_leaks_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_leaks *leaks,
                   const struct mp_view *view);
void mp_leaks_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                   const struct mp_view *view);

/* How many more steps fit into the device, rounded to two digits, because the rate is no more exact. UINT64_MAX:
 * unknown, or above a million steps. */
uint64_t mp_leak_steps_left(const struct mp_leak_finding *finding);

/* Writes the table of leaks: a row for each cause. */
void mp_findings_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                      const struct mp_view *view);

/* Writes a line about PyTorch's cache of pinned memory at the end, if the cache is large. */
void mp_pinned_cache_text(struct mp_text *text, const struct mp_model *model);

/* Writes findings that are no leak under a heading; nothing if there are none. */
void mp_reported_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                      const struct mp_view *view);
