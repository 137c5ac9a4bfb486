/*
 * Autograd's graphs that live too long: of a forward without a backward, and of micro-batches that share one backward.
 * Says what to change, and how long the blocks would live then. Pure.
 */
#pragma once

#include "analysis/advise/changes.h"
#include "analysis/categories/phases.h"

/* Adds changes; their savings come from a replay later. */
void mp_graphs_propose(const struct mp_model *model, const struct mp_torch_history *history,
                       const struct mp_phases *phases, struct mp_changes *changes);
