/* Answers that programs expect of computed memory, as the stand-in runtime gives them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softgpu/runtime/runtime.h"

/* ---- made-up results of kernels (answers.c) ---- */
/* Fills in `answer`, `elements` and `follow` by the kernel's name. Called once for each kernel, under the lock of
 * kernels.c. */
void softrt_look_at_name(struct softrt_kernel *kernel);

/* Called after the thread has launched the kernel. */
void softrt_expect_answer(const void *function, void *const *arguments);
bool softrt_is_device_address(uint64_t address);
