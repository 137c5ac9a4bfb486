/*
 * Finds growth on every track, by the rule of leak_rule.h. The rule judges at the last boundary between steps, so frees
 * at the program's end hide nothing. Sites that the program freed while it still worked are cleared. The result also
 * has, by site, the outstanding blocks, and those live at the moment that shows growth best (sites/lasting.h). Sites
 * are sorted by the number of steps in which their live blocks were born (without steps: of 64 equal time slices), then
 * by bytes. Pure; the result is the caller's.
 */
#pragma once

#include "analysis/leaks/leak_finding.h"
#include "analysis/leaks/leak_limits.h"
#include "analysis/leaks/leak_verdict.h"
#include "analysis/leaks/suppress.h"
#include "analysis/sites/lasting.h"
#include "model/window.h"

struct mp_leaks_query {
    uint16_t track;          /* MP_TRACK_NONE: all */
    struct mp_window window; /* outstanding: live at the window's end */
    struct mp_grouping grouping;
    const struct mp_filter *filter;
    struct mp_suppressions *suppressions; /* NULL: none; counts their uses */
};

struct mp_leaks {
    enum mp_verdict verdict;
    char reason[240]; /* for verdict unknown: a clause */
    /* Leaks come first, and among them leaks with blocks. Within a kind, causes with more bytes per step come first. */
    struct mp_leak_findings findings;
    MP_VEC(uint32_t) stacks;   /* stacks of the findings, one finding after the other */
    struct mp_holders holders; /* all recorded blocks; empty without findings */
    uint32_t leaks;            /* number of leaks among the findings */
    uint32_t causes;           /* number of different causes of the leaks */
    size_t caches; /* places that replace a block by a larger one without being leaks: the loop may be one request,
                    * replacement is too rare, or the work itself grows */
    struct mp_leak_finding unsure_growth; /* class hidden, but over too few steps, or too small, to be sure; bytes 0:
                                           * none */
    uint64_t suppressed_bytes, suppressed_findings;
    size_t places; /* number of places that were judged */
    uint32_t step_count;
    const char *step_source;
    bool grows;                  /* the memory between steps rose over the recorded steps */
    bool running;                /* the program still runs: outstanding means live */
    struct mp_sites outstanding; /* live at the end of the window */
    struct mp_lasting held;      /* at the moment that shows growth best */
};

enum mp_status mp_leaks_find(const struct mp_model *model, const struct mp_leaks_query *query, struct mp_leaks *leaks,
                             struct mp_error *error);
void mp_leaks_free(struct mp_leaks *leaks);
