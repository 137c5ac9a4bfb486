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
