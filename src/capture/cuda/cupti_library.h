/* The loaded libcupti, and the search for it. */
#pragma once

#include <stdbool.h>

#include "capture/cuda/cupti_abi.h"

/* The loaded library's functions; missing ones are NULL. */
struct mp_cupti {
    uint32_t version;
#define MP_CUPTI_FUNCTION(name, needed, arguments) mp_##name *name;
    MP_CUPTI_FUNCTIONS(MP_CUPTI_FUNCTION)
#undef MP_CUPTI_FUNCTION
};
extern struct mp_cupti mp_cupti;

/* Finds libcupti. Calls `use` with each candidate as mp_cupti until one call returns true. A mapped
 * libcupti is the first candidate. Then come $MEMPROF_CUPTI and $LD_LIBRARY_PATH, then toolkit, Python's packages and
 * system. Libraries that are too old or incomplete are skipped. False: no candidate was used. */
bool mp_cupti_find(bool (*use)(void *context), void *context);
