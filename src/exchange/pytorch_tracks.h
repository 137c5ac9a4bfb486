/* Which tracks of a recording a snapshot of PyTorch shows of a device. For pytorch_export.c. Pure. */
#ifndef MP_EXCHANGE_PYTORCH_TRACKS_H
#define MP_EXCHANGE_PYTORCH_TRACKS_H

#include "model/track.h"

/* The one that tells most: of the uppermost layer with events, that with the highest peak; MP_TRACK_NONE. */
uint16_t mp_pytorch_main_track(const struct mp_model *model, uint32_t device);
/* That of the layer below on the same device, or MP_TRACK_NONE. */
uint16_t mp_pytorch_track_below(const struct mp_model *model, uint16_t track);

#endif
