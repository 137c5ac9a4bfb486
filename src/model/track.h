/* The names of tracks ("cuda:0/torch") and which one a question means when it names none. Pure. */
#ifndef MP_MODEL_TRACK_H
#define MP_MODEL_TRACK_H

#include "model/model.h"

#define MP_TRACK_ID_MAX 192
#define MP_TRACK_NONE   UINT16_MAX

/* Writes DEVICE/LAYER, and /POOL where the track is a named pool, to `to` (MP_TRACK_ID_MAX bytes); returns `to`. */
char *mp_track_id(const struct mp_model *model, uint16_t track, char *to);
/* The device's name alone: "cuda:0". */
const char *mp_track_device(const struct mp_model *model, uint16_t track);
/* True if the track's blocks are memory (mp_track_holds_memory()). */
bool mp_model_track_holds_memory(const struct mp_model *model, size_t track);
/* MP_TRACK_NONE where no track has this id. */
uint16_t mp_track_find(const struct mp_model *model, const char *id);
/* The uppermost layer with events (app, torch, driver) on the device with the highest peak. Only peaks of tracks that
 * hold memory count (mp_track_holds_memory()), those of pinned memory a sixteenth. MP_TRACK_NONE if there are no
 * tracks.
 */
uint16_t mp_track_default(const struct mp_model *model);

/* The track of the driver's memory on the same device, where the segments of an allocator's track come from.
 * MP_TRACK_NONE where there is none, and for the driver's own tracks. */
uint16_t mp_track_below(const struct mp_model *model, uint16_t track);

/* The driver's track in which the memory of an allocator's track lies. A recording of memprof's own shows virtual
 * memory twice; then the address at which it was mapped ("mapped") counts, not the handle. */
struct mp_track_memory {
    uint16_t below, mapped; /* MP_TRACK_NONE: none; virtual memory then has its address in `below` */
};
struct mp_track_memory mp_track_memory_of(const struct mp_model *model, uint16_t track);
/* True if a block is a range of such memory. */
bool mp_track_is_range(const struct mp_model *model, const struct mp_track_memory *memory, size_t block);

/* The tracks that a question means, one byte each: 1 for `track`. MP_TRACK_NONE means all tracks except those whose
 * memory another track shows, too. If an allocator's reserved total at the end equals the bytes that a lower layer of
 * its device handed out, the lower layer's blocks are its segments. The driver's addresses are no memory. The caller
 * frees it. */
unsigned char *mp_tracks_meant(const struct mp_model *model, uint16_t track);

#endif
