/* The holders of memory when most of it was allocated. Exact, with the base. Pure; the result is the caller's. */
#ifndef MP_ANALYSIS_PEAK_H
#define MP_ANALYSIS_PEAK_H

#include "analysis/sites/placement.h"
#include "analysis/sites/sites.h"
#include "model/window.h"

struct mp_peak_query {
    uint16_t track;
    struct mp_window window;
    struct mp_grouping grouping;
    const struct mp_categories *categories; /* NULL: not wanted */
    const struct mp_filter *filter; /* picks the listed blocks; the peak itself stays that of the whole track. With a
                                     * filter, the peak is that of the recorded events: the blocks of a past one are
                                     * unknown */
};

struct mp_peak {
    uint16_t track;
    uint64_t bytes, blocks; /* of the track at the peak */
    double standard_error;  /* of bytes, where the track's blocks are a sample; NAN: unknown, as for a past peak */
    uint64_t ns;
    uint32_t moment;  /* events before it */
    bool in_past;     /* reached before the recording's first event; only its sites are known */
    uint32_t step;    /* 0: none */
    bool behind_step; /* that step had ended: as an evaluation behind the last one */
    struct mp_open_regions regions;
    struct mp_sites sites;
    struct mp_sites categories;  /* the same blocks by category, where the query had categories; the groups are their
                                  * names */
    struct mp_rounding rounding; /* of all blocks of the track then */
    /* The part of the categories that is a previous graph: held although the same code made the next one. */
    struct mp_peak_previous {
        uint64_t bytes, blocks, guessed_bytes;
        uint32_t freed_at; /* the stack that freed most of it, as an event; 0 and MP_NONE: unknown or never */
        uint32_t freed;
    } previous;
    const char *phase; /* mp_category_phase(), likewise; NULL: unknown */
};

/* Finds the moment only: bytes, blocks, time, moment and in_past. `with_past`: if the window is the whole recording,
 * also the time before it (mp_model.past). */
void mp_peak_locate(const struct mp_model *model, uint16_t track, const struct mp_window *window, bool with_past,
                    struct mp_peak *peak);
void mp_peak_find(const struct mp_model *model, const struct mp_peak_query *query, struct mp_peak *peak);
void mp_peak_free(struct mp_peak *peak);

#endif
