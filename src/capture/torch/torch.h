/* PyTorch's allocators as a front end of the recorder: the rest of it is preloaded definitions. */
#ifndef MP_CAPTURE_TORCH_H
#define MP_CAPTURE_TORCH_H

#include <stdint.h>

#include "capture/core/front.h"

extern const struct mp_front mp_torch_front, mp_autograd_front, mp_annotations_front;

/* The process has the PyTorch shim: a recording with tensors says so. Any thread; no session is needed. */
void mp_torch_shim_started(void);

/* The track of a CUDA device's caching allocator; MP_TRACK_NONE. In a hook. */
uint16_t mp_torch_track(int device);

#endif
