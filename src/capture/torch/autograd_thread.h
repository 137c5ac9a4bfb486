/* The recorder's data per thread of PyTorch's autograd (capture/torch/autograd.c). */
#ifndef MP_CAPTURE_AUTOGRAD_THREAD_H
#define MP_CAPTURE_AUTOGRAD_THREAD_H

#include <stdint.h>

#include "capture/core/stack.h"

/* A node may start another backward pass, which runs nodes. PyTorch itself continues on another thread at 60. */
#define MP_BACKWARD_LEVELS 64

struct mp_autograd_thread {
    uint32_t level;                                 /* how many nodes run now, each inside the one before */
    struct mp_backward running[MP_BACKWARD_LEVELS]; /* the outer ones */
    uint64_t number;                                /* PyTorch's own number of this thread; 0: not yet known */
    /* The node that ran last, and its task: nodes without a number run after the last one that feeds them. */
    struct mp_creation last; /* stack 0: none */
    uint32_t last_generation, last_level;
    const void *last_task;
};

/* For the constructor. */
void mp_autograd_start(void);

#endif
