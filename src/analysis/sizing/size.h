/*
 * Which batch fits: from recordings of one program at two or more batches (and, with two variables, sequence lengths),
 * of which some may be repeated, what it would need at any other. Sizes are solved block by block (size_plan.h), the
 * sequence is replayed for the batch in question (size_curve.h), and every answer is an interval. Pure; the result is
 * the caller's.
 */
#ifndef MP_ANALYSIS_SIZE_H
#define MP_ANALYSIS_SIZE_H

#include "analysis/sizing/size_solve.h"
#include "base/error.h"
#include "model/model.h"

struct mp_size_probe {
    const struct mp_model *model;
    const char *name; /* of its file */
    struct mp_size_point at;
};

struct mp_size_question {
    const struct mp_size_probe *probes;
    size_t count;
    bool two;                  /* variables; `second` is 1 everywhere where not */
    const char *track;         /* NULL: the default one of the largest probe */
    uint64_t capacity, margin; /* bytes */
    const struct mp_size_point *predict;
    size_t predict_count;
    size_t plot_points; /* of `plot` in the answer */
};

enum mp_size_fits { MP_FITS_NO, MP_FITS_UNSURE, MP_FITS_YES };

/* The need of a point. low and high bound the memory that is held against the limit. */
struct mp_size_need {
    struct mp_size_point at;
    uint64_t allocated, reserved, device; /* MP_BYTES_UNKNOWN where not known */
    uint64_t low, high;
    enum mp_size_fits fits;
};

struct mp_size_probed {
    const char *name;
    struct mp_size_point at;
    uint64_t allocated, reserved, device; /* as recorded */
    uint32_t steps;
    const char *step_source;
    bool used;        /* false: it took another way than the largest, and was left out */
    uint64_t step_ns; /* median; MP_BYTES_UNKNOWN where there are no steps */
};

/* A place that holds memory at the peak of the largest batch that fits. */
struct mp_size_site {
    uint32_t stack; /* of the largest probe's model */
    uint64_t bytes, blocks;
    double per_first; /* bytes more for one more of the first variable */
    bool opaque;
};

/* The largest value of the first variable that fits if nothing beyond the probes changes its way. */
struct mp_size_largest {
    uint64_t second, first; /* first 0: not even 1 */
    bool endless;           /* every one that was tried */
    uint64_t expandable;    /* the same with expandable segments; 0 where that is not asked or changes nothing */
    uint64_t sure;          /* the same with room for scratch memory that no probe has had (size_reserved.h) */
};

struct mp_size_answer {
    const struct mp_model *model; /* of the largest probe, and its track */
    uint16_t track;
    uint64_t capacity, margin, limit;
    const char *binds;                    /* "allocated", "reserved" or "device": what is held against the limit */
    uint64_t outside_least, outside_most; /* of the device beside what the allocator holds; MP_BYTES_UNKNOWN */
    MP_VEC(struct mp_size_probed) probes;
    MP_VEC(struct mp_size_largest) largest; /* per value of the second variable, those asked for or probed; else one */
    MP_VEC(struct mp_size_need) needs;      /* those asked for, the largest and one more, in rising order */
    MP_VEC(struct mp_size_need) plot;       /* beyond the largest, evenly, at the last value of the second variable */
    MP_VEC(struct mp_size_site) sites;      /* the largest first */
    uint64_t opaque;                        /* bytes at the peak of the largest that did not solve */
    size_t opaque_sites;
    bool checked;         /* there were more probes than it takes to solve a line */
    MP_VEC(char *) notes; /* sentences, owned */
};

/* MP_UNSUPPORTED with a sentence where the recordings do not answer the question. */
enum mp_status mp_size_find(const struct mp_size_question *question, struct mp_size_answer *answer,
                            struct mp_error *error);
void mp_size_answer_free(struct mp_size_answer *answer);

const char *mp_size_fits_name(enum mp_size_fits fits);

#endif
