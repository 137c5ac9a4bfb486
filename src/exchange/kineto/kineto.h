/*
 * Kineto's Chrome traces, as torch.profiler writes them, as a model. The caching allocator's and the CPU allocators'
 * reports to the profiler ("[memory]" events) become blocks and totals. The stack of an allocation consists of the
 * operators that enclose it on its thread, and of Python functions if the trace has them. record_function and
 * ProfilerStep spans become regions and steps.
 *
 * The allocator's totals show how much was live before the trace began. One block per device stands for this memory,
 * and takes over changes of the total that have no event. Without totals its size is MP_BYTES_UNKNOWN. In traces
 * without addresses (PyTorch before 1.10) a free ends the newest live block of its size; a note says how often several
 * blocks had that size.
 */
#pragma once

#include "base/error.h"
#include "model/model.h"

/* True if `text`, the beginning of a JSON file, looks like a Kineto trace. */
bool mp_kineto_looks_like(const unsigned char *text, size_t size);

/* Reads the file, compressed with gzip or not, twice, so that memory depends only on the number of memory events. The
 * caller owns the model. Errors: MP_NOT_A_RECORDING (no trace, or no memory events), MP_DAMAGED, MP_LIMIT, MP_IO. The
 * error's text names the path and, if one byte is to blame, its offset. */
enum mp_status mp_kineto_load(const char *path, struct mp_model **model, struct mp_error *error);
