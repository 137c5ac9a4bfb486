/*
 * The path that made a node of PyTorch's autograd graph, kept from forward until backward runs the node, by the number
 * that the node carries and the thread that took it. One table for the whole process, since threads end before their
 * graphs do; bounded, so that the oldest entries are forgotten. No locks; never allocates except for the table itself,
 * once; any thread, inside a hook.
 */
#ifndef MP_CAPTURE_CREATIONS_H
#define MP_CAPTURE_CREATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/core/front.h"

/* Nodes that are remembered: hundreds of forward passes of a large network. */
#define MP_CREATIONS (UINT64_C(1) << 18)

/* `thread`: PyTorch's own number of the thread, never 0. `generation`: of the session, whose ids these are. */
void mp_creation_put(uint32_t generation, uint64_t thread, uint64_t number, struct mp_captured creation);
bool mp_creation_find(uint32_t generation, uint64_t thread, uint64_t number, struct mp_captured *creation);

#endif
