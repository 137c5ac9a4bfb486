/* The names of tracks ("cuda:0/torch"), and the tracks that a question without a track means. Pure. */
#pragma once

#include "model/model.h"

#define MP_TRACK_ID_MAX 192
#define MP_TRACK_NONE   UINT16_MAX

/* Writes a track's id, DEVICE/LAYER, or DEVICE/LAYER/POOL for a named pool, to `to` (MP_TRACK_ID_MAX bytes). Returns
 * `to`. */
char *mp_track_id(const struct mp_model *model, uint16_t track, char *to);
/* The device's name alone: "cuda:0". */
const char *mp_track_device(const struct mp_model *model, uint16_t track);
/* True if the track's blocks are memory (mp_track_holds_memory()). */
bool mp_model_track_holds_memory(const struct mp_model *model, size_t track);
/* The track with that id; MP_TRACK_NONE if there is none. */
uint16_t mp_track_find(const struct mp_model *model, const char *id);
/* The track that a question means by default. It is the uppermost layer with events (app, torch, driver) on the device
 * with the highest peak. Only tracks that hold memory count (mp_track_holds_memory()); a peak of pinned memory counts
 * as a sixteenth. MP_TRACK_NONE if there are no tracks. */
uint16_t mp_track_default(const struct mp_model *model);

/* The driver's track from which an allocator's track gets its segments, on the same device. MP_TRACK_NONE if there is
 * none, and for the driver's own tracks. */
uint16_t mp_track_below(const struct mp_model *model, uint16_t track);

/* The driver's tracks in which an allocator's memory lies. memprof's own recordings show virtual memory on two tracks,
 * once by handle and once by address. The track by address ("mapped") then counts. */
struct mp_track_memory {
    uint16_t below, mapped; /* or MP_TRACK_NONE; without `mapped`, `below` has virtual memory by address */
};
struct mp_track_memory mp_track_memory_of(const struct mp_model *model, uint16_t track);
/* True if a block is a range of memory in these tracks. */
bool mp_track_is_range(const struct mp_model *model, const struct mp_track_memory *memory, size_t block);

/* The tracks that a question means, one byte each: 1 for `track`. MP_TRACK_NONE means all tracks, except tracks whose
 * memory another track shows, too. If an allocator's reserved total at the end equals the bytes of a lower layer on its
 * device, the lower layer's blocks are its segments. The driver's address space is no memory. The caller frees the
 * array. */
unsigned char *mp_tracks_meant(const struct mp_model *model, uint16_t track);
