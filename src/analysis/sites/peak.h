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
    const struct mp_filter *filter; /* picks the listed blocks; the peak stays the whole track's. With a filter, only
                                     * peaks within the recorded events count, because the blocks of an earlier peak are
                                     * unknown */
};

struct mp_peak {
    uint16_t track;
    uint64_t bytes, blocks; /* bytes and blocks of the track at the peak */
    double standard_error;  /* standard error of `bytes` in a sample; NAN: unknown, as for a past peak */
    uint64_t ns;
    uint32_t moment;  /* number of events before the peak */
    bool in_past;     /* reached before the recording's first event; only its sites are known */
    uint32_t step;    /* 0: none */
    bool behind_step; /* the peak is after the step's end, for instance in an evaluation after the last step */
    struct mp_open_regions regions;
    struct mp_sites sites;
    struct mp_sites categories;  /* the same blocks by category, if the query has categories */
    struct mp_rounding rounding; /* over all blocks of the track at that moment */
    /* The part of the categories that belongs to a previous graph: activations still held after the same code made the
     * next graph. */
    struct mp_peak_previous {
        uint64_t bytes, blocks, guessed_bytes;
        uint32_t freed_at; /* stack and event that freed the largest of these blocks; 0: unknown stack; MP_NONE: never
                            * freed */
        uint32_t freed;
    } previous;
    const char *phase; /* phase of the program at the peak (mp_category_phase()); NULL: unknown */
};

/* Finds only the moment: bytes, blocks, time, moment and in_past. `with_past`: a window of the whole recording includes
 * the time before it (mp_model.past). */
void mp_peak_locate(const struct mp_model *model, uint16_t track, const struct mp_window *window, bool with_past,
                    struct mp_peak *peak);
void mp_peak_find(const struct mp_model *model, const struct mp_peak_query *query, struct mp_peak *peak);
void mp_peak_free(struct mp_peak *peak);
