/*
 * Changes for holders that keep blocks for longer than needed (analysis/holders/causes.h): each cause's blocks end
 * sooner. Pure.
 */
#pragma once

#include "analysis/advise/changes.h"

/* Adds changes; their savings come from a replay later. Causes whose blocks a leak's change in `changes` ends are left
 * out. */
void mp_held_propose(const struct mp_model *model, uint16_t track, struct mp_changes *changes);
