/* CUPTI's own records of memory and pools: they add variables of modules and sizes of pools, and check the callbacks.
 */
#pragma once

#include <stdbool.h>

#include "capture/cuda/cupti_abi.h"
#include "capture/cuda/driver_calls.h"

/* Maps the memory for records. Call it before records are requested. */
bool mp_cupti_records_start(void);
/* True if CUPTI makes memory records for calls of that action, as far as we know. */
bool mp_cupti_has_record(enum mp_cuda_action action);
/* Called when a call has succeeded: remembers which memory records must come, and the code whose variables will be
 * reported. */
struct mp_cuda_visit;
void mp_cupti_expect(const struct mp_cuda_call *call, const struct mp_cupti_call *data,
                     const struct mp_cuda_visit *visit);
/* Callbacks by which CUPTI gets and returns buffers. */
mp_cupti_buffer_request mp_cupti_request_buffer;
mp_cupti_buffer_complete mp_cupti_take_buffer;
/* Takes one record. May be called inside or outside a hook. */
void mp_cupti_take_record(const void *record);
/* Called at the end, when all records are flushed: counts the expected records that did not come. */
void mp_cupti_records_end(void);
