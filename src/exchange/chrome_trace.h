/*
 * Chrome's trace format, for chrome://tracing and Perfetto: counter tracks per device and layer (allocated, reserved),
 * sampled counters, steps and regions as slices, names of process and threads. Times are microseconds with three
 * decimals since baseTimeNanoseconds (Unix time of the recording's start), as PyTorch's profiler writes them.
 */
#ifndef MP_EXCHANGE_CHROME_TRACE_H
#define MP_EXCHANGE_CHROME_TRACE_H

#include <stdio.h>

#include "base/error.h"
#include "model/model.h"

/* Writes to `out`, which stays open; gzip-compressed where `compress` says so. A counter that changes more than a
 * million times is thinned: of each short time its first, highest, lowest and last value stay, so that no peak is lost.
 * MP_IO where a write failed, MP_NO_MEMORY. */
enum mp_status mp_chrome_trace_write(const struct mp_model *model, bool compress, FILE *out, struct mp_error *error);

#endif
