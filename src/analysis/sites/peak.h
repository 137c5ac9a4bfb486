/* The sites that hold memory when the allocated bytes are highest. Exact, and includes the base. Pure; the result is
 * the caller's. */
#pragma once

#include "analysis/sites/placement.h"
#include "analysis/sites/sites.h"
#include "model/window.h"

struct mp_peak_query {
    uint16_t track;
    struct mp_window window;
    struct mp_grouping grouping;
    const struct mp_categories *categories; /* NULL: not wanted */
    const struct mp_filter *filter; /* picks the listed blocks; the peak itself stays that of the whole track. With a
                                     * filter, the peak is the highest in the recorded events: the blocks of an earlier
                                     * peak are unknown */
};

struct mp_peak {
    uint16_t track;
    uint64_t bytes, blocks; /* the track's, at the peak */
    double standard_error;  /* standard error of `bytes` in a sample; NAN: unknown, as for a past peak */
    uint64_t ns;
    uint32_t moment;  /* events before it */
    bool in_past;     /* reached before the recording's first event; only its sites are known */
    uint32_t step;    /* 0: none */
    bool behind_step; /* after the step's end, as in an evaluation after the last step */
    struct mp_open_regions regions;
    struct mp_sites sites;
    struct mp_sites categories;  /* the same blocks by category, if the query has categories */
    struct mp_rounding rounding; /* over all blocks of the track at that moment */
    /* The categories' part that is a previous graph: still held after the same code made the next one. */
    struct mp_peak_previous {
        uint64_t bytes, blocks, guessed_bytes;
        uint32_t freed_at; /* the event whose stack freed most of it; 0 and MP_NONE: unknown, never */
        uint32_t freed;
    } previous;
    const char *phase; /* mp_category_phase() of that; NULL: unknown */
};

/* Finds only the moment: bytes, blocks, time, moment and in_past. `with_past`: a window of the whole recording includes
 * the time before it (mp_model.past). */
void mp_peak_locate(const struct mp_model *model, uint16_t track, const struct mp_window *window, bool with_past,
                    struct mp_peak *peak);
void mp_peak_find(const struct mp_model *model, const struct mp_peak_query *query, struct mp_peak *peak);
void mp_peak_free(struct mp_peak *peak);
