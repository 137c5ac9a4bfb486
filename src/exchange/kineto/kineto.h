/*
 * Kineto's Chrome traces, as torch.profiler writes them, as a model. The caching allocator's and the CPU allocators'
 * reports to the profiler ("[memory]" events) become blocks and totals. The operators, and the Python functions where
 * they were recorded, that enclose an allocation on its thread become its stack. record_function and ProfilerStep spans
 * become regions and steps.
 *
 * The allocator's totals show how much was live before the trace began: one block per device, of unknown identity,
 * which also absorbs changes without an event. Without totals its size is MP_BYTES_UNKNOWN. In traces without addresses
 * (PyTorch before 1.10) a free ends the newest live block of its size; a note says how often others would have fitted.
 */
#ifndef MP_EXCHANGE_KINETO_H
#define MP_EXCHANGE_KINETO_H

#include "base/error.h"
#include "model/model.h"

/* True if the beginning of a JSON file looks like such a trace. */
bool mp_kineto_looks_like(const unsigned char *text, size_t size);

/* Reads the file twice, so that memory is bounded by the memory events; gzip or not. The caller owns the model.
 * MP_NOT_A_RECORDING: no trace, or one without memory events; MP_DAMAGED, MP_LIMIT, MP_IO. The sentence
 * names path and, where one byte is to blame, its offset. */
enum mp_status mp_kineto_load(const char *path, struct mp_model **model, struct mp_error *error);

#endif
