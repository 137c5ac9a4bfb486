/* What the files of estimates share: a model with its phases, its blocks' categories, and how an estimate is put. Pure.
 */
#ifndef MP_ANALYSIS_ESTIMATOR_H
#define MP_ANALYSIS_ESTIMATOR_H

#include "analysis/advise/changes.h"
#include "analysis/categories/categories.h"
#include "analysis/categories/phases.h"

struct mp_passes; /* analysis/advise/passes.h */

struct mp_estimator {
    const struct mp_model *model;
    const struct mp_torch_history *history;
    struct mp_changes *changes;
    struct mp_phases phases;
    struct mp_categories *categories;
    unsigned char *category; /* by block */
    const struct mp_torch_step **births;
    MP_VEC(uint64_t) sizes; /* of parameters, the largest first */
    unsigned ranks;
    uint64_t link; /* bytes a second; 0: not known */
};

/* Whether it is a block of the track, of known size. */
bool mp_estimator_has(const struct mp_estimator *e, uint32_t block);
/* A block of other bytes (0: none) that is made at an event and lives as long, in its place. */
void mp_estimate_resize(const struct mp_estimator *e, struct mp_change *change, uint32_t block, uint64_t bytes,
                        uint32_t made);
uint32_t mp_estimate_born(const struct mp_estimator *e, uint32_t block);
bool mp_estimate_is_parameters_size(const struct mp_estimator *e, uint32_t block);
/* Adds a change, or frees it where it changes nothing. */
void mp_estimate_propose(struct mp_estimator *e, struct mp_change *change);

/* Forward in bfloat16 under autocast. */
void mp_precision_find(struct mp_estimator *e, const struct mp_passes *passes);
/* State, gradients and parameters that ranks divide. */
void mp_sharding_find(struct mp_estimator *e, const struct mp_passes *passes);
/* What waits for backward in the CPU's memory. */
void mp_offload_find(struct mp_estimator *e, const struct mp_passes *passes);

#endif
