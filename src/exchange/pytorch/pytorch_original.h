/*
 * Writes a recording that was made from a PyTorch snapshot as a snapshot again: every key that the file had, with its
 * value. For pytorch_export.c. One thread at a time.
 */
#ifndef MP_EXCHANGE_PYTORCH_ORIGINAL_H
#define MP_EXCHANGE_PYTORCH_ORIGINAL_H

#include "exchange/pytorch/value_out.h"

bool mp_pytorch_has_original(const struct mp_model *model);
/* Writes the whole original. */
void mp_pytorch_put_original(const struct mp_model *model, struct mp_value_out *value, struct mp_stack_out *stacks);

#endif
