/*
 * libmemprof-hooks.so: the driver's calls, seen without CUPTI. It is a library of its own, preloaded only where there
 * is a libcuda. It wraps the driver's exported functions, and dlsym() and cuGetProcAddress(), through which all other
 * callers find them (NVIDIA's runtime looks up nothing else). It also wraps dlclose(), and pins the driver before it.
 * Wrappers hand over to libmemprof.so, which does the booking.
 *
 * Never allocates, prints or ends the program. Outside of any hook, on the program's own thread, it asks the driver
 * only questions that a wrapper's caller could ask there, too.
 */
#ifndef MP_CAPTURE_HOOKS_HOOKS_H
#define MP_CAPTURE_HOOKS_HOOKS_H

#include "capture/cuda/front.h"

/* dlsym.c: the C library's own. */
void *mp_hooks_dlsym(void *handle, const char *name);
/* Called by the wrapper of dlsym(): the answer to give instead, or NULL. */
__attribute__((visibility("hidden"))) void *mp_hooks_look_up(void *handle, const char *name);

/* lookup.c: the wrapper of a symbol that the handle's libraries have; NULL where we have none, or the symbol is
 * missing. */
void *mp_hooks_wrap_symbol(void *handle, const char *name);
/* For the constructor. */
void mp_hooks_find_linked(void);
/* The function that a wrapper calls; NULL: there is no driver. */
void *mp_hooks_real(enum mp_cuda_call_id id);
/* Another function of the driver that the wrappers' calls go to. */
void *mp_hooks_function_of_driver(const char *name);

/* wrappers.c: whether the constructor has run. */
bool mp_hooks_started(void);
/* By row. */
extern void *const mp_hooks_wrappers[MP_CUDA_CALL_COUNT];

/* ask.c: collects the facts that libmemprof.so needs about a call that has returned. */
void mp_hooks_ask(const struct mp_hook_call *call, int result, struct mp_cuda_facts *facts);
/* Reports the devices' UUIDs, once in a process's life. */
void mp_hooks_report_devices(const struct mp_cuda_hooks *recorder);

#endif
