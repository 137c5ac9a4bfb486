/*
 * The page that `trace_plot` and similar commands write: one self-contained HTML file with a recording's blocks in it.
 * The page's own code is built from viz/ and embedded in the program. Only reads the model; any thread.
 */
#pragma once

#include <stdio.h>

#include "analysis/advise/advise.h"
#include "base/error.h"
#include "model/filter.h"
#include "model/model.h"
#include "model/rules.h"
#include "model/window.h"

/* No browser opens a page with more events. */
#define MP_PAGE_EVENTS_MAX UINT32_C(100000000)

/* The part that a page shows; the page lists what is left out. */
struct mp_page_cut {
    struct mp_window window;
    const struct mp_filter *filter; /* NULL: every block */
    const char *filter_text;        /* as the user gave it; NULL: none */
};

struct mp_page_options {
    int track; /* the track shown first, an index into model.tracks; -1: the device with the highest peak and, on it,
                * the uppermost layer that has blocks. Every track is in the page. */
    const char *title;              /* the recording's name on the page, usually its file's */
    const char *view;               /* the view that the page opens on; NULL or "": the timeline */
    const struct mp_page_cut *cut;  /* NULL: nothing is left out */
    const struct mp_rules *rules;   /* the user's, for categories; NULL: none */
    const struct mp_advise *advise; /* changes with curves; only for a page of the whole recording. NULL: none */
};

/* Writes the whole page to `out`, which stays open. MP_IO if a write fails, MP_LIMIT if the model has more than
 * MP_PAGE_EVENTS_MAX events. */
enum mp_status mp_page_write(const struct mp_model *model, const struct mp_page_options *options, FILE *out,
                             struct mp_error *error);
