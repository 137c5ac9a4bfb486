/*
 * Changes for holders that keep blocks for longer than needed (analysis/holders/causes.h): each cause's blocks end
 * sooner. Pure.
 */
#pragma once

#include "analysis/advise/changes.h"

/* Adds changes; their savings come from a replay later. Causes whose blocks a leak's change in `changes` ends are left
 * out. */
void mp_held_propose(const struct mp_model *model, uint16_t track, struct mp_changes *changes);
/* Bytes of PyTorch's blocks at the peak whose holder no look saw, or that are garbage by now; 0 where the program could
 * not look. */
uint64_t mp_held_unknown(const struct mp_model *model, uint16_t track);

/* The name of the program's own that holds most of a track's peak, without variables' graphs, parameters and other blocks whose
 * role PyTorch knows. */
struct mp_held_most {
    char *path;     /* up to the growing container; the caller frees it. NULL: nothing has a holder */
    uint64_t bytes; /* of the path that holds most */
};
struct mp_held_most mp_held_most_find(const struct mp_model *model, uint16_t track);
