/* Measures a GPU for `memprof plan --device FILE`. */
#pragma once

#include "base/buffer.h"
#include "base/error.h"

/* Appends the device file of the first visible GPU: for each key, whether it was measured. The work is done in a child
 * process, which loads NVIDIA's driver and libraries; it takes up to a quarter of the GPU's free memory for some
 * seconds. One thread. */
enum mp_status mp_measure(struct mp_buffer *file, struct mp_error *error);
