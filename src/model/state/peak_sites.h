/*
 * What lived at the peak of each track, site by site, while events go by: exact, in one step an event and memory for
 * the sites. What a site held at the peak is looked at only when it changes next (memray's way, its
 * src/memray/_memray/snapshot.cpp): until then it is what it holds. One thread at a time.
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
        uint64_t number; /* of the peaks that are over */
        bool at_peak;    /* what is now is the peak */
    })
    tracks;
    MP_VEC(struct mp_peak_site) at;
    struct mp_intern keys; /* site N is of key N + 1 */
};

/* All return false where memory is short. Of a block counts what tells sites apart. */

/* What a file says of the peak in the time before it; before anything else. */
bool mp_peak_sites_past(struct mp_peak_sites *sites, const struct mp_past_site *past);
/* Blocks begin (1), end (-1) or change their size (0). */
bool mp_peak_sites_change(struct mp_peak_sites *sites, const struct mp_base_block *block, int64_t bytes, int blocks);
/* The track is at its highest since the last change. */
void mp_peak_sites_raise(struct mp_peak_sites *sites, uint16_t track);
/* A block that nobody has seen before has ended: it lived all the time until now. */
bool mp_peak_sites_ended(struct mp_peak_sites *sites, const struct mp_base_block *block, uint64_t bytes);
/* Brings `held` of each site up to the last peak. */
void mp_peak_sites_settle(struct mp_peak_sites *sites);
void mp_peak_sites_free(struct mp_peak_sites *sites);

#endif
