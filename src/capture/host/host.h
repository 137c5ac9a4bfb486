/*
 * The C allocator's blocks (`snapshot --host`): libmemprof-malloc.so wraps malloc() and its family, decides which
 * blocks are in the sample, and hands those to libmemprof.so, which records them on the track cpu/malloc. It is a
 * library of its own, preloaded only with --host: without the option no call of malloc() meets any of our code.
 *
 * The sample is Poisson by bytes (base/sampling.h), one in MP_HOST_MEAN on average. Blocks of PyTorch's CPU allocator
 * are left out where the recorder has them on cpu/torch: both tracks may be added up.
 *
 * Both functions may be called in any context in which malloc() and free() may. They never allocate, keep errno, and
 * take no lock of the program's.
 */
#ifndef MP_CAPTURE_HOST_H
#define MP_CAPTURE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Both libraries must be of one build, or the wrappers only pass calls on. */
#define MP_HOST_VERSION 1
struct mp_host_hooks {
    uint32_t size, version;
    /* A block of the sample, after the allocator has returned it. `caller`: an address in the code that called the
     * wrapper. False: it is not recorded, and freed() need not be called. */
    bool (*allocated)(void *block, size_t bytes, const void *caller);
    /* A block that may be of the sample, before the allocator gets it back. True: it was. */
    bool (*freed)(void *block);
};
/* NULL: nothing is recorded here. For the wrappers' library, whose frames are left out of stacks from then on. */
const struct mp_host_hooks *memprof_host_v1(void);

#endif
