/*
 * Passes the PyTorch shim's readings of PyTorch's own history and segments to the collector (wire/record.h). Bulk data,
 * outside of any allocator's lock: records that do not fit into the ring wait for the collector between two hooks, as
 * long as that takes some every tenth of a second; else the rest is left out, which the collector sees by the count.
 * Nothing counts as dropped.
 */
#ifndef MP_CAPTURE_TORCH_HISTORY_H
#define MP_CAPTURE_TORCH_HISTORY_H

#include <stddef.h>
#include <stdint.h>

/* Rows of six numbers each, as memprof_api_v1.torch_history takes them. 0: taken (of no rows: they are wanted); 1: not
 * all of them; -1: not wanted, or nothing is recorded. */
int mp_torch_history(const uint64_t *rows, size_t count);

/* Callbacks at regions that PyTorch adds for this thread while a history begins (capture/torch/annotations.c); as
 * `count` where there are no rows. */
enum mp_torch_annotations { MP_ANNOTATIONS_KEEP_BACK = 1, MP_ANNOTATIONS_LET_BE, MP_ANNOTATIONS_ADD };
void mp_torch_annotations(enum mp_torch_annotations what);

#endif
