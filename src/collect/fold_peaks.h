/*
 * The highest level of each track and what lived then, site by site, while events go by: exact, in one step an event
 * and memory for the sites. What a site held at the peak is looked at only when it changes next (memray's way, its
 * src/memray/_memray/snapshot.cpp): until then it is what it holds. One thread at a time.
 */
#ifndef MP_COLLECT_FOLD_PEAKS_H
#define MP_COLLECT_FOLD_PEAKS_H

#include "base/intern.h"
#include "base/vec.h"
#include "format/recording.h"

struct mp_fold_site {
    struct mp_past_site held; /* bytes and blocks: at the peak with the number `peak` */
    uint64_t bytes, blocks;   /* now */
    uint64_t peak;
};

struct mp_fold_track {
    uint64_t bytes, blocks; /* now */
    struct mp_past_peak peak;
    uint64_t number; /* of the peaks that are over */
    bool at_peak;    /* what is now is the peak */
};

struct mp_fold_peaks {
    MP_VEC(struct mp_fold_track) tracks;
    MP_VEC(struct mp_fold_site) sites;
    struct mp_intern keys; /* site N is of key N + 1 */
};

/* All return false where memory is short. */

/* What a file says of the time before it; before anything else. */
bool mp_fold_peaks_past(struct mp_fold_peaks *peaks, const struct mp_past_peak *past);
bool mp_fold_peaks_past_site(struct mp_fold_peaks *peaks, const struct mp_past_site *site);
/* A block that lives from the very beginning, or, after a past, from its end on. Of `block` counts what tells sites
 * apart; `bytes` are those that are known. */
bool mp_fold_peaks_base(struct mp_fold_peaks *peaks, const struct mp_base_block *block, uint64_t bytes, bool had_past);
/* Blocks begin (1), end (-1) or change their size (0). */
bool mp_fold_peaks_change(struct mp_fold_peaks *peaks, const struct mp_base_block *block, int64_t bytes, int blocks,
                          uint64_t time_ns, uint64_t step);
/* A block that nobody has seen before has ended: it lived all the time until now. */
bool mp_fold_peaks_ended(struct mp_fold_peaks *peaks, const struct mp_base_block *block, uint64_t bytes);
/* Brings `held` of each site up to the last peak. */
void mp_fold_peaks_settle(struct mp_fold_peaks *peaks);
struct mp_fold_track *mp_fold_track(struct mp_fold_peaks *peaks, uint16_t track); /* NULL: no memory */
void mp_fold_peaks_free(struct mp_fold_peaks *peaks);

#endif
