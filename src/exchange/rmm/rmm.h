/*
 * RMM's log (logging_resource_adaptor, RMM_LOG_FILE): lines "Thread,Time,Action,Pointer,Size,Stream" with the actions
 * allocate, allocate failure and free. It has no stacks, no day and no device: ".dev1" at the end of the file's name is
 * taken for cuda:1, another name for cuda:0.
 */
#ifndef MP_EXCHANGE_RMM_H
#define MP_EXCHANGE_RMM_H

#include "exchange/common/input.h"
#include "model/model.h"

/* Whether a file that begins so is such a log. */
bool mp_rmm_looks_like(const unsigned char *text, size_t size);
/* Reads on from the input's beginning. MP_DAMAGED: a line is none of the log's; the sentence names the line and its
 * byte. MP_NOT_A_RECORDING: no line at all. */
enum mp_status mp_rmm_load(struct mp_input *input, struct mp_model **model, struct mp_error *error);

#endif
