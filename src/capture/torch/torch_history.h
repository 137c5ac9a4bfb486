/*
 * Passes the PyTorch shim's readings of PyTorch's own history and segments to the collector (wire/record.h). These are
 * many records, made without any allocator's lock. If they do not fit into the ring, the call waits between two hooks,
 * as long as the collector takes some records every tenth of a second. If it does not, the rest is left out. The
 * collector sees from the count that rows are missing; nothing counts as dropped.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "capture/core/front.h"

/* Takes rows of six numbers each. memprof_api_v1.torch_history (include/memprof.h) describes rows and results. */
int mp_torch_history(const uint64_t *rows, size_t count);

/* Actions for callbacks at regions that PyTorch adds for this thread while a history begins
 * (at the end of torch_history.c): the value of `count` if there are no rows. */
enum mp_torch_annotations { MP_ANNOTATIONS_KEEP_BACK = 1, MP_ANNOTATIONS_LET_BE, MP_ANNOTATIONS_ADD };
void mp_torch_annotations(enum mp_torch_annotations action);

extern const struct mp_front mp_annotations_front;
