/* Modules and their code. Under soft_lock. */
#pragma once

#include "softgpu/driver/ledger.h"

void soft_free_module(struct soft_block *block);
