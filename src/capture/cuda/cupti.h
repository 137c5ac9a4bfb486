/*
 * CUPTI as a way to see the driver's calls. It is found at run time. The first version of its interface, which we use,
 * allows one subscriber. Callbacks of the driver's domain are recorded (stack, thread, result). CUPTI's own records of
 * memory and pools add modules' variables and the pools' sizes, and serve to check the callbacks.
 *
 * Callbacks run on the program's threads, in the middle of a driver's call. They call CUPTI at most, never CUDA.
 */
#pragma once

#include <stdbool.h>

#include "capture/cuda/cupti_abi.h"
#include "capture/cuda/driver_calls.h"

/* The loaded library's functions; missing ones are NULL. */
struct mp_cupti {
    uint32_t version;
#define MP_CUPTI_FUNCTION(name, needed, arguments) mp_##name *name;
    MP_CUPTI_FUNCTIONS(MP_CUPTI_FUNCTION)
#undef MP_CUPTI_FUNCTION
};
extern struct mp_cupti mp_cupti;

/* Finds libcupti (cupti_library.c). Calls `use` with each candidate as mp_cupti until one call returns true. A mapped
 * libcupti is the first candidate. Then come $MEMPROF_CUPTI and $LD_LIBRARY_PATH, then toolkit, Python's packages and
 * system. Libraries that are too old or incomplete are skipped. False: no candidate was used. */
bool mp_cupti_find(bool (*use)(void *context), void *context);

/* True if callbacks report that call; false if the loaded library does not know the call. */
bool mp_cupti_reports(enum mp_cuda_call_id id);
/* mp_cupti_is_own_path(): true if `path` names this library. */
void mp_cupti_start(void); /* called by the constructor */
bool mp_cupti_is_own_path(const char *path);
/* Releases CUPTI for another tool of this process (torch.profiler). If the hooks' library is loaded, it continues to
 * record. False: memprof was not its subscriber. */
bool mp_cupti_release(void);
/* Called in a forked child, where CUPTI is never called again. Returns whether the parent was its subscriber. */
bool mp_cupti_forget(void);

/* ---- cupti_records.c --------------------------------------------------------------------------------------------- */

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
