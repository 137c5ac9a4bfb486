/* The verdict on a recording, and why it is not known. Pure. */
#pragma once

#include "analysis/leaks/leak_finding.h"
#include "model/spans.h"

enum mp_verdict { MP_VERDICT_LEAK, MP_VERDICT_CLEAN, MP_VERDICT_UNKNOWN };

/* The results of the search. */
struct mp_leak_signs {
    uint32_t steps, needed;               /* number of steps, and the least number for a verdict */
    size_t findings, leaks;               /* numbers of findings, and of leaks among them */
    size_t few;                           /* places that grew in too few steps */
    size_t paused;                        /* places that grew, but not lately */
    size_t behind;                        /* sites that kept blocks after the last step */
    size_t filling;                       /* findings that may be bounded */
    size_t kept;                          /* findings that code behind the loop reads, and that would fill the device */
    size_t garbage;                       /* findings that Python's collector would free, and has not yet */
    size_t built;                         /* places that make a model's parts, before any module ran */
    size_t caches;                        /* places that replace a block by a larger one without being leaks */
    uint32_t cache;                       /* stack of one of these */
    bool grows;                           /* the memory between steps rose over the recorded steps */
    struct mp_leak_finding unsure_growth; /* of the process; bytes 0: none */
};

/* Fewer steps than needed are never a leak or clean. `reason`: for MP_VERDICT_UNKNOWN a clause, else "". */
enum mp_verdict mp_leak_verdict(const struct mp_model *model, const struct mp_steps *steps,
                                const struct mp_leak_signs *signs, char *reason, size_t size);
const char *mp_verdict_name(enum mp_verdict verdict);
