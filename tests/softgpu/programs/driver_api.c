#include "softgpu/programs/driver_api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct driver_api driver;

enum { PLAIN, THREAD };

struct function {
    const char *name;
    int version, mode;
    const char *symbol;
    void **to;
};

static const struct function functions[] = {
#define ROW(name, version, mode, symbol, cbid, signature) {#name, version, mode, #symbol, (void **)&driver.symbol},
    DRIVER_CALLS(ROW)
#undef ROW
};
#define FUNCTIONS (sizeof functions / sizeof functions[0])

static void *needed(void *found, const char *what)
{
    if (found) return found;
    fprintf(stderr, "%s: not found\n", what);
    exit(3);
}

static void by_symbol(void *library)
{
    for (size_t i = 0; i < FUNCTIONS; i++)
        *functions[i].to = needed(dlsym(library, functions[i].symbol), functions[i].symbol);
}

/* Each form by its own name, version and kind of stream; `threads`: plain symbols get the per-thread forms, too. */
static void by_lookup(void *library, bool threads)
{
    CUresult (*look_up)(const char *, void **, int, uint64_t, CUdriverProcAddressQueryResult *);
    void *found = needed(dlsym(library, "cuGetProcAddress_v2"), "cuGetProcAddress_v2");
    memcpy(&look_up, &found, sizeof found);
    if (look_up("cuGetProcAddress", &found, 12000, 0, NULL) != CUDA_SUCCESS) exit(3);
    memcpy(&look_up, &found, sizeof found);
    for (size_t i = 0; i < FUNCTIONS; i++) {
        const struct function *function = &functions[i];
        CUdriverProcAddressQueryResult status;
        uint64_t flags = threads || function->mode == THREAD ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
        look_up(function->name, function->to, function->version, flags, &status);
        needed(status == CU_GET_PROC_ADDRESS_SUCCESS ? *function->to : NULL, function->symbol);
    }
}

static void by_lookup_v1(void *library)
{
    CUresult (*look_up)(const char *, void **, int, uint64_t);
    void *found = needed(dlsym(library, "cuGetProcAddress"), "cuGetProcAddress");
    memcpy(&look_up, &found, sizeof found);
    if (look_up("cuGetProcAddress", &found, 11030, 0) != CUDA_SUCCESS) exit(3);
    memcpy(&look_up, &found, sizeof found);
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (look_up(functions[i].name, functions[i].to, functions[i].version,
                    functions[i].mode == THREAD ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0) != CUDA_SUCCESS)
            needed(NULL, functions[i].symbol);
}

void driver_open(const char *way)
{
#ifdef DRIVER_LINKED
    if (!strcmp(way, "linked")) {
#    define LINKED(name, version, mode, symbol, cbid, signature) driver.symbol = symbol;
        DRIVER_CALLS(LINKED)
        driver.live = softgpu_live;
        driver.flush = softgpu_flush;
        driver.class_name = softgpu_class_name;
        return;
    }
#endif
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    if (!strcmp(way, "dlopen"))
        by_symbol(library);
    else if (!strcmp(way, "lookup"))
        by_lookup(library, false);
    else if (!strcmp(way, "threads"))
        by_lookup(library, true);
    else if (!strcmp(way, "lookup_v1"))
        by_lookup_v1(library);
    else
        exit(2);
    *(void **)&driver.live = needed(dlsym(library, "softgpu_live"), "softgpu_live");
    *(void **)&driver.flush = needed(dlsym(library, "softgpu_flush"), "softgpu_flush");
    *(void **)&driver.class_name = needed(dlsym(library, "softgpu_class_name"), "softgpu_class_name");
}

void driver_check(CUresult result, CUresult right, const char *file, int line)
{
    if (result == right) return;
    fprintf(stderr, "%s:%d: CUDA error %d, not %d\n", file, line, result, right);
    exit(4);
}
