/* Modules and their code. Under soft_lock. */
#pragma once

#include <stdbool.h>

#include "softgpu/driver/code.h"
#include "softgpu/driver/driver.h"

void soft_free_module(struct soft_block *block);

/* The code of a module that the program loaded itself. False: the handle is no module. */
bool soft_module_code(const void *handle, struct soft_code *code);
