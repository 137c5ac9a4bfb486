/*
 * memprof's C API: tell a recording what the recorder cannot see by itself, and ask it questions.
 *
 * Header only. A program that includes this links nothing. Each function looks the recorder up once
 * (dlsym(RTLD_DEFAULT, "memprof_api_v1")); without a recording it is a test of a pointer. On glibc older than 2.34 add
 * -ldl. Every function may be called from any thread. None ends the program or changes errno. A call blocks for at most
 * a tenth of a second, except for memprof_snapshot() (30 seconds) and the first call of a process (2 seconds).
 *
 *     #include <memprof.h>
 *     uint32_t pool = memprof_pool("scratch", 0);
 *     for (int i = 0; i < steps; i++) {
 *         memprof_step();
 *         memprof_region_push("forward");
 *         void *block = my_alloc(size);
 *         memprof_alloc(pool, block, size);
 *         ...
 *         memprof_region_pop();
 *     }
 */
#ifndef MEMPROF_H
#define MEMPROF_H

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Always inlined, so that stacks show no frames of this header. */
#define MEMPROF_INLINE_ static inline __attribute__((always_inline))

#define MEMPROF_HOST (-1) /* the device of a pool in host memory; 0, 1, ...: the CUDA device of that ordinal */

/* Counters of one track at the time of the call. */
struct memprof_stats {
    uint64_t live_bytes, peak_bytes; /* peak since the start or since memprof_reset_peak() */
    uint64_t live_blocks;
};

/* The functions of libmemprof.so. Members are only ever added at the end; `size` says how many there are. */
struct memprof_api_v1 {
    uint32_t size;
    int (*active)(void);
    void (*start)(void);
    void (*stop)(void);
    void (*step)(void);
    void (*region_push)(const char *name);
    void (*region_pop)(void);
    void (*mark)(const char *name);
    uint32_t (*pool)(const char *name, int device);
    void (*alloc)(uint32_t pool, const void *ptr, size_t bytes);
    void (*free)(uint32_t pool, const void *ptr);
    int (*snapshot)(const char *path);
    int (*stats)(const char *track, struct memprof_stats *stats);
    void (*reset_peak)(const char *track);
    int (*release_cupti)(void);
    /* For the Python module and the PyTorch shim. */
    void (*module_code)(const void *code);
    void (*module_name)(const void *module, const char *path);
    void (*module_ask)(int (*ask)(void *), void *context);
    void (*label)(const void *address, int role, const char *name);
    void (*torch_step)(void);
    void (*shim)(const char *note); /* NULL: the shim has started; a sentence: one of its parts is off */
    /* The history of PyTorch's CUDA allocator. A row is kind | device << 8 | flags << 16, address, bytes, stream, pool
     * and moment (enum mp_reading_kind in src/wire/record.h). Returns 0 if all rows were taken, 1 if only some were, -1
     * if rows are not wanted. With a count of 0 it asks: 0 means wanted on every version of PyTorch, 1 only on the
     * versions that were tried. With rows of NULL, `count` is enum mp_torch_annotations (src/capture/torch/torch.h). It
     * decides about callbacks at regions that PyTorch adds for this thread. 1: withhold them. 2: stop withholding. 3:
     * add the withheld one. */
    int (*torch_history)(const uint64_t *rows, size_t count);
    void (*torch_mark)(const char *name);      /* a mark of the shim itself, not of the program */
    void (*aside)(int kind, const char *text); /* a text that goes into the file unchanged; kind: enum mp_aside_kind */
    /* Reports holders of storages that a look of the shim found. `addresses`: the storages; `kind`: enum mp_holder_kind
     * (src/base/words.h); `path`: the names that lead to the holder; `file` and `line`: where the line that fills it
     * stands. `count` 0 and `kind` 0 end the look: `certain`: true if the look saw everything; if not, `path` says what
     * it left out. `count` 0 and another `kind`: the counter `path` has the value `line`. */
    void (*holder)(const uint64_t *addresses, size_t count, int kind, int certain, const char *path, const char *file,
                   unsigned line);
    /* The recorder calls `ask` between two instructions of the main thread when such a look is due. Returns the
     * milliseconds that a look at steps or at the end may take; 0: the user did not ask for looks at steps. */
    int (*holder_ask)(int (*ask)(void *), void *context);
    /* Milliseconds for the look that `ask` was called for; 0: none is due. With the highest bit, the look walks only
     * the program's own names. */
    unsigned (*holder_due)(void);
    void (*call_begins)(const char *function); /* of --step-at; after the first, Python reports each call */
    void (*holder_wakes)(int yes);             /* 1: SIGURG now calls `ask` and nothing else; 0: no more */
    int (*operators)(void *layout);            /* struct mp_torch_layout (src/capture/torch/operators.h) */
    /* `kernel`: one that no operator starts has run on these tensors (at::TensorImpl); `how`: bits of enum mp_use_how.
     */
    void (*kernel)(const char *name, const void *const *tensors, const unsigned char *how, unsigned count);
};

