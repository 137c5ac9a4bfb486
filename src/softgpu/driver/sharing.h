/* Memory of other processes and interfaces. Under soft_lock. */
#pragma once

#include "softgpu/driver/ledger.h"

void soft_free_external(struct soft_block *block);
