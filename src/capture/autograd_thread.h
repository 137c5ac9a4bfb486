/* What the recorder keeps per thread of PyTorch's autograd (capture/autograd.c). */
#ifndef MP_CAPTURE_AUTOGRAD_THREAD_H
#define MP_CAPTURE_AUTOGRAD_THREAD_H

#include <stdint.h>

#include "capture/creations.h"

struct mp_autograd_thread {
    uint64_t number; /* PyTorch's own of this thread; 0: not asked yet */
    /* The node that ran last, and for what: nodes without a number run after the last one that feeds them. */
    struct mp_creation last; /* stack 0: none */
    uint32_t last_generation;
    const void *last_task, *last_outer;
};

#endif