MEMPROF_INLINE_ const struct memprof_api_v1 *memprof_api_(void)
{
    static const struct memprof_api_v1 *api;
    static int looked_up;
    if (!__atomic_load_n(&looked_up, __ATOMIC_ACQUIRE)) {
        int saved = errno;
        /* RTLD_DEFAULT is NULL in glibc. Older versions declare that name only with _GNU_SOURCE. */
        void *symbol = dlsym(NULL, "memprof_api_v1");
        const struct memprof_api_v1 *(*get)(void);
        __builtin_memcpy(&get, &symbol, sizeof get);
        __atomic_store_n(&api, get ? get() : NULL, __ATOMIC_RELAXED);
        __atomic_store_n(&looked_up, 1, __ATOMIC_RELEASE);
        errno = saved;
    }
    return __atomic_load_n(&api, __ATOMIC_RELAXED);
}

#define MEMPROF_CALL_(function, ...)                                                                                   \
    do {                                                                                                               \
        const struct memprof_api_v1 *api_ = memprof_api_();                                                            \
        if (api_) api_->function(__VA_ARGS__);                                                                         \
    } while (0)

/* 1 while events of this process are being recorded. */
MEMPROF_INLINE_ int memprof_active(void)
{
    const struct memprof_api_v1 *api = memprof_api_();
    return api ? api->active() : 0;
}

/* Begin and end recording. Outside, memprof still follows live bytes, so that counts inside stay right. */
MEMPROF_INLINE_ void memprof_start(void)
{
    MEMPROF_CALL_(start);
}
MEMPROF_INLINE_ void memprof_stop(void)
{
    MEMPROF_CALL_(stop);
}

/* A step of the program's loop begins; the one before it ends. */
MEMPROF_INLINE_ void memprof_step(void)
{
    MEMPROF_CALL_(step);
}

/* Named spans, nested, per thread. The name is copied. */
MEMPROF_INLINE_ void memprof_region_push(const char *name)
{
    MEMPROF_CALL_(region_push, name);
}
MEMPROF_INLINE_ void memprof_region_pop(void)
{
    MEMPROF_CALL_(region_pop);
}
MEMPROF_INLINE_ void memprof_mark(const char *name)
{
    MEMPROF_CALL_(mark, name);
}

/* An allocator of the program's own: its blocks appear on a track of their own. The same name and device give the same
 * pool. Returns 0 if the program is not being recorded; alloc and free then do nothing. */
MEMPROF_INLINE_ uint32_t memprof_pool(const char *name, int device)
{
    const struct memprof_api_v1 *api = memprof_api_();
    return api ? api->pool(name, device) : 0;
}
/* Call alloc after your allocator has returned the block, and free before it takes the block back. Otherwise another
 * thread may seem to get a block that is still live. */
MEMPROF_INLINE_ void memprof_alloc(uint32_t pool, const void *ptr, size_t bytes)
{
    MEMPROF_CALL_(alloc, pool, ptr, bytes);
}
MEMPROF_INLINE_ void memprof_free(uint32_t pool, const void *ptr)
{
    MEMPROF_CALL_(free, pool, ptr);
}

/* Writes a complete snapshot file of the present state. With path NULL it lies next to the recording (run.now.mp,
 * run.now.2.mp, ...). The calling thread waits until the file is whole, at most 30 seconds; others go on. An existing
 * file is not replaced, unless memprof was started with --force. Returns 0 if done. Returns -1 if nothing is recorded,
 * or if the file could not be written (memprof then says why). */
MEMPROF_INLINE_ int memprof_snapshot(const char *path)
{
    const struct memprof_api_v1 *api = memprof_api_();
    return api ? api->snapshot(path) : -1;
}

/* Counters of a track ("cpu/torch", "cuda:0/torch", "cuda:0/scratch"; NULL: the track with the highest peak).
 * 0: *stats is filled; -1: not recorded, no such track, or no answer in time. */
MEMPROF_INLINE_ int memprof_stats(const char *track, struct memprof_stats *stats)
{
    const struct memprof_api_v1 *api = memprof_api_();
    return api ? api->stats(track, stats) : -1;
}
/* Sets the peak that memprof_stats() returns to the present live bytes. `track` NULL: on every track. */
MEMPROF_INLINE_ void memprof_reset_peak(const char *track)
{
    MEMPROF_CALL_(reset_peak, track);
}

/* Releases CUPTI, which only one tool of a process can use. Call it before another such tool starts, as torch.profiler.
 * From then on memprof's hooks record CUDA. 0: done; -1: memprof did not use CUPTI. */
MEMPROF_INLINE_ int memprof_release_cupti(void)
{
    const struct memprof_api_v1 *api = memprof_api_();
    return api && api->size > offsetof(struct memprof_api_v1, release_cupti) ? api->release_cupti() : -1;
}

#ifdef __cplusplus
}
#endif

#endif
