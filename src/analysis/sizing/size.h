/*
 * The largest batch that fits. Predicts a program's memory at any batch from recordings at three or more. Pure.
 *
 * The steps of the work:
 *
 *     size_align.h     the same sites in all recordings, and their blocks in order
 *     size_solve.h     one size, known at the probes, as a + b*B
 *     size_plan.h      the allocations of the largest probe, each with its size for any batch, and their highest sum
 *     size_reserved.h  a replay through the model of PyTorch's caching allocator
 *     size.h           the need of a batch, and the largest batch that fits
 *
 * A need is allocated bytes, the caching allocator's reserved bytes, and device memory outside of it. Each is widened
 * by the method's errors at the probes.
 *
 * A probe's own batch needs what the probe recorded. A batch fits (`yes`) if the high bound is within the limit and can
 * be trusted. It can be trusted up to the largest probe. Beyond that, trust takes three probed batches, and at most 1 %
 * unsolved bytes in the peak of the largest one. A batch does not fit (`no`) if the low bound is above the limit.
 * Otherwise it is `unsure`.
 */
#pragma once

#include "analysis/sizing/size_align.h"
#include "analysis/sizing/size_plan.h"
#include "analysis/sizing/size_reserved.h"
#include "analysis/sizing/size_solve.h"
#include "base/error.h"
#include "model/model.h"

struct mp_size_probe {
    const struct mp_model *model;
    const char *name; /* the file's name */
    uint64_t batch;
};

struct mp_size_question {
    const struct mp_size_probe *probes; /* several may have the same batch */
    size_t count;
    const char *track;         /* NULL: the largest probe's default track */
    uint64_t capacity, margin; /* bytes */
    const uint64_t *predict;   /* batches */
    size_t predict_count;
    size_t plot_points; /* number of points in the answer's `plot` */
};

enum mp_size_fits { MP_FITS_NO, MP_FITS_UNSURE, MP_FITS_YES };

/* The need of a batch. low and high bound the bytes that the limit is for. */
struct mp_size_need {
    uint64_t batch;
    uint64_t allocated, reserved, device; /* MP_BYTES_UNKNOWN: not known */
    uint64_t low, high;
    enum mp_size_fits fits;
};

struct mp_size_probed {
    const char *name;
    uint64_t batch;
    uint64_t allocated, reserved, device; /* as recorded */
    uint32_t steps;
    const char *step_source;
    uint64_t step_ns; /* median; MP_BYTES_UNKNOWN: no steps */
    uint64_t blocks;  /* of the track */
    /* The run took another path than those that predict: it answers for its own batch alone. `where`: the first site
     * with another number of blocks, in the model `of`. */
    bool apart;
    const struct mp_model *of;
    uint32_t where;
};

/* A site that holds memory at the answer's peak. */
struct mp_size_site {
    uint32_t stack; /* in the largest probe's model */
    uint64_t bytes, blocks;
    double per_sample; /* additional bytes for one more sample */
    bool opaque;       /* its sizes follow no rule */
};

struct mp_size_answer {
    const struct mp_model *model; /* the largest probe's, with its track */
    uint16_t track;
    uint64_t capacity, margin, limit;
    const char *binds;                    /* what the limit is for: "allocated", "reserved" or "device" */
    uint64_t outside_least, outside_most; /* device memory outside of the allocator; MP_BYTES_UNKNOWN */
    MP_VEC(struct mp_size_probed) probes; /* in rising order */
    size_t batches;                       /* number of different batches among the probes */
    uint64_t largest;                     /* largest batch that certainly fits; 0: none */
    uint64_t about;      /* largest batch if all sizes are the likely ones, and at least `largest`; UINT64_MAX: any */
    bool endless;        /* every batch that was tried fits */
    uint64_t expandable; /* `about` with expandable segments; 0: not asked, or not larger */
    uint64_t room;       /* bytes in `high` at `largest` for scratch memory that no probe had */
    MP_VEC(struct mp_size_need) needs; /* the batches asked for, `largest`, `about` and one more, ascending */
    MP_VEC(struct mp_size_need) plot;  /* from zero to beyond the answer, evenly spaced */
    MP_VEC(struct mp_size_site) sites; /* the largest first */
    uint64_t opaque;                   /* unsolved bytes at the answer's peak */
    size_t opaque_sites;               /* number of the program's unsolved sites, also outside of the peak */
    bool proved;                       /* based on three batches, with too few unsolved bytes to matter */
    MP_VEC(char *) notes;              /* sentences, owned */
};

/* MP_UNSUPPORTED: the recordings do not answer the question; `error` says why. The answer is the caller's. */
enum mp_status mp_size_find(const struct mp_size_question *question, struct mp_size_answer *answer,
                            struct mp_error *error);
void mp_size_answer_free(struct mp_size_answer *answer);

const char *mp_size_fits_name(unsigned fits); /* enum mp_size_fits */
