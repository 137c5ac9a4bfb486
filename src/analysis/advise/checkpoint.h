/*
 * Activation checkpointing by kinds of modules (`blocks.*`, `blocks.*.mlp`), and the changed lives of the program's
 * blocks. A checkpointed module frees its saved activations after forward, and makes them again in backward. Pure.
 */
#pragma once

#include "analysis/advise/changes.h"

struct mp_checkpoints;

enum mp_checkpoint_form {
    MP_CHECKPOINT_AGAIN,
    MP_CHECKPOINT_REENTRANT, /* use_reentrant=True */
    MP_CHECKPOINT_OFFLOADED  /* torch.autograd.graph.save_on_cpu(): nothing is made again; it needs the log of operators
                              */
};

/* Ownership of the result goes to the caller; NULL if no module is known. Model and history must outlive it. */
struct mp_checkpoints *mp_checkpoints_find(const struct mp_model *model, const struct mp_torch_history *history);
void mp_checkpoints_free(struct mp_checkpoints *checkpoints);

size_t mp_checkpoints_kinds(const struct mp_checkpoints *checkpoints);
/* The number of modules of a kind, in the order in which forward calls them. */
size_t mp_checkpoints_modules(const struct mp_checkpoints *checkpoints, size_t kind);
/* The change that checkpoints the first `modules` modules of a kind. Its saving comes from a replay later. The caller
 * frees its members. Its share is the part of forward that runs twice, by
 * time. On a GPU it is by the bytes of the blocks that operators use, if they are logged. */
void mp_checkpoints_change(struct mp_checkpoints *checkpoints, size_t kind, size_t modules,
                           enum mp_checkpoint_form form, struct mp_change *change);
/* False: MP_CHECKPOINT_OFFLOADED is not known, or is of no use, as the track is the CPU's. */
bool mp_checkpoints_offload(const struct mp_checkpoints *checkpoints);
