/* Values that are known, followed through copies and reductions. */
#pragma once

#include <stdint.h>

#include "softgpu/runtime/runtime.h"

/* How truths.c follows a kernel of that name; 0: not at all. Called once for each kernel. */
int softrt_follow_of(const char *name);

/* Called when the thread launches a kernel that is followed. `written`: what a kernel writes that no row knows. Returns
 * the result; *at gets its address, if that is known. */
enum softrt_truth softrt_follow_truths(int follow, const char *name, void *const *arguments, enum softrt_truth written,
                                       uint64_t *at);

/* Called when the thread sets memory. */
void softrt_forget_truth(const void *at);

/* Called when the thread copies one tensor to another. */
void softrt_copy_truths(const void *to, const void *from);

/* Called when the thread launches a reduction to booleans (all, any). Returns its result, or `otherwise` if that is
 * unknown. */
enum softrt_truth softrt_reduce_truths(void *const *arguments, enum softrt_truth otherwise, uint64_t *at);
