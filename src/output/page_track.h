/*
 * One track's blocks and their events as the columns of a page (viz/FORMAT.md says what each holds), with the sums of
 * what is in them.
 */
#ifndef MP_OUTPUT_PAGE_TRACK_H
#define MP_OUTPUT_PAGE_TRACK_H

#include "base/map.h"
#include "model/model.h"
#include "output/page_columns.h"
#include "output/page_modules.h"
#include "output/page_stacks.h"

#define MP_PAGE_TRACK_ROWS 15

/* What a track's columns hold. Bytes and blocks of the peak and the end are of what is in the page, base included. */
struct mp_page_track {
    uint64_t events;         /* of blocks; a resize counts two */
    uint64_t blocks;         /* a block that is resized counts once for each of its sizes */
    uint64_t base_blocks;    /* the first ones */
    uint64_t unknown_blocks; /* of unknown size */
    uint64_t left_out;       /* blocks of the recording that are not in the page */
    uint64_t growth_events;  /* that had happened when the leaks' `held` was taken */
    uint64_t bytes, peak_bytes, peak_ns;
    uint64_t live_blocks;
    uint64_t whole_bytes, whole_peak_bytes; /* the same with the blocks that a filter leaves out */
};

struct mp_page_track_columns {
    struct mp_page_track count;
    uint64_t frees, resizes, last_resized;
    uint64_t last_step; /* events when the latest step began */
    uint64_t last_time; /* in units */
    uint64_t addresses, last_address;
    struct mp_map latest; /* shifted address + 1 to its latest block */
    struct mp_buffer op, free, time, size, site, reuse, address, resized, step;
    struct mp_page_runs thread, kind, lane, rounding, module, category;
};

/* What the tracks of one page share. */
struct mp_page_shared {
    const struct mp_model *model;
    struct mp_page_stacks *stacks;
    struct mp_page_modules *modules;
    uint64_t time_unit_ns, from_ns; /* from_ns: where the page begins */
    unsigned address_shift;
    uint32_t *local;             /* by block of the model: its number on its track */
    const uint32_t *lane;        /* by block of the model, as mp_page_lanes.of_block */
    const uint16_t *category;    /* by block of the model */
    struct mp_map sizes;         /* bytes + 1 to its index in the dictionary */
    struct mp_buffer dictionary; /* sizes, in order of first use */
    bool failed;                 /* memory was short */
};

/* How many low bits every address of the model has clear. */
unsigned mp_page_address_shift(const struct mp_model *model);

/* A block that is live when the page begins; before any event. One that is not `picked` is only counted in `whole_`. */
void mp_page_track_base(struct mp_page_track_columns *track, struct mp_page_shared *shared, uint32_t block,
                        uint64_t bytes, bool picked);
/* An alloc, a free or a resize of a block of the track; likewise. */
void mp_page_track_event(struct mp_page_track_columns *track, struct mp_page_shared *shared, uint32_t event,
                         bool picked);
/* A step of the recording begins. */
void mp_page_track_step(struct mp_page_track_columns *track);

void mp_page_track_rows(struct mp_page_track_columns *track, uint64_t steps,
                        struct mp_page_row rows[MP_PAGE_TRACK_ROWS]);
void mp_page_track_free(struct mp_page_track_columns *track);

#endif
