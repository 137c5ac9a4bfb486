/* Which calls of a stack tell what was done, and how stacks that look alike in short form are told apart. */
#ifndef MP_OUTPUT_FRAME_CHOICE_H
#define MP_OUTPUT_FRAME_CHOICE_H

#include "analysis/sites/sites.h"
#include "model/stack.h"

/* How much of a C++ name tells: up to its parameters or template arguments, at most 60 characters. */
int mp_function_short(const char *function);
/* Functions that call main(). */
bool mp_line_is_start(const struct mp_stack_line *line);
/* Whether a native frame says what was being done, rather than how memory is made or calls are passed on. */
bool mp_line_is_meaningful(const struct mp_stack_line *line);

/* Of the first `rows` sites, a stack that mp_site_text() shows as it does theirs; MP_NONE where theirs is unlike all
 * others. The caller frees it; NULL where memory is short. */
uint32_t *mp_site_twins(const struct mp_model *model, const struct mp_sites *sites, size_t rows);
/* The call in which a stack differs from its twin; nothing where none has a name. */
void mp_difference_text(struct mp_buffer *out, const struct mp_model *model, uint32_t stack, uint32_t twin);

#endif
