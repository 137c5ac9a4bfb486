/*
 * What is still allocated at the end, by site, on every track. A verdict needs the rule over steps, which this version
 * does not have: it is always unknown. The order puts what keeps growing first: sites by the number of distinct steps
 * (or, without steps, of 64 equal parts of the recording) in which their live blocks were born, then by bytes. Pure.
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
    struct mp_sites outstanding;
};

enum mp_status mp_leaks_find(const struct mp_model *model, const struct mp_leaks_query *query, struct mp_leaks *leaks,
                             struct mp_error *error);
const char *mp_verdict_name(enum mp_verdict verdict);
void mp_leaks_free(struct mp_leaks *leaks);

#endif
