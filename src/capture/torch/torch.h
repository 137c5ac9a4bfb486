/* PyTorch as a front end of the recorder. Its preloaded definitions and its shim share these functions. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/core/front.h"
#include "capture/core/session.h"

extern const struct mp_front mp_torch_front, mp_autograd_front;

/* Called when the PyTorch shim starts: a recording with tensors then names it as a source. Any thread; needs no
 * session. */
void mp_torch_shim_started(void);

/* The track of a CUDA device's caching allocator; MP_TRACK_NONE if there is no room. In a hook. */
uint16_t mp_torch_track(int device);

/* True if `caller`, which asks the C allocator for a block, lies in PyTorch's CPU allocator. The recorder has its
 * blocks on cpu/torch. False before PyTorch's first report. In a hook. */
bool mp_torch_records_cpu_block(const void *caller);
