/*
 * CUPTI as the way in: found at run time, one subscriber of its first interface. Callbacks of the driver's domain are
 * recorded (stack, thread, result). Records of memory and pools add modules' variables and the pools' sizes, and check
 * the callbacks.
 *
 * Callbacks run on the program's threads, in the middle of a driver's call: they call CUPTI at most, never CUDA.
 */
#ifndef MP_CAPTURE_CUDA_CUPTI_H
#define MP_CAPTURE_CUDA_CUPTI_H

#include <stdbool.h>

#include "capture/cuda/cupti_abi.h"
#include "capture/cuda/driver_calls.h"

/* The loaded library's functions; NULL for missing ones. */
struct mp_cupti {
    uint32_t version;
#define MP_CUPTI_FUNCTION(name, needed, arguments) mp_##name *name;
    MP_CUPTI_FUNCTIONS(MP_CUPTI_FUNCTION)
#undef MP_CUPTI_FUNCTION
};
extern struct mp_cupti mp_cupti;

/* cupti_library.c: finds the library and offers it as mp_cupti until one is used. Candidates come in this order: a
 * mapped one, $MEMPROF_CUPTI, $LD_LIBRARY_PATH, then toolkit, Python's packages and system. Libraries that are too old
 * or incomplete are skipped. False: none was used. */
bool mp_cupti_find(bool (*use)(void *context), void *context);

/* True if callbacks report that call: false for one that the loaded library does not know. */
bool mp_cupti_reports(enum mp_cuda_call_id id);
/* True if the path is that of this library. */
void mp_cupti_start(void); /* for the constructor */
bool mp_cupti_is_own_path(const char *path);
/* Releases CUPTI for another tool of this process (torch.profiler). The hooks, if present, continue to record. False:
 * it was not held. */
bool mp_cupti_release(void);
/* In a forked child: CUPTI is never called again. Returns whether it was held. */
bool mp_cupti_forget(void);

/* ---- cupti_records.c --------------------------------------------------------------------------------------------- */

/* Before records are asked for: maps their room. */
bool mp_cupti_records_start(void);
/* True if calls of that action have memory records, as far as known. */
bool mp_cupti_has_record(enum mp_cuda_action action);
/* A call that has succeeded: the memory records to expect, and the code whose variables they will report. */
struct mp_cuda_visit;
void mp_cupti_expect(const struct mp_cuda_call *call, const struct mp_cupti_call *data,
                     const struct mp_cuda_visit *visit);
/* CUPTI's callbacks for buffers. */
mp_cupti_buffer_request mp_cupti_request_buffer;
mp_cupti_buffer_complete mp_cupti_take_buffer;
/* Takes one record, of at least `bytes`; in a hook or not. */
void mp_cupti_take_record(const void *record);
/* At the end, when all records are flushed: counts the expected ones that did not come. */
void mp_cupti_records_end(void);

#endif
