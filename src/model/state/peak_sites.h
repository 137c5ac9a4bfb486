/*
 * The blocks at the peak of each track, site by site, as events pass: exact, with one step per event and memory for the
 * sites. A site's contents at the peak are saved only when it next changes (memray's way, its
 * src/memray/_memray/snapshot.cpp): until then they equal its present contents. One thread at a time.
 */
#ifndef MP_MODEL_STATE_PEAK_SITES_H
#define MP_MODEL_STATE_PEAK_SITES_H

#include "base/intern.h"
#include "base/vec.h"
#include "format/recording.h"

struct mp_peak_site {
    struct mp_past_site held; /* bytes and blocks: at the peak with the number `peak` */
    uint64_t bytes, blocks;   /* now */
    uint64_t peak;
};

struct mp_peak_sites {
    MP_VEC(struct mp_peak_track {
        uint64_t number; /* of peaks that are over */
        bool at_peak;    /* the present state is the peak */
    })
    tracks;
    MP_VEC(struct mp_peak_site) at;
    struct mp_intern keys; /* site N has key N + 1 */
};

/* All return false where memory is short. Only the members of a block that distinguish sites count. */

/* A file's site of the peak in the time before it; must come before anything else. */
bool mp_peak_sites_past(struct mp_peak_sites *sites, const struct mp_past_site *past);
/* Blocks begin (1), end (-1) or change their size (0). */
bool mp_peak_sites_change(struct mp_peak_sites *sites, const struct mp_base_block *block, int64_t bytes, int blocks);
/* The track reached its highest level with the last change. */
void mp_peak_sites_raise(struct mp_peak_sites *sites, uint16_t track);
/* A block never seen before has ended: it lived all the time until now. */
bool mp_peak_sites_ended(struct mp_peak_sites *sites, const struct mp_base_block *block, uint64_t bytes);
/* Brings `held` of each site up to the last peak. */
void mp_peak_sites_settle(struct mp_peak_sites *sites);
void mp_peak_sites_free(struct mp_peak_sites *sites);

#endif
