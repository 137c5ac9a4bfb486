/*
 * The allocations of the largest probe, each with its size as a function of the variables: any other batch makes them
 * in the same order. Pure.
 *
 * The k-th block of a place is compared with the k-th of the same place in every other probe. Where a larger batch has
 * more blocks of a place alive at once (samples made one by one), their sum is solved as a whole and shared out.
 *
 * An example, with probes of batches 4, 8 and 12:
 *
 *     place            batch 4       batch 8        batch 12
 *     weight           5 MiB         5 MiB          5 MiB           one block
 *     activation       6 MiB         12 MiB         18 MiB          one block a step
 *     decoded sample   4 x 1 MiB     8 x 1 MiB      12 x 1 MiB      as many alive at once
 *
 * The weight is paired with the weight: 5 MiB at any batch. The k-th activation is paired with the k-th: 1.5 MiB a
 * sample, one term, and two probes more that agree. Decoded samples have no partners beyond the fourth, and more of
 * them live at once: their sum of 4, 8 and 12 MiB is solved as 1 MiB a sample, and each of the twelve blocks of the
 * largest probe stands for a twelfth of it. At batch 16 the plan is the largest probe's sequence with 5 MiB, 24 MiB,
 * and twelve blocks of 16/12 MiB.
 */
#ifndef MP_ANALYSIS_SIZE_PLAN_H
#define MP_ANALYSIS_SIZE_PLAN_H

#include "analysis/sizing/size_scratch.h"
#include "analysis/sizing/size_sites.h"
#include "base/error.h"

/* One way to depend on the variables. */
struct mp_size_value {
    struct mp_size_solution solution;
    double seen[MP_SIZE_PROBES_MAX]; /* at each probe; the basis of an opaque one's bounds */
    unsigned growth;                 /* of an opaque one: mp_size_growth() */
    bool grows;                      /* it was not the same at all probes */
    unsigned taking;                 /* 1 << each enum mp_size_taking of its blocks */
    /* Of a place that was solved as a whole: how many blocks lived at once; else 0. */
    double alive[MP_SIZE_PROBES_MAX];
};

struct mp_size_plan {
    const struct mp_size_source *source; /* of the largest probe */
    struct mp_size_points points;
    MP_VEC(struct mp_size_value) values; /* each once */
    uint32_t *value_of;                  /* per block of the source's model; MP_NONE: of another track */
    unsigned char *taking;               /* per stack of it: enum mp_size_taking */
    uint64_t blocks, opaque_blocks, unchecked_blocks;
    bool depends; /* some size changes with the variables */
};

/* `points` in rising order, `sources` likewise; the last one is the largest probe. */
void mp_size_plan_make(const struct mp_size_points *points, const struct mp_size_source *sources,
                       const struct mp_size_sites *sites, struct mp_size_plan *plan);
void mp_size_plan_free(struct mp_size_plan *plan);
enum mp_size_taking mp_size_plan_taking(const struct mp_size_plan *plan, uint32_t block);

#endif
