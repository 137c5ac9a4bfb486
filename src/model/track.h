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
/* MP_TRACK_NONE where no track has this id. */
uint16_t mp_track_find(const struct mp_model *model, const char *id);
/* The device with the highest peak (of a track that holds memory, mp_track_holds_memory()) and, on it, the uppermost
 * layer that has events (app, torch, driver); MP_TRACK_NONE where there are no tracks. */
uint16_t mp_track_default(const struct mp_model *model);

/* The memory of the driver's on the same device: that which the segments of an allocator's track come from.
 * MP_TRACK_NONE where there is none, and for tracks of the driver's own. */
uint16_t mp_track_below(const struct mp_model *model, uint16_t track);

/* Where the memory of an allocator's track lies: what the driver handed out, and of virtual memory, which a recording
 * of memprof's own tells twice, the address at which it was mapped ("mapped") in place of the handle. */
struct mp_track_memory {
    uint16_t below, mapped; /* MP_TRACK_NONE: none, and then virtual memory has its address */
};
struct mp_track_memory mp_track_memory_of(const struct mp_model *model, uint16_t track);
/* Whether a block is such a range. */
bool mp_track_is_range(const struct mp_model *model, const struct mp_track_memory *memory, size_t block);

/* The tracks that a question means: one byte each, 1 for `track`; for MP_TRACK_NONE all but those whose memory another
 * track tells too: where an allocator on the same device holds (by its reserved total at the end) just what a layer
 * below handed out, the blocks there are its segments; and addresses of the driver's are no memory. The caller frees
 * it; NULL where memory is short. */
unsigned char *mp_tracks_meant(const struct mp_model *model, uint16_t track);

#endif
