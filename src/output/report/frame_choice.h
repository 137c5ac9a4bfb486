/* Chooses the calls of a stack that show what was done, or in which the stack differs from another. */
#pragma once

#include "base/buffer.h"
#include "model/stack.h"

/* Appends a function's name without return type, parameters and template arguments. "at::Tensor at::native::(anonymous
 * namespace)::fill<float>(at::Tensor const&, int)" becomes "at::native::(anonymous namespace)::fill". */
void mp_function_name(struct mp_buffer *out, const char *function);
/* True if the line is a function that calls main(). */
bool mp_line_is_start(const struct mp_stack_line *line);
/* True if a native frame shows what was done, and not how memory is made or calls are passed on. */
bool mp_line_is_meaningful(const struct mp_stack_line *line);

/* Appends the call in which `stack` differs from `twin`, another stack; nothing if no such call has a name. */
void mp_difference_text(struct mp_buffer *out, const struct mp_model *model, uint32_t stack, uint32_t twin);
