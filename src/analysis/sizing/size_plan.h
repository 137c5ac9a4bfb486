/*
 * The allocations of the largest probe, each with its size as a function of the batch: any other batch makes them in
 * the same order. Pure.
 *
 * An example, with probes at batches 4, 8 and 12:
 *
 *     site             batch 4       batch 8        batch 12
 *     weight           5 MiB         5 MiB          5 MiB           one block
 *     activation       6 MiB         12 MiB         18 MiB          one block a step
 *     decoded sample   4 x 1 MiB     8 x 1 MiB      12 x 1 MiB      as many alive at once
 *     queue            3 x 1 MiB     2 x 2 MiB      5 x 3 MiB       as many alive at once
 *
 * The weight is paired with the weight: 5 MiB at any batch. The k-th activation is paired with the k-th: 1.5 MiB a
 * sample, one term, and two probes more that agree. The numbers of decoded samples alive at once, 4, 8 and 12, solve as
 * one a sample, their sums as 1 MiB a sample. Each of the twelve blocks of the largest probe stands for a twelfth of
 * the sum. At batch 16 the plan is the largest probe's sequence with 5 MiB, 24 MiB, and twelve blocks of 16/12 MiB. The
 * numbers alive in the queue follow no rule: it varies, between nothing and all it ever held.
 */
#ifndef MP_ANALYSIS_SIZE_PLAN_H
#define MP_ANALYSIS_SIZE_PLAN_H

#include "analysis/sizing/size_align.h"

/* One way to depend on the batch. */
struct mp_size_value {
    struct mp_size_sum likely, low, high;
    double varies; /* opaque: the most bytes that a probe had; high is 0. Solved: 0 */
    bool opaque;
    bool at_random; /* opaque, and so is the number of blocks alive at once: counted in `queued` instead */
    bool grows;     /* it was not the same at all probes */
    double seen[MP_SIZE_PROBES_MAX];
};

struct mp_size_plan {
    const struct mp_size_source *source; /* of the largest probe */
    struct mp_size_batches batches;
    MP_VEC(struct mp_size_value) values; /* each once */
    uint32_t *value_of;                  /* per block of the source's model; MP_NONE: of another track */
    double queued;                       /* bytes that sites with random numbers of blocks hold at most */
    uint32_t opaque_sites;
    bool depends;   /* some size changes with the batch */
    bool wide_sums; /* the program reduces with more than one number for each sum */
};

/* `sources` in the order of the batches; the last one is the largest probe, and outlives the plan. */
void mp_size_plan_make(const struct mp_size_batches *batches, const struct mp_size_source *sources,
                       const struct mp_size_alignment *alignment, struct mp_size_plan *plan);
void mp_size_plan_free(struct mp_size_plan *plan);

struct mp_size_bounds {
    double likely, low, high;
};
/* The bytes of a value at a batch. */
struct mp_size_bounds mp_size_value_at(const struct mp_size_plan *plan, uint32_t value, double batch);
/* How many times the most that was seen an opaque size may have: 2, since a probe shows few of the cases, and beyond
 * the largest probe as the square of the batch. */
double mp_size_growth(const struct mp_size_plan *plan, double batch);
#endif
