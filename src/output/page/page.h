/*
 * The page that `trace_plot` and similar commands write: one self-contained HTML file with a recording's blocks in it.
 * The page's own code is built from viz/ and embedded in the program. Only reads the model; any thread.
 */
#pragma once

#include <stdio.h>

#include "analysis/advise/advise.h"
#include "analysis/allocator/pool_lines.h"
#include "analysis/categories/categories.h"
#include "analysis/leaks/leaks.h"
#include "base/error.h"
#include "base/json.h"
#include "base/vec.h"
#include "model/filter.h"
#include "model/model.h"
#include "model/rules.h"
#include "model/window.h"
#include "output/page/page_columns.h"

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

/* One category for each block of a page. A block live at its track's peak has its category at the peak, as in `memprof
 * peak`. Other blocks have their last category. */
struct mp_page_categories {
    struct mp_categories *categories; /* NULL if no block has a category */
    uint16_t *of_block;               /* category of each block of the model; 0: none */
};

/* A *lane*: the stream and the pool in which a caching allocator made a block. Known only if a recording has the
 * allocator's own trace or its segments. */
struct mp_page_lane {
    uint64_t stream, pool; /* as in struct mp_segment */
};

struct mp_page_lanes {
    struct mp_page_lane *at; /* in order of first use */
    size_t count, room;
    uint32_t *of_block; /* by block of the model: its lane, from 1; 0: unknown */
};

/* Counts of a track's columns. Bytes and blocks of the peak and the end are of the page's blocks, base included. */
struct mp_page_track {
    uint64_t events;         /* events about blocks; a resize counts two */
    uint64_t blocks;         /* a block that is resized counts once for each of its sizes */
    uint64_t base_blocks;    /* blocks of the base, which come first */
    uint64_t unknown_blocks; /* of unknown size */
    uint64_t left_out;       /* blocks of the recording that are not in the page */
    uint64_t growth_events;  /* events before the leaks' `held` was taken */
    uint64_t step_events;    /* events before the last step's end; 0: no steps */
    uint64_t bytes, peak_bytes, peak_ns;
    uint64_t live_blocks;
    uint64_t whole_bytes, whole_peak_bytes; /* bytes and peak_bytes with the blocks that a filter leaves out */
};

struct mp_page_data {
    uint64_t time_unit_ns;
    unsigned address_shift;
    uint64_t from_ns, to_ns; /* the part of the recording that the page shows */
    const char *step_source; /* see mp_steps_source() */
    uint32_t steps_before;   /* steps of the program before the recording's first event */
    uint64_t steps_end_ns;   /* when the last step ended; 0: no steps */
    struct mp_page_lanes lanes;
    MP_VEC(struct mp_pool_lines) pools; /* one per track of the model */
    struct mp_page_categories categories;
    struct mp_leaks leaks;               /* leaks of that part */
    MP_VEC(uint32_t) leak_sites;         /* the page's site of each finding */
    MP_VEC(struct mp_page_track) tracks; /* one per track of the model */
    struct mp_page_columns columns;
};

/* Makes the columns that viz/src/data/ reads and viz/FORMAT.md describes, of the part and the blocks that `cut` names
 * (NULL: the whole recording). `rules` is as in struct mp_page_options. MP_LIMIT if there are too many events for a
 * browser. */
enum mp_status mp_page_data_make(const struct mp_model *model, const struct mp_page_cut *cut,
                                 const struct mp_rules *rules, struct mp_page_data *data, struct mp_error *error);
void mp_page_data_free(struct mp_page_data *data);
