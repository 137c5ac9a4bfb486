/* Groups of the blocks at the peak of each step: by category, module or any other group. Pure. */
#ifndef MP_ANALYSIS_STEP_GROUPS_H
#define MP_ANALYSIS_STEP_GROUPS_H

#include "analysis/sites/groups.h"
#include "analysis/sites/steps.h"

struct mp_step_group {
    uint32_t name; /* string id in names; MP_NONE: unknown */
    uint64_t most; /* bytes that it held at most at the peak of a step */
    size_t column; /* in the rows of bytes */
};

struct mp_step_groups {
    struct mp_intern names;
    MP_VEC(struct mp_step_group) groups; /* the largest first; none was empty at every peak */
    size_t columns;
    uint64_t *bytes; /* of report step N and group G: bytes[N * columns + G's column] */
};

/* For the steps of a report. The result is the caller's. */
void mp_step_groups_find(const struct mp_model *model, const struct mp_step_report *report,
                         const struct mp_grouping *grouping, struct mp_step_groups *groups);
void mp_step_groups_free(struct mp_step_groups *groups);

#endif
