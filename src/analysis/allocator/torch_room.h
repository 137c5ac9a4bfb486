/* How much of a device a caching allocator may have, for replays. Pure. */
#ifndef MP_ANALYSIS_TORCH_ROOM_H
#define MP_ANALYSIS_TORCH_ROOM_H

#include "model/model.h"

/* The device's memory that neither the driver nor a context, other libraries, or other processes had, where the
 * recording has its total; less than any refused amount, but no less than the allocator once held, `held`.
 * MP_BYTES_UNKNOWN where the total is unknown. */
uint64_t mp_torch_room(const struct mp_model *model, uint16_t track, uint64_t held);

#endif
