/*
 * A recording as a Chrome trace, for Perfetto, chrome://tracing and TensorBoard's PyTorch plugin, in the form of
 * PyTorch's own profiler: counters of each track and of samples, "[memory]" and "[OutOfMemory]" events of each device's
 * uppermost layer, steps and regions as annotations, names of processes and threads. The form has no place for stacks,
 * kinds of memory, blocks of other layers, or coverage.
 */
#pragma once

#include <stdio.h>

#include "base/error.h"
#include "export/chrome_merge.h"
#include "model/model.h"
#include "model/window.h"

/* From a recording with more memory events, none are written: readers pair all of them in memory. */
#define MP_CHROME_MEMORY_MAX 1000000

struct mp_chrome_query {
    const struct mp_model *model;
    struct mp_window window;
    bool compress;
    const struct mp_chrome_input *merge; /* into a copy of this trace; NULL: a trace of its own */
};

/* *left_out is the number of memory events that are left out because of the limit, else 0. With `merge`, only data that
 * the trace lacks is added: counters, names of devices' rows, and memory events if it has none. The query's window
 * should be inside of the trace's. Errors: MP_IO, and with `merge` those of chrome_merge.h. */
enum mp_status mp_chrome_trace_write(const struct mp_chrome_query *query, FILE *out, uint64_t *left_out,
                                     struct mp_error *error);
