/*
 * The events of a made-up training loop, to measure the size of its recording: layers of forward, backward and
 * optimizer steps over a caching allocator.
 */
#pragma once

#include <stddef.h>

#include "format/recording.h"

/* The events of `steps` steps of a network of `layers` layers: *count of them, *stacks stack ids used, two threads, one
 * track. The caller frees them. */
struct mp_event *make_training(size_t layers, size_t steps, size_t *count, uint32_t *stacks);
