/*
 * Predicts the need of a batch, and the largest batch that fits. A need is allocated bytes, the caching allocator's
 * reserved bytes, and device memory outside of it. Each is widened by the method's errors at the probes. Pure.
 *
 * A probe's own batch needs what the probe recorded. A batch fits (`yes`) if the high bound is within the limit and can be trusted. It can be trusted up to the largest
 * probe. Beyond that, trust takes three probed batches, and at most 1 % unsolved bytes in the peak of the largest one.
 * A batch does not fit (`no`) if the low bound is above the limit. Otherwise it is `unsure`.
 */
#pragma once

#include "analysis/sizing/size.h"
#include "analysis/sizing/size_curve.h"
#include "analysis/sizing/size_reserved.h"

#define MP_SIZE_LITTLE 0.01 /* share of the largest probe's peak that may be unsolved without notice */

/* The largest relative error at the probes: how far the record lay below and above the prediction. */
struct mp_size_error {
    double below, above;
};

struct mp_size_predictor {
    const struct mp_size_plan *plan;
    const struct mp_size_probed *probed; /* all probes, also those of which the plan is not made */
    size_t probed_count;
    uint64_t limit;
    bool proved;
    struct mp_size_error error; /* of allocated bytes */
    /* The caching allocator, if the track is one and the probes say what it reserved. */
    bool reserves, blocks; /* blocks: blocks: recorded sizes are those of blocks, not of requests */
    struct mp_size_pool pool;
    struct mp_torch_settings settings; /* the settings that give the smallest errors at the probes */
    struct mp_size_error reserved_error;
    uint64_t outside_least, outside_most; /* device memory outside of the allocator at the probes; MP_BYTES_UNKNOWN */
};

/* `probed`: what all probes recorded; those that are `apart` are not in the plan. Plan and array must outlive the
 * predictor. */
void mp_size_predictor_make(const struct mp_size_plan *plan, const struct mp_size_probed *probed, size_t count,
                            uint64_t limit, struct mp_size_predictor *predictor);
void mp_size_predictor_free(struct mp_size_predictor *predictor);

struct mp_size_need mp_size_need_at(struct mp_size_predictor *predictor, uint64_t batch);

/* The largest batch that fits, for certain or with all sizes the likely ones. 0: none. UINT64_MAX: every batch that was
 * tried.
 */
enum mp_size_measure { MP_SIZE_SURE, MP_SIZE_AS_PROBED };
uint64_t mp_size_find_largest(struct mp_size_predictor *predictor, enum mp_size_measure measure);

/* "allocated", "reserved" or "device" */
const char *mp_size_binds(const struct mp_size_predictor *predictor);
