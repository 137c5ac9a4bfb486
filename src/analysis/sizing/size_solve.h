/*
 * A size as a function of the batch: a sum of a few monomials of the variables, solved from the probes. The simplest
 * sum that agrees with every probe is taken; with fewer terms than probes, agreement proves it. Where none agrees the
 * size is opaque: it gets bounds, and is never extrapolated as if it were known. Pure.
 */
#ifndef MP_ANALYSIS_SIZE_SOLVE_H
#define MP_ANALYSIS_SIZE_SOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MP_SIZE_PROBES_MAX 16
#define MP_SIZE_TERMS      7

/* The place of a probe, or of an answer. `second` is 1 where there is one variable. */
struct mp_size_point {
    uint64_t first, second;
};

/* A sum of monomials, in units of 2^-16 bytes, so that sums of many are exact. */
#define MP_SIZE_UNIT 65536
struct mp_size_sum {
    int64_t term[MP_SIZE_TERMS];
};

/* The monomials of a point: 1, x, y, xy, x^2, y^2, xy^2. */
void mp_size_monomials(struct mp_size_point point, double to[MP_SIZE_TERMS]);
/* The sum at a point, in bytes. */
double mp_size_sum_at(const struct mp_size_sum *sum, const double monomials[MP_SIZE_TERMS]);

/* The probes that sizes are solved from. */
struct mp_size_points {
    struct mp_size_point at[MP_SIZE_PROBES_MAX];
    double monomials[MP_SIZE_PROBES_MAX][MP_SIZE_TERMS];
    size_t count;
    bool two; /* variables */
};

/* Observations of one size at each probe: its bounds in bytes, equal where it is known exactly. */
struct mp_size_seen {
    double low[MP_SIZE_PROBES_MAX], high[MP_SIZE_PROBES_MAX];
};

enum mp_size_answer_kind {
    MP_SIZE_SOLVED,    /* agrees with every probe, and more probes than terms (or sizes known within bounds) */
    MP_SIZE_UNCHECKED, /* agrees, but there were only as many probes as terms */
    MP_SIZE_OPAQUE,
};

struct mp_size_solution {
    enum mp_size_answer_kind kind;
    struct mp_size_sum likely, low, high; /* not set for MP_SIZE_OPAQUE */
};

void mp_size_solve(const struct mp_size_points *points, const struct mp_size_seen *seen,
                   struct mp_size_solution *solution);

/* The monomial to which unsolved sizes are most nearly proportional. */
unsigned mp_size_growth(const struct mp_size_points *points, const double *seen);

/* Bounds, in bytes, at a point for a size with that growth, from its observations at the probes. */
struct mp_size_bounds {
    double likely, low, high;
};
struct mp_size_bounds mp_size_bound(const struct mp_size_points *points, const double *seen, unsigned growth,
                                    struct mp_size_point at);

#endif
