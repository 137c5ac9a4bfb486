/*
 * Causes of leaks: findings whose blocks one object holds. Pure.
 */
#pragma once

#include "analysis/leaks/leak_finding.h"
#include "model/spans.h"

/* Looks up who holds the blocks of each finding, which may change its class, its confidence and its bound. Then sums up
 * the findings of each cause, and sorts them: the highest finding of a cause comes first. `stacks`: the stacks of the
 * findings. `holders` must be empty. Returns the number of causes of leaks. */
uint32_t mp_leak_causes_find(const struct mp_model *model, const struct mp_steps *steps, const uint32_t *stacks,
                             struct mp_holders *holders, struct mp_leak_findings *findings);
