/* How much of a device a caching allocator may have, for replays. Pure. */
#pragma once

#include "model/model.h"

/* Bytes of the device that the allocator could have: the total without the driver, contexts, other libraries and other
 * processes. It is less than any refused amount, but at least `held`, the most that the allocator had. MP_BYTES_UNKNOWN
 * if the total is unknown. */
uint64_t mp_torch_room(const struct mp_model *model, uint16_t track, uint64_t held);
