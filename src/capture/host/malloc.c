/*
 * libmemprof-malloc.so: the C allocator's functions, wrapped (host.h). For a block outside the sample, an allocation
 * costs a subtraction, and a free costs one look into a table of counts.
 *
 * The loader calls malloc() before any constructor runs, and dlsym() allocates. The first call therefore finds the next
 * definitions in the loader's list (capture/native/loaded.h). These are jemalloc's or tcmalloc's if one of them was
 * preloaded or linked, else the C library's. A program that links an allocator of its own statically never calls our
 * functions.
 */
#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/core/sampling.h"
#include "capture/host/host.h"
#include "capture/native/loaded.h"
#include "wire/config.h"

/* A process is recorded only after this many samples (some 8 MiB): shells and other small programs end earlier. */
#define PASSED_OVER 16

#define EXPORTED            __attribute__((visibility("default")))
#define UNLIKELY(condition) __builtin_expect(condition, 0)

/* C++'s operators: mangled name, parameters, arguments. */
#define OPERATORS_NEW(F)                                                                                               \
    F(_Znwm, (size_t bytes), (bytes))                                                                                  \
    F(_Znam, (size_t bytes), (bytes))                                                                                  \
    F(_ZnwmRKSt9nothrow_t, (size_t bytes, const void *nothrow), (bytes, nothrow))                                      \
    F(_ZnamRKSt9nothrow_t, (size_t bytes, const void *nothrow), (bytes, nothrow))                                      \
    F(_ZnwmSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment))                                      \
    F(_ZnamSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment))                                      \
    F(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t alignment, const void *nothrow),                       \
      (bytes, alignment, nothrow))                                                                                     \
    F(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t alignment, const void *nothrow),                       \
      (bytes, alignment, nothrow))
#define OPERATORS_DELETE(F)                                                                                            \
    F(_ZdlPv, (void *block), (block))                                                                                  \
    F(_ZdaPv, (void *block), (block))                                                                                  \
    F(_ZdlPvm, (void *block, size_t bytes), (block, bytes))                                                            \
    F(_ZdaPvm, (void *block, size_t bytes), (block, bytes))                                                            \
    F(_ZdlPvRKSt9nothrow_t, (void *block, const void *nothrow), (block, nothrow))                                      \
    F(_ZdaPvRKSt9nothrow_t, (void *block, const void *nothrow), (block, nothrow))                                      \
    F(_ZdlPvSt11align_val_t, (void *block, size_t alignment), (block, alignment))                                      \
    F(_ZdaPvSt11align_val_t, (void *block, size_t alignment), (block, alignment))                                      \
    F(_ZdlPvmSt11align_val_t, (void *block, size_t bytes, size_t alignment), (block, bytes, alignment))                \
    F(_ZdaPvmSt11align_val_t, (void *block, size_t bytes, size_t alignment), (block, bytes, alignment))                \
    F(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *nothrow),                       \
      (block, alignment, nothrow))                                                                                     \
    F(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *nothrow),                       \
      (block, alignment, nothrow))

/* The C family: return type, name, parameters. */
#define FAMILY(F)                                                                                                      \
    F(void *, malloc, (size_t))                                                                                        \
    F(void *, calloc, (size_t, size_t))                                                                                \
    F(void *, realloc, (void *, size_t))                                                                               \
    F(void, free, (void *))                                                                                            \
    F(int, posix_memalign, (void **, size_t, size_t))                                                                  \
    F(void *, aligned_alloc, (size_t, size_t))                                                                         \
    F(void *, memalign, (size_t, size_t))                                                                              \
    F(void *, valloc, (size_t))                                                                                        \
    F(void *, pvalloc, (size_t))

static struct {
#define MEMBER(type, name, parameters) type(*name) parameters;
    FAMILY(MEMBER)
#undef MEMBER
} next;
static _Atomic bool are_found;

