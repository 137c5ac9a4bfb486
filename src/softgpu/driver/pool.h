/* Stream-ordered pools. Under soft_lock. */
#pragma once

#include "softgpu/cuda_types.h"
#include "softgpu/driver/ledger.h"

void soft_pools_idle(void); /* at a synchronisation: pools release memory above their thresholds */
void soft_free_pool_block(struct soft_block *block, CUstream stream);
