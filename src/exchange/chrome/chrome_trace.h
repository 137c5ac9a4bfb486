/*
 * A recording as a Chrome trace, for Perfetto, chrome://tracing and TensorBoard's PyTorch plugin, in the form of
 * PyTorch's own profiler: counters of each track and of samples, "[memory]" and "[OutOfMemory]" events of each device's
 * uppermost layer, steps and regions as annotations, names of processes and threads. The form has no place for stacks,
 * kinds of memory, other layers' blocks, or coverage.
 */
#ifndef MP_EXCHANGE_CHROME_TRACE_H
#define MP_EXCHANGE_CHROME_TRACE_H

#include <stdio.h>

#include "base/error.h"
#include "exchange/chrome/chrome_merge.h"
#include "model/model.h"
#include "model/window.h"

/* Further memory events are left out: readers pair all of them in memory. */
#define MP_CHROME_MEMORY_MAX 1000000

struct mp_chrome_query {
    const struct mp_model *model;
    struct mp_window window;
    bool compress;
    const struct mp_chrome_input *merge; /* into a copy of this trace; NULL: a trace of its own */
};

/* *left_out: memory events beyond the limit. With `merge` only data that the trace lacks is added: counters, names of
 * devices' rows, memory events where it has none; the window should lie in the trace's. MP_IO, and for
 * the copied trace the errors of chrome_merge.h. */
enum mp_status mp_chrome_trace_write(const struct mp_chrome_query *query, FILE *out, uint64_t *left_out,
                                     struct mp_error *error);

#endif
