/*
 * What was never freed, by site, on every track; and what is held at the moment that tells most of growth (growth.h),
 * since a program that ends in order frees its leaks too. A verdict needs the rule over steps, which this version does
 * not have: it is always unknown. Sorted by growth, sites come in order of the number of distinct steps (or, without
 * steps, of 64 equal parts of the recording) in which their live blocks were born, then of bytes. Pure.
 */
#ifndef MP_ANALYSIS_LEAKS_H
#define MP_ANALYSIS_LEAKS_H

#include "analysis/sites.h"
#include "model/window.h"

struct mp_leaks_query {
    uint16_t track;          /* MP_TRACK_NONE: all */
    struct mp_window window; /* outstanding at its end */
    struct mp_grouping grouping;
    const struct mp_filter *filter;
};

enum mp_verdict { MP_VERDICT_LEAK, MP_VERDICT_CLEAN, MP_VERDICT_UNKNOWN };

struct mp_leaks {
    enum mp_verdict verdict;
    uint32_t step_count;
    const char *step_source;
    struct mp_sites outstanding; /* live at the end of the window */
    uint32_t held_moment;        /* events that had happened */
    uint64_t held_ns;
    struct mp_sites held; /* live at held_moment */
};

enum mp_status mp_leaks_find(const struct mp_model *model, const struct mp_leaks_query *query, struct mp_leaks *leaks,
                             struct mp_error *error);
const char *mp_verdict_name(enum mp_verdict verdict);
void mp_leaks_free(struct mp_leaks *leaks);

#endif
