/*
 * The memory data of Nsight Systems' SQLite export. CUDA_GPU_MEMORY_USAGE_EVENTS of the process that has most of them
 * become blocks. CUDA_GPU_MEMORY_POOL_EVENTS become the bytes of stream-ordered pools. NVTX ranges and marks become
 * regions and marks. The CUDA call, with its backtrace if there is one, becomes the stack. Columns that some version of
 * the export lacks are optional. The file is only read; its views and triggers are not used.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "model/model.h"

/* True if `text`, the beginning of a file, is that of an SQLite database. */
bool mp_sqlite_begins(const unsigned char *text, size_t size);
/* MP_NOT_A_RECORDING: no export of Nsight Systems, or one without memory events (the error has advice); MP_DAMAGED,
 * MP_IO. */
enum mp_status mp_nsys_load(const char *path, struct mp_model **model, struct mp_error *error);
