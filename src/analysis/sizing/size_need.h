/*
 * The need of a point: the allocated bytes of a fit, what the caching allocator holds for them, what the device has to
 * have beside; each with what the method missed at the probes themselves. And the largest that is sure to fit. Pure.
 */
#ifndef MP_ANALYSIS_SIZE_NEED_H
#define MP_ANALYSIS_SIZE_NEED_H

#include "analysis/sizing/size.h"
#include "analysis/sizing/size_chance.h"
#include "analysis/sizing/size_curve.h"
#include "analysis/sizing/size_reserved.h"

/*
 * Several recordings made into one: those that agree with each other, their places, the plan of the largest, its curve.
 * Pure.
 */

/* Recordings at points that others have been made at before: `of` are those points' indices. */
struct mp_size_repeats {
    struct mp_size_source sources[MP_SIZE_PROBES_MAX];
    size_t of[MP_SIZE_PROBES_MAX];
    size_t count;
};

struct mp_size_fit {
    struct mp_size_source sources[MP_SIZE_PROBES_MAX]; /* those used, in rising order, and then their repeats */
    size_t count;                                      /* of them all */
    struct mp_size_points points;
    struct mp_size_sites sites;
    struct mp_size_plan plan;
    struct mp_size_chance chance;
    struct mp_size_curve curve;
    struct mp_size_curve
        bare; /* without batches from workers, where some are there by chance: what is there in any run */
    struct mp_size_curve rest; /* without what other threads hold, where that is chance */
};

/* `points` and `sources` in rising order, each once. used[i] becomes false for one that took another way than the
 * others: without it the rest agrees. False where the recordings have too few places in common to be of one program;
 * *common: the share of the allocations at places that all recordings have. */
bool mp_size_fit_make(const struct mp_size_points *points, const struct mp_size_source *sources,
                      const struct mp_size_repeats *repeats, bool *used, double *common, struct mp_size_fit *fit);
/* The height of the curve, with the bounds of what is chance. *by_chance: bytes by which that raises the high one. */
struct mp_size_height mp_size_fit_at(const struct mp_size_fit *fit, struct mp_size_point at, double *by_chance);
void mp_size_fit_free(struct mp_size_fit *fit);

/* By how much, at most, what was recorded was below and above what is said of it, as parts of that. */
struct mp_size_error {
    double below, above;
};

struct mp_size_predictor {
    double unsolved; /* of two probes: the share of the bytes that they do not determine */
    bool unlike;     /* and they did not allocate the same */
    const struct mp_size_fit *fit;
    uint64_t limit;
    struct mp_size_error error; /* of allocated bytes */
    /* The caching allocator, where the track is one and the probes say what it held. */
    bool reserves, blocks; /* blocks: what was recorded as allocated is what was handed out */
    bool as_probed;        /* no scratch memory beyond what the probes had is allowed for */
    struct mp_size_pool pool;
    struct mp_torch_settings settings; /* with which the model misses the probes the least */
    struct mp_size_error reserved_error;
    /* Of the device beside what the allocator holds, at the probes; MP_BYTES_UNKNOWN. */
    uint64_t outside_least, outside_most;
};

/* `probed` are all probes, with what was recorded. The fit must stay. */
void mp_size_predictor_make(const struct mp_size_fit *fit, const struct mp_size_probed *probed, size_t count,
                            uint64_t limit, struct mp_size_predictor *predictor);
void mp_size_predictor_free(struct mp_size_predictor *predictor);

struct mp_size_need mp_size_need_at(struct mp_size_predictor *predictor, struct mp_size_point at);
/* `sure`: with room for scratch memory that no probe has had. */
struct mp_size_largest mp_size_find_largest(struct mp_size_predictor *predictor, uint64_t second, bool sure);
/* The same if the allocator had expandable segments; 0 where it has them, or where it is no such allocator. */
uint64_t mp_size_find_expandable(struct mp_size_predictor *predictor, uint64_t second);
/* "allocated", "reserved" or "device" */
const char *mp_size_binds(const struct mp_size_predictor *predictor);

#endif
