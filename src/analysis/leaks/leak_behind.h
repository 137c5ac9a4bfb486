/*
 * Sites that grow after the last step, such as outputs of an evaluation: no boundary between steps follows, so the rule
 * cannot judge them. Pure.
 */
#pragma once

#include "analysis/leaks/leak_finding.h"
#include "analysis/leaks/leak_places.h"

/* Adds a finding of class retained_once for each site whose blocks were made after the last step, again and again, and
 * freed from the event `teardown` on. Returns their number. */
size_t mp_leak_find_behind(const struct mp_model *model, const struct mp_steps *steps,
                           const struct mp_leak_places *places, uint32_t teardown, struct mp_leak_findings *findings);
