/*
 * libmemprof-hooks.so sees the driver's calls without CUPTI. It is a separate library, preloaded only on machines with
 * a libcuda. It wraps the driver's exported functions. It also wraps dlsym() and cuGetProcAddress(), through which all
 * other callers find these functions, NVIDIA's runtime among them. Its dlclose() first pins the driver. Wrappers pass
 * each call to libmemprof.so, which does the booking.
 *
 * Never allocates, prints or ends the program. It asks the driver questions only outside of any hook, on the program's
 * own thread. The caller of the wrapper could ask the same questions at that moment.
 */
#pragma once

#include "capture/cuda/front.h"

/* dlsym.c: the C library's own dlsym(). */
void *mp_hooks_dlsym(void *handle, const char *name);
/* Called by the wrapper of dlsym(). Returns our wrapper for that name, or NULL to let the look-up continue. */
__attribute__((visibility("hidden"))) void *mp_hooks_look_up(void *handle, const char *name);

/* lookup.c: the wrapper of a symbol that the handle's libraries define. NULL: we have no wrapper for the symbol, or the
 * symbol is missing. */
void *mp_hooks_wrap_symbol(void *handle, const char *name);
/* Called by the constructor. */
void mp_hooks_find_linked(void);
/* The driver's function that a wrapper calls. NULL: there is no driver. */
void *mp_hooks_real(enum mp_cuda_call_id id);
/* A function of the driver that has no wrapper, from the same library as the wrapped ones. */
void *mp_hooks_function_of_driver(const char *name);

/* wrappers.c: true once the constructor has run. */
bool mp_hooks_started(void);
/* The wrappers, by row of driver_calls.h. */
extern void *const mp_hooks_wrappers[MP_CUDA_CALL_COUNT];

/* ask.c: collects the facts that libmemprof.so needs about a call that has returned. */
void mp_hooks_ask(const struct mp_hook_call *call, int result, struct mp_cuda_facts *facts);
/* Reports the devices' UUIDs, once in a process's life. */
void mp_hooks_report_devices(const struct mp_cuda_hooks *recorder);
