/*
 * Result structs as text and as JSON (the keys are a promise: other programs read them). A JSON report is a member
 * `key`, or with `key` NULL a document of its own. It names its schema and ends with its coverage. Text begins with the
 * answer. These functions do not fail: a shortage of memory marks the buffer as failed.
 */
#pragma once

#include "analysis/advise/advise.h"
#include "analysis/allocator/frag.h"
#include "analysis/device/device_use.h"
#include "analysis/device/plan.h"
#include "analysis/holders/causes.h"
#include "analysis/leaks/leaks.h"
#include "analysis/sites/peak.h"
#include "analysis/sites/steps.h"
#include "analysis/sizing/size.h"
#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"
#include "output/report/sites.h"

/* How to show a report of any kind. */
struct mp_view {
    const char *path; /* the file's name as given by the user */
    size_t limit;     /* rows; 0: all */
    bool full_stacks;
    const char *filter; /* as written by the user; NULL: none */
    struct mp_grouping grouping;
    struct mp_window window;
    bool outstanding;                    /* leaks: list blocks that were never freed */
    bool verbose;                        /* leaks: the reasons of each finding, and the constants of the rules */
    bool sizes;                          /* info: what takes the file's bytes */
    const struct mp_holders *holders;    /* of the peak's blocks; NULL: not looked for */
    const struct mp_held_causes *causes; /* likewise */
};
