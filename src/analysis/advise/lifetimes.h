/*
 * Blocks that live longer than needed, as far as a recording proves it. Says what to change, and how long the blocks
 * would live then. Pure.
 */
#pragma once

#include "analysis/advise/changes.h"

/* Adds changes; their savings come from a replay later. */
void mp_lifetimes_propose(const struct mp_model *model, const struct mp_torch_history *history,
                          struct mp_changes *changes);
