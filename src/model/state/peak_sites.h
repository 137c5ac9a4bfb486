/*
 * Keeps the sites of the blocks at each track's peak while events pass. They are exact, cost constant time per event,
 * and take memory for the sites alone. A site's sums at the peak are saved only when the site next changes: until then
 * they equal its present sums. (The method is memray's, src/memray/_memray/snapshot.cpp.) One thread at a time.
 */
#pragma once

#include "base/intern.h"
#include "base/vec.h"
#include "format/recording.h"

struct mp_peak_site {
    struct mp_past_site held; /* `bytes` and `blocks`: at the peak with number `peak` */
    uint64_t bytes, blocks;   /* now */
    uint64_t peak;
};

struct mp_peak_sites {
    MP_VEC(struct mp_peak_track {
        uint64_t number; /* number of the present peak, which is the number of earlier peaks */
        bool at_peak;    /* the present state is the peak */
    })
    tracks;
    MP_VEC(struct mp_peak_site) at;
    struct mp_intern keys; /* site N has key N + 1 */
};

/* All return false if memory is short. Only those members of a block count that distinguish sites. */

/* Adds a site of the peak in the time before the file. Call it before the others. */
bool mp_peak_sites_past(struct mp_peak_sites *sites, const struct mp_past_site *past);
/* A block begins (`blocks` 1), ends (-1) or is resized (0). `bytes`: the change. */
bool mp_peak_sites_change(struct mp_peak_sites *sites, const struct mp_base_block *block, int64_t bytes, int blocks);
/* Call it when the last change brought the track to its highest level so far. */
void mp_peak_sites_raise(struct mp_peak_sites *sites, uint16_t track);
/* Called when a block that was never seen before has ended. It has lived all the time, so it was live at the peak. */
bool mp_peak_sites_ended(struct mp_peak_sites *sites, const struct mp_base_block *block, uint64_t bytes);
/* Saves the sums of all sites at the last peak in `held`. */
void mp_peak_sites_settle(struct mp_peak_sites *sites);
void mp_peak_sites_free(struct mp_peak_sites *sites);
