#include "collect/fold_peaks.h"

struct mp_fold_track *mp_fold_track(struct mp_fold_peaks *peaks, uint16_t track)
{
    while (peaks->tracks.count <= track) {
        struct mp_fold_track fresh = {
            .peak = {.track = (uint16_t)peaks->tracks.count, .reserved_bytes = MP_BYTES_UNKNOWN}};
        if (!mp_vec_push(&peaks->tracks, fresh)) return NULL;
    }
    return &peaks->tracks.at[track];
}

static struct mp_fold_site *site_of(struct mp_fold_peaks *peaks, const struct mp_fold_track *track, uint32_t stack,
                                    uint32_t module, uint8_t kind)
{
    const uint32_t key[] = {stack, module, (uint32_t)track->peak.track << 8 | kind};
    uint32_t id = mp_intern_bytes(&peaks->keys, (const char *)key, sizeof key);
    struct mp_fold_site fresh = {.held = {.stack = stack, .module = module, .track = track->peak.track, .kind = kind},
                                 .peak = track->number};
    if (id == MP_INTERN_FAILED || (id > peaks->sites.count && !mp_vec_push(&peaks->sites, fresh))) return NULL;
    struct mp_fold_site *site = &peaks->sites.at[id - 1];
    if (site->peak == track->number) return site;
    site->held.bytes = site->bytes;
    site->held.blocks = site->blocks;
    site->peak = track->number;
    return site;
}

bool mp_fold_peaks_past(struct mp_fold_peaks *peaks, const struct mp_past_peak *past)
{
    struct mp_fold_track *track = mp_fold_track(peaks, past->track);
    if (track) track->peak = *past;
    return track;
}

bool mp_fold_peaks_past_site(struct mp_fold_peaks *peaks, const struct mp_past_site *past)
{
    struct mp_fold_track *track = mp_fold_track(peaks, past->track);
    struct mp_fold_site *site = track ? site_of(peaks, track, past->stack, past->module, past->kind) : NULL;
    if (!site) return false;
    site->held.bytes += past->bytes;
    site->held.blocks += past->blocks;
    return true;
}

bool mp_fold_peaks_base(struct mp_fold_peaks *peaks, const struct mp_base_block *block, uint64_t bytes, bool had_past)
{
    struct mp_fold_track *track = mp_fold_track(peaks, block->track);
    struct mp_fold_site *site = track ? site_of(peaks, track, block->stack, block->module, block->kind) : NULL;
    if (!site) return false;
    site->bytes += bytes;
    site->blocks++;
    track->bytes += bytes;
    track->blocks++;
    if (had_past) return true;
    track->peak.bytes = track->bytes;
    track->peak.blocks = track->blocks;
    track->at_peak = true;
    return true;
}

/* What is now is about to change. */
static void leave_peak(struct mp_fold_track *track)
{
    track->number += track->at_peak;
    track->at_peak = false;
}

bool mp_fold_peaks_change(struct mp_fold_peaks *peaks, const struct mp_base_block *block, int64_t bytes, int blocks,
                          uint64_t time_ns, uint64_t step)
{
    struct mp_fold_track *track = mp_fold_track(peaks, block->track);
    if (!track) return false;
    leave_peak(track);
    struct mp_fold_site *site = site_of(peaks, track, block->stack, block->module, block->kind);
    if (!site) return false;
    site->bytes += (uint64_t)bytes;
    site->blocks += (uint64_t)(int64_t)blocks;
    track->bytes += (uint64_t)bytes;
    track->blocks += (uint64_t)(int64_t)blocks;
    if (track->bytes <= track->peak.bytes) return true;
    track->peak.bytes = track->bytes;
    track->peak.blocks = track->blocks;
    track->peak.time_ns = time_ns;
    track->peak.step = step;
    track->at_peak = true;
    return true;
}

bool mp_fold_peaks_ended(struct mp_fold_peaks *peaks, const struct mp_base_block *block, uint64_t bytes)
{
    struct mp_fold_track *track = mp_fold_track(peaks, block->track);
    if (!track) return false;
    leave_peak(track);
    struct mp_fold_site *site = site_of(peaks, track, block->stack, block->module, block->kind);
    if (!site) return false;
    site->held.bytes += bytes;
    site->held.blocks++;
    track->peak.bytes += bytes;
    track->peak.blocks++;
    return true;
}

void mp_fold_peaks_settle(struct mp_fold_peaks *peaks)
{
    for (size_t i = 0; i < peaks->tracks.count; i++)
        leave_peak(&peaks->tracks.at[i]);
    for (size_t i = 0; i < peaks->sites.count; i++) {
        const struct mp_past_site *held = &peaks->sites.at[i].held;
        (void)site_of(peaks, &peaks->tracks.at[held->track], held->stack, held->module, held->kind);
    }
}

void mp_fold_peaks_free(struct mp_fold_peaks *peaks)
{
    mp_vec_free(&peaks->tracks);
    mp_vec_free(&peaks->sites);
    mp_intern_free(&peaks->keys);
}
