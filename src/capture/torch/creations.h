/*
 * Remembers which path made each node of PyTorch's autograd graph, from forward until backward runs the node. The key
 * is the node's number and the thread that took it, both stored in the node. There is one table for the whole process,
 * since threads end before their graphs do. It is bounded: new entries replace the oldest ones. No locks; never
 * allocates except for the table itself, once; any thread, inside a hook.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capture/core/front.h"

/* Entries of the table: enough for hundreds of forward passes of a large network. */
#define MP_CREATIONS (UINT64_C(1) << 18)

/* `thread`: PyTorch's own number of the thread, never 0. `generation`: generation of the session whose ids `creation`
 * has. */
void mp_creation_put(uint32_t generation, uint64_t thread, uint64_t number, struct mp_captured creation);
bool mp_creation_find(uint32_t generation, uint64_t thread, uint64_t number, struct mp_captured *creation);
