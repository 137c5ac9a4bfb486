/*
 * Changes whose savings follow from categories and sizes: smaller values, smaller micro-batches, state that is
 * divided among ranks, blocks that wait elsewhere. Estimates: what the changed program makes beside is not known. Pure.
 */
#ifndef MP_ANALYSIS_ESTIMATES_H
#define MP_ANALYSIS_ESTIMATES_H

#include "analysis/advise/changes.h"

/* Adds changes, without what they save: that is for a replay to say. `ranks`: among which state may be divided; 0 or 1:
 * none. `link`: bytes a second to the CPU's memory; 0: not known. MP_NO_MEMORY. */
enum mp_status mp_estimates_propose(const struct mp_model *model, const struct mp_torch_history *history,
                                    unsigned ranks, uint64_t link, struct mp_changes *changes, struct mp_error *error);

#endif
