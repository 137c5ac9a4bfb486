/*
 * The driver as a program of the tests has it, by one of the ways that programs have:
 *
 *     linked      -lcuda (only in a program built with DRIVER_LINKED)
 *     dlopen      dlopen() and dlsym() of each symbol
 *     lookup      dlsym() of cuGetProcAddress_v2, then all through what that gives for "cuGetProcAddress", as the CUDA
 *                 runtime does since 12.0
 *     lookup_v1   the same through the form with four arguments, as the runtimes of 11.3 to 11.8
 *     threads     like lookup, with per-thread default streams: the _ptsz forms
 */
#pragma once

#include "softgpu/driver_calls.h"
#include "softgpu/softgpu.h"

struct driver_api {
#define MEMBER(name, version, mode, symbol, cbid, signature) CUresult(*symbol) signature;
    DRIVER_CALLS(MEMBER)
#undef MEMBER
    void (*live)(struct softgpu_digest *of); /* softgpu.h */
    void (*flush)(void);
    const char *(*class_name)(enum soft_class class);
};

extern struct driver_api driver;

/* Opens the driver. Ends the program with status 3 if a function is missing. */
void driver_open(const char *way);

/* Ends the program with status 4 if `result` is not `right`. */
void driver_check(CUresult result, CUresult right, const char *file, int line);
#define CHECK(call)           driver_check((call), CUDA_SUCCESS, __FILE__, __LINE__)
#define CHECK_FAILS(call, as) driver_check((call), (as), __FILE__, __LINE__)
