/*
 * What of a program's memory is a matter of chance, and the most that it may be. Batches that a DataLoader's workers
 * end before they are wanted wait in the program: how many do differs from run to run, how many can is marked in the
 * recording (python/libmemprof_torch/loaders.py). Threads that hand over to each other may be further or less far when
 * the peak comes: where what they hold beside the main one's allocations differs between recordings, the most that each
 * of their places ever held may come together. Pure.
 */
#ifndef MP_ANALYSIS_SIZE_CHANCE_H
#define MP_ANALYSIS_SIZE_CHANCE_H

#include "analysis/sizing/size_plan.h"

/* A place of such threads: the largest block at each probe, and how many may be there at once. */
struct mp_size_aside {
    struct mp_size_seen largest, most;
    struct mp_size_solution size, count;
};

struct mp_size_chance {
    const struct mp_size_plan *plan;
    bool loads;              /* batches are received out of their turn */
    bool known;              /* the recordings say how many those may be */
    uint64_t ahead;          /* so many */
    uint64_t held;           /* batches that a recording had at once, at most */
    double spare;            /* so many of these may be missing in another run, in batches as below */
    struct mp_size_seen batch; /* the bytes of one; of some, where they always came together */
    struct mp_size_solution batch_size;
    unsigned char *received; /* per block of the plan's model: it is part of a batch; NULL: none is */
    bool threads;            /* other threads hand over what they make */
    unsigned char *beside;   /* per block of the plan's model: it is theirs */
    MP_VEC(struct mp_size_aside) asides;
};

/* Per stack of a model: a batch from a worker of a DataLoader is made there. The caller frees it. */
unsigned char *mp_size_loading(const struct mp_model *model);

/* `sources` are those of the plan's points, and behind them `count` - points.count that repeat some; sites are of all.
 */
void mp_size_chance_find(const struct mp_size_plan *plan, const struct mp_size_source *sources, size_t count,
                         const struct mp_size_sites *sites, struct mp_size_chance *chance);
/* The bytes by which what the recording had may be lower, and higher, at a point for batches that come early. */
void mp_size_chance_batches(const struct mp_size_chance *chance, struct mp_size_point at, double *lower,
                            double *higher);
/* The most that other threads hold. */
double mp_size_chance_threads(const struct mp_size_chance *chance, struct mp_size_point at);
void mp_size_chance_free(struct mp_size_chance *chance);

#endif
