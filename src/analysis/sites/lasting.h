/*
 * The sites with blocks at the moment that shows growth best (growth.h), and those that still last at the last
 * allocation. Most programs free everything as they end, so the last moment often hides a leak. Pure; the result is the
 * caller's.
 */
#pragma once

#include "analysis/sites/sites.h"
#include "model/window.h"

struct mp_lasting_query {
    uint16_t track; /* MP_TRACK_NONE: all */
    struct mp_window window;
    struct mp_grouping grouping;
    const struct mp_filter *filter;
};

struct mp_lasting {
    uint32_t moment; /* number of events before that moment */
    uint64_t ns;
    struct mp_sites sites; /* live then; sites that are still live at the last allocation come first */
    size_t lasting;        /* number of sites that are still live at the last allocation (with groups: of all rows) */
};

/* The sites of the blocks that live after `moment` events. */
void mp_lasting_sites_at(const struct mp_model *model, const struct mp_lasting_query *query, uint32_t moment,
                         const struct mp_steps *steps, struct mp_sites *sites);
void mp_lasting_find(const struct mp_model *model, const struct mp_lasting_query *query, const struct mp_steps *steps,
                     struct mp_lasting *held);
