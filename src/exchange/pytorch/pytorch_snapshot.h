/*
 * Reads PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot() and its relatives) as a model. On each device,
 * the caching allocator's blocks, with requested sizes, are on the track .../torch, and its segments on .../driver.
 * Annotations become steps and regions. Older forms (a list of segments, blocks with a history, no trace) are read,
 * too. Blocks from before the trace are the base. The coverage lists the file's gaps and contradictions.
 */
#pragma once

#include "exchange/common/input.h"
#include "model/model.h"

/* `input` must be at its first byte. Errors are those of mp_exchange_load_any(). */
enum mp_status mp_pytorch_load_pickle(struct mp_input *input, struct mp_model **model, struct mp_error *error);
enum mp_status mp_pytorch_load_json(struct mp_input *input, struct mp_model **model, struct mp_error *error);
