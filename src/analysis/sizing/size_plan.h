/*
 * The allocations of the largest probe, each with its size as a function of the batch. Any other batch makes them in
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
 * The weights are paired with one another: 5 MiB at any batch. The k-th activations are paired with one another: 1.5
 * MiB a sample. This form has one term, and two further probes agree. The numbers of decoded samples alive at once, 4,
 * 8 and 12, solve as one a sample, their sums as 1 MiB a sample. Each of the twelve blocks of the largest probe stands
 * for a twelfth of the sum. At batch 16 the plan is the largest probe's sequence with 5 MiB, 24 MiB, and twelve blocks
 * of 16/12 MiB. The number of live blocks in the queue follows no rule: it varies between 0 and the most that it ever
 * was.
 */
#pragma once

#include "analysis/sizing/size_align.h"

/* One way to depend on the batch. */
struct mp_size_value {
    struct mp_size_sum likely, low, high;
    double varies; /* a size without a rule: the most bytes of a probe; `high` is then 0. A solved size: 0 */
    bool opaque;
    bool at_random; /* neither the size nor the number of live blocks follows a rule: counted in `queued` instead */
    bool grows;     /* not the same at all probes */
    double seen[MP_SIZE_PROBES_MAX];
};

struct mp_size_plan {
    const struct mp_size_source *source; /* the largest probe's */
    struct mp_size_batches batches;
    MP_VEC(struct mp_size_value) values; /* the different sizes of the plan */
    uint32_t *value_of;                  /* per block of the source's model; MP_NONE: the block is of another track */
    double queued;                       /* the most bytes of sites with a random number of blocks */
    uint32_t opaque_sites;
    bool depends;   /* some size depends on the batch */
    bool wide_sums; /* the program has reductions that keep more than one number for each sum */
};

/* `sources` are in the order of the batches. The last one is the largest probe, and must outlive the plan. */
void mp_size_plan_make(const struct mp_size_batches *batches, const struct mp_size_source *sources,
                       const struct mp_size_alignment *alignment, struct mp_size_plan *plan);
void mp_size_plan_free(struct mp_size_plan *plan);

struct mp_size_bounds {
    double likely, low, high;
};
/* The bounds in bytes of a value at a batch. */
struct mp_size_bounds mp_size_value_at(const struct mp_size_plan *plan, uint32_t value, double batch);

/* Bytes at the peak with low, likely and high sizes. */
struct mp_size_height {
    double likely, low, high;
    double varies;   /* unsolved bytes in `high`, as seen at the probes */
    uint32_t moment; /* moment of the likely peak: number of past events of the source */
};

/* The plan's highest memory at any batch: replays its events in order through plain sums, some 5 ns for each. At
 * another batch, the peak may be at another moment. */
struct mp_size_height mp_size_curve_at(const struct mp_size_plan *plan, double batch);
