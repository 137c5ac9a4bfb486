/*
 * Stacks of a recording as lists of frames in a PyTorch snapshot: {"name", "filename", "line"}, innermost first. A
 * pickle holds each line and each stack once. One thread at a time.
 */
#ifndef MP_EXCHANGE_STACK_OUT_H
#define MP_EXCHANGE_STACK_OUT_H

#include "exchange/value_out.h"
#include "model/model.h"

struct mp_stack_out {
    const struct mp_model *model;
    struct mp_value_out *value;
    uint32_t *line_memos, *frame_memos, *stack_memos; /* numbers of what was written, by line, frame, stack */
    uint32_t cut_memo;
};

/* False where memory is short; to be freed all the same. */
bool mp_stack_out_init(struct mp_stack_out *out, const struct mp_model *model, struct mp_value_out *value);
/* Writes the stack under "frames". */
void mp_stack_out_put(struct mp_stack_out *out, uint32_t stack);
void mp_stack_out_free(struct mp_stack_out *out);

#endif