/* Several threads may run this at once: all find the same functions. */
static __attribute__((noinline)) void find_next(void)
{
    struct mp_loaded loaded;
    void *found;
#define FIND(type, name, parameters)                                                                                   \
    found = mp_loaded_next(#name, &loaded) ? mp_loaded_symbol(&loaded, #name) : NULL;                                  \
    memcpy(&next.name, &found, sizeof found);
    FAMILY(FIND)
#undef FIND
    atomic_store_explicit(&are_found, true, memory_order_release);
}

static inline void need_next(void)
{
    if (UNLIKELY(!atomic_load_explicit(&are_found, memory_order_acquire))) find_next();
}

/* ---- the sample ---- */

static __thread struct {
    struct mp_sampler sampler;
    bool started;
    uintptr_t inside; /* the frame that called the recorder (whose own allocations do not count); 0: none */
} mine;

/* True while the recorder runs. A frame further out than `inside` shows that a signal handler's jump left the
 * recorder. */
static bool is_inside(void)
{
    return (uintptr_t)__builtin_frame_address(0) < mine.inside;
}

/* How many blocks of the sample begin in a page of 4 KiB, or in a page that is a multiple of 1 GiB away. A full count
 * stays full. Neighbouring pages share a cache line. The sample has about one block in each 512 KiB of a heap, so few
 * frees of other blocks find a count. */
#define PAGES 0x40000
static _Atomic unsigned char living[PAGES];

static inline _Atomic unsigned char *place_of(const void *block)
{
    return &living[(uintptr_t)block >> 12 & (PAGES - 1)];
}

static void count_living(const void *block, int by)
{
    _Atomic unsigned char *place = place_of(block);
    unsigned char now = atomic_load_explicit(place, memory_order_relaxed);
    while (now != UCHAR_MAX && !atomic_compare_exchange_weak_explicit(place, &now, (unsigned char)(now + by),
                                                                      memory_order_relaxed, memory_order_relaxed))
        ;
}

__attribute__((weak)) const struct mp_host_hooks *memprof_host_v1(void);

static const struct mp_host_hooks *recorder(void)
{
    const struct mp_host_hooks *hooks = memprof_host_v1 ? memprof_host_v1() : NULL;
    return hooks && hooks->size == sizeof *hooks && hooks->version == MP_HOST_VERSION ? hooks : NULL;
}

static void start_sampler(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t seed = (uint64_t)now.tv_nsec << 20 ^ (uint64_t)now.tv_sec ^ (uintptr_t)&mine << 16;
    mp_sampler_start(&mine.sampler, seed, MP_HOST_MEAN);
    mine.started = true;
}

/* Called when the thread's countdown of bytes is over: the sample may take this block. */
static __attribute__((noinline)) void look_at(void *block, size_t bytes, const void *caller)
{
    static _Atomic uint32_t passed_over;
    if (!mine.started) {
        start_sampler();
        if (mp_sampler_passes(&mine.sampler, bytes)) return;
    }
    mp_sampler_next(&mine.sampler, MP_HOST_MEAN);
    if (is_inside()) return;
    if (atomic_load_explicit(&passed_over, memory_order_relaxed) < PASSED_OVER) {
        atomic_fetch_add_explicit(&passed_over, 1, memory_order_relaxed);
        return;
    }
    mine.inside = (uintptr_t)__builtin_frame_address(0);
    const struct mp_host_hooks *hooks = recorder();
    if (hooks && hooks->allocated(block, bytes, caller)) count_living(block, 1);
    mine.inside = 0;
}

static inline void *allocated(void *block, size_t bytes, const void *caller)
{
    if (block && UNLIKELY(!mp_sampler_passes(&mine.sampler, bytes))) look_at(block, bytes, caller);
    return block;
}

static __attribute__((noinline)) void look_at_free(void *block)
{
    if (is_inside()) return;
    mine.inside = (uintptr_t)__builtin_frame_address(0);
    const struct mp_host_hooks *hooks = recorder();
    if (hooks && hooks->freed(block)) count_living(block, -1);
    mine.inside = 0;
}

static inline void freed(void *block)
{
    if (UNLIKELY(atomic_load_explicit(place_of(block), memory_order_relaxed))) look_at_free(block);
}

/* ---- the wrappers ---- */

#define CALLER __builtin_return_address(0)

EXPORTED void *malloc(size_t bytes)
{
    need_next();
    return allocated(next.malloc(bytes), bytes, CALLER);
}

EXPORTED void *calloc(size_t count, size_t each)
{
    need_next();
    return allocated(next.calloc(count, each), count * each, CALLER);
}

/* A realloc() counts as a free and a new block, even if the block keeps its address. The free comes first, because
 * another thread may get the old address before this call returns. If the allocator has no room for the new size, the
 * block still counts as freed. */
EXPORTED void *realloc(void *block, size_t bytes)
{
    need_next();
    if (block) freed(block);
    return allocated(next.realloc(block, bytes), bytes, CALLER);
}

EXPORTED void free(void *block)
{
    need_next();
    if (block) freed(block);
    next.free(block);
}

EXPORTED int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    need_next();
    int failed = next.posix_memalign(block, alignment, bytes);
    if (!failed) allocated(*block, bytes, CALLER);
    return failed;
}

