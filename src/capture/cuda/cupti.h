/*
 * CUPTI as a way to see the driver's calls. It is found at run time. The first version of its interface, which we use,
 * allows one subscriber. Callbacks of the driver's domain are recorded (stack, thread, result). CUPTI's own records of
 * memory and pools add modules' variables and the pools' sizes, and serve to check the callbacks.
 *
 * Callbacks run on the program's threads, in the middle of a driver's call. They call CUPTI at most, never CUDA.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "capture/core/front.h"
#include "capture/cuda/booking.h"
#include "capture/cuda/cupti_abi.h"
#include "capture/cuda/driver_calls.h"

/* True if callbacks report that call; false if the loaded library does not know the call. */
bool mp_cupti_reports(enum mp_cuda_call_id id);
/* True if `path` names this library. */
bool mp_cupti_is_own_path(const char *path);
/* Releases CUPTI for another tool of this process (torch.profiler). If the hooks' library is loaded, it continues to
 * record. False: memprof was not its subscriber. */
bool mp_cupti_release(void);
/* Called in a forked child, where CUPTI is never called again. Returns whether the parent was its subscriber. */
bool mp_cupti_forget(void);

/* Who records the driver's calls: CUPTI if it is free and wanted, else the hooks of libmemprof-hooks.so, else
 * nobody. */
enum mp_cuda_front { MP_FRONT_UNDECIDED, MP_FRONT_CUPTI, MP_FRONT_HOOKS, MP_FRONT_NOBODY };
extern _Atomic int mp_cuda_front; /* enum mp_cuda_front */

/* CUPTI is missing or was released: from now on the hooks record, if they are loaded and wanted. Adds a note with the
 * reason and the outcome. */
void mp_cuda_without_cupti(const char *reason);

/* Facts about a thread that CUPTI's callbacks remember. */
#define MP_CUPTI_VISITS 4
struct mp_cupti_thread {
    uint32_t enters, exits; /* number of enters and exits of calls that callbacks reported */
    bool captured;          /* an alloc node was made since the enter of the current call */
    struct mp_cuda_visit visits[MP_CUPTI_VISITS];
};
struct mp_cupti_thread *mp_cupti_thread(struct mp_thread *thread); /* NULL if `thread` is NULL */

extern const struct mp_front mp_cupti_front;
