/*
 * The C allocator's blocks (`snapshot --host`). libmemprof-malloc.so wraps malloc() and its family and decides which
 * blocks are in the sample. It passes these blocks to libmemprof.so, which records them on the track cpu/malloc. It is
 * a separate library, preloaded only with --host: without the option no call of malloc() runs any of our code.
 *
 * The sample is Poisson by bytes (base/sampling.h), one in MP_HOST_MEAN on average. It leaves out blocks of PyTorch's
 * CPU allocator, which are on cpu/torch, so that both tracks may be added up.
 *
 * Both functions may be called in any context in which malloc() and free() may. They never allocate, keep errno, and
 * take no lock of the program's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Both libraries must be of one build; otherwise the wrappers only pass calls on. */
#define MP_HOST_VERSION 1
struct mp_host_hooks {
    uint32_t size, version;
    /* Records a block of the sample, after the allocator has returned it. `caller`: an address in the code that called
     * the wrapper. False: the block is not recorded, and freed() need not be called. */
    bool (*allocated)(void *block, size_t bytes, const void *caller);
    /* Call it for a block that may be in the sample, before the allocator frees it. True: it was in the sample. */
    bool (*freed)(void *block);
};
/* Called by the wrappers' library. From then on, stacks leave that library's frames out. NULL: nothing is recorded
 * here. */
const struct mp_host_hooks *memprof_host_v1(void);
