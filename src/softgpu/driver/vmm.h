/* Address ranges and the physical memory behind them. Under soft_lock. */
#pragma once

#include <stdint.h>

#include "softgpu/driver/ledger.h"

/* ---- arrays (array.c), physical memory (vmm.c), pools (pool.c), modules (module.c) ---- */
/* The physical memory that is mapped at an address; NULL: none. */
struct soft_block *soft_mapping_at(uint64_t address);
