/*
 * Two recordings, site by site: what each held at its peak and at its end and allocated in all, and what one sense of
 * that differs by. Sites are equal as in analysis/flames.h. Pure; the result is the caller's.
 */
#ifndef MP_ANALYSIS_COMPARE_H
#define MP_ANALYSIS_COMPARE_H

#include "analysis/flames.h"

struct mp_compare_query {
    const struct mp_model *models[MP_SIDES];
    struct mp_profile_query asks[MP_SIDES]; /* track, window and filter of each */
    enum mp_profile_of sense;               /* by which sites are listed */
};

struct mp_compare {
    struct mp_profile_value sums[MP_SIDES][MP_PROFILE_SENSES];
    struct mp_flames flames;
    uint32_t *order; /* flames, those that differ most first; those that do not differ are last */
};

enum mp_status mp_compare_make(const struct mp_compare_query *query, struct mp_compare *compare,
                               struct mp_error *error);
void mp_compare_free(struct mp_compare *compare);

/* What a flame has more after than before; less where it is negative. */
static inline int64_t mp_compare_delta(const struct mp_flame *flame)
{
    return (int64_t)(flame->values[MP_AFTER].bytes - flame->values[MP_BEFORE].bytes);
}

/* Whether `after` is more than `before` by more than was allowed: so many bytes or, with `percent` not negative, so
 * large a part of `before`. */
bool mp_compare_grew(uint64_t before, uint64_t after, uint64_t bytes, double percent);

#endif
