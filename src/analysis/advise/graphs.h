/*
 * Autograd's graphs that live too long: of a forward without a backward, and of micro-batches that share one backward.
 * Says what to change, and how long the blocks would live then. Pure.
 */
#pragma once

#include "analysis/advise/changes.h"
#include "analysis/categories/phases.h"

/* A network whose gradients nobody uses, such as a teacher: adds to the change what its forward would not keep and its
 * backward would not make under no_grad. `module`: the network's path. False, and no edits: gradients flow through it
 * to other modules, so that no_grad would cut them off. */
bool mp_graphs_freeze(const struct mp_model *model, const struct mp_torch_history *history,
                      const struct mp_phases *phases, const char *module, struct mp_change *change);
/* Adds changes; their savings come from a replay later. */
void mp_graphs_propose(const struct mp_model *model, const struct mp_torch_history *history,
                       const struct mp_phases *phases, struct mp_changes *changes);
