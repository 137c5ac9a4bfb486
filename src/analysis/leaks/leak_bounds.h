/*
 * Bounds of containers that hold growing blocks: growth that ends there is no leak. The bounds come from looks for
 * holders (holders.h). Pure.
 */
#pragma once

#include "analysis/leaks/leak_finding.h"
#include "model/spans.h"

/* Makes a leak a finding of class bounded if a container with a bound holds its blocks, unless memory runs out first.
 * If blocks were born in more steps than the container has entries, it is the entries that grow. `stacks`: the stacks
 * of the findings. */
void mp_leak_bound(const struct mp_model *model, const struct mp_steps *steps, const struct mp_holders *holders,
                   const uint32_t *stacks, struct mp_leak_finding *finding);
