/*
 * Nsight Systems' SQLite export, as far as it tells of memory: CUDA_GPU_MEMORY_USAGE_EVENTS as blocks (of the process
 * that has most of them), CUDA_GPU_MEMORY_POOL_EVENTS as what stream-ordered pools hold, NVTX ranges and marks as
 * regions and marks, and the CUDA call with its backtrace, where there is one, as the stack. Columns that a version of
 * the export does not have are done without. The file is only read; views and triggers in it are not used.
 */
#ifndef MP_EXCHANGE_NSYS_H
#define MP_EXCHANGE_NSYS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "model/model.h"

/* Whether a file that begins so is an SQLite database, of whatever. */
bool mp_sqlite_begins(const unsigned char *text, size_t size);
/* MP_NOT_A_RECORDING: no such export, or one without memory events, and what to do about it; MP_DAMAGED, MP_IO,
 * MP_NO_MEMORY. */
enum mp_status mp_nsys_load(const char *path, struct mp_model **model, struct mp_error *error);

#endif