EXPORTED void *aligned_alloc(size_t alignment, size_t bytes)
{
    need_next();
    return allocated(next.aligned_alloc(alignment, bytes), bytes, CALLER);
}

EXPORTED void *memalign(size_t alignment, size_t bytes)
{
    need_next();
    return allocated(next.memalign(alignment, bytes), bytes, CALLER);
}

EXPORTED void *valloc(size_t bytes)
{
    need_next();
    return allocated(next.valloc(bytes), bytes, CALLER);
}

EXPORTED void *pvalloc(size_t bytes)
{
    need_next();
    return allocated(next.pvalloc(bytes), bytes, CALLER);
}

/* The C++ library's operators call malloc() and free(), which count the block. The operators of jemalloc and tcmalloc
 * do not call malloc(). The sampler has then not moved, and the wrapper counts the block. C++'s library may be loaded
 * at any time, so each operator looks for its own next definition. An exception of `new` passes through, since there is
 * nothing to undo. */
static __attribute__((noinline)) void *find_operator(const char *name, _Atomic(void *) *known)
{
    struct mp_loaded loaded;
    void *found = mp_loaded_next(name, &loaded) ? mp_loaded_symbol(&loaded, name) : NULL;
    atomic_store_explicit(known, found, memory_order_relaxed);
    return found;
}

#define NEXT_OPERATOR(name)                                                                                            \
    static _Atomic(void *) known;                                                                                      \
    void *at = atomic_load_explicit(&known, memory_order_relaxed);                                                     \
    if (UNLIKELY(!at)) at = find_operator(#name, &known);                                                              \
    memcpy(&operator, & at, sizeof at);

#define OPERATOR_NEW(name, parameters, arguments)                                                                      \
    EXPORTED void *name parameters;                                                                                    \
    void *name parameters                                                                                              \
    {                                                                                                                  \
        void *(*operator)parameters;                                                                                   \
        NEXT_OPERATOR(name)                                                                                            \
        uint64_t left = mine.sampler.left;                                                                             \
        void *block = operator arguments;                                                                              \
        return left == mine.sampler.left ? allocated(block, bytes, CALLER) : block;                                    \
    }
OPERATORS_NEW(OPERATOR_NEW)

#define OPERATOR_DELETE(name, parameters, arguments)                                                                   \
    EXPORTED void name parameters;                                                                                     \
    void name parameters                                                                                               \
    {                                                                                                                  \
        void(*operator) parameters;                                                                                    \
        NEXT_OPERATOR(name)                                                                                            \
        if (block) freed(block);                                                                                       \
        operator arguments;                                                                                            \
    }
OPERATORS_DELETE(OPERATOR_DELETE)
