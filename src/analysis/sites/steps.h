/*
 * How each step and each region changes a track's memory. A region's peak and allocations cover its time on all
 * threads, because backward() works on other threads than its caller. Pure.
 */
#pragma once

#include "analysis/sites/groups.h"
#include "base/error.h"
#include "model/model.h"
#include "model/spans.h"
#include "model/window.h"

struct mp_step_row {
    uint32_t number;
    uint64_t start_ns, end_ns;
    uint64_t allocated_bytes, freed_bytes;
    uint64_t peak_bytes; /* highest allocated bytes from begin to end */
    uint64_t end_bytes;
    uint32_t peak_moment; /* number of past events when the peak was first reached */
    bool to_end;          /* nothing ended the step: it goes to the recording's end */
};

/* All closed regions of one name. A region that is open at the recording's end closes there. */
struct mp_region_row {
    uint32_t name; /* string id */
    uint64_t count;
    uint64_t mean_peak_bytes, p50_peak_bytes, p95_peak_bytes, p99_peak_bytes, max_peak_bytes;
    uint64_t total_allocated_bytes;
    uint64_t kept_bytes; /* bytes allocated inside a region and live at its end, summed over the regions */
    uint64_t total_ns;
};

struct mp_step_report {
    uint16_t track;
    const char *source;
    MP_VEC(struct mp_step_row) steps;
    MP_VEC(struct mp_region_row) regions; /* in order of first appearance */
};

/* Steps and regions that begin inside the window. `source` says whether steps were marked or inferred. */
void mp_steps_report(const struct mp_model *model, uint16_t track, const struct mp_window *window,
                     struct mp_step_report *report);
void mp_step_report_free(struct mp_step_report *report);

/* Groups of the blocks at each step's peak: by category, module or any other group. Pure. */
struct mp_step_group {
    uint32_t name; /* string id in `names`; MP_NONE: unknown */
    uint64_t most; /* the most bytes that it had at a step's peak */
    size_t column; /* its column in the rows of `bytes` */
};

struct mp_step_groups {
    struct mp_intern names;
    MP_VEC(struct mp_step_group) groups; /* the largest first; without groups that were always empty */
    size_t columns;
    uint64_t *bytes; /* of step N of the report and group G: bytes[N * columns + G's column] */
};
