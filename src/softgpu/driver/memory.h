/* Linear, pitched, managed, pinned and registered memory. Under soft_lock. */
#pragma once

#include "softgpu/driver/ledger.h"

/* Frees a block of linear, pitched, managed or pinned memory, or a mapped external buffer. */
void soft_free_memory(struct soft_block *block);
