/*
 * RMM's log (logging_resource_adaptor, RMM_LOG_FILE): lines "Thread,Time,Action,Pointer,Size,Stream" with the actions
 * allocate, allocate failure and free. It has no stacks, no day and no device: ".dev1" at the end of the file's name
 * means cuda:1, any other name cuda:0.
 */
#pragma once

#include "exchange/common/input.h"
#include "model/model.h"

/* True if `text`, the beginning of a file, looks like RMM's log. */
bool mp_rmm_looks_like(const unsigned char *text, size_t size);
/* Reads the input from its beginning. MP_DAMAGED: a line does not fit the log; the error names the line and its byte.
 * MP_NOT_A_RECORDING: there is no line. */
enum mp_status mp_rmm_load(struct mp_input *input, struct mp_model **model, struct mp_error *error);
