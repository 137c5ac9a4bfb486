/*
 * The stand-in driver's own ledger. A test compares it with a recording. Its libcuda.so.1 exports these functions in
 * addition to the driver API; only our programs know them.
 *
 * The driver also appends the ledger to the file that $SOFTGPU_LEDGER names, one line per entry, in the order of its
 * actions:
 *
 *     + CLASS DEVICE ADDRESS BYTES      memory was handed out, or a handle (0 bytes)
 *     - CLASS DEVICE ADDRESS BYTES      it was given back, in any way
 *     ! CLASS DEVICE 0 BYTES            it was refused for lack of memory
 *     = CLASS DEVICE ADDRESS BYTES      a pool, or the device's graph pool, now holds so many bytes
 *
 * DEVICE is the ordinal, or -1 for host memory; ADDRESS and BYTES are decimal.
 *
 * The driver reads these variables:
 *
 *     SOFTGPU_ON=1                  needed on a machine that has a GPU of its own
 *     SOFTGPU_DEVICES=N             number of devices (1)
 *     SOFTGPU_MEMORY=BYTES          memory of each (8 GiB)
 *     SOFTGPU_PROFILE=...           their properties: name, cc, sms, ... (driver/profile.c); what the driver takes
 *                                   itself (driver/share.c)
 *     SOFTGPU_VALUES=POLICY         what a program reads back: zeros, ones, host (driver/values.c)
 *     SOFTGPU_SELECTED=SHARE        the share of all elements that a condition selects (0.5; runtime/answers.c)
 *     SOFTGPU_EVENT_MS=N            events complete N milliseconds after they were recorded (0)
 *     SOFTGPU_CONTEXT=BYTES         memory that a context takes (64 MiB)
 *     SOFTGPU_VERSION=N             the answer of cuDriverGetVersion() (13000)
 *     SOFTGPU_NO_DEVICE=ERROR       cuInit() fails with that error
 *     SOFTGPU_FAIL=SYMBOL:N,...     the Nth call of SYMBOL finds no memory
 *     SOFTGPU_INNER=1               cuGetProcAddress() returns addresses that the library does not export
 *     SOFTGPU_LEDGER=FILE           the ledger's file; appended to
 *     SOFTGPU_LOOKUPS=FILE          calls of cuGetProcAddress(): name, version, flags, the calling library
 *     SOFTGPU_CUDNN=N               the answer of cudnnGetVersion() (90100)
 *     SOFTGPU_STATE=FILE            shared with the stand-in of NVML (softgpu/state.h)
 *     CUDA_VISIBLE_DEVICES, CUDA_INJECTION64_PATH      as for NVIDIA's driver
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* F(class, space). A block is found by its address, or its handle, in its class's space. */
#define SOFT_CLASSES(F)                                                                                                \
    F(linear, MEMORY)                                                                                                  \
    F(pitched, MEMORY)                                                                                                 \
    F(managed, MEMORY)                                                                                                 \
    F(pinned, MEMORY)                                                                                                  \
    F(registered, HOST)                                                                                                \
    F(array, HANDLE)                                                                                                   \
    F(mipmap, HANDLE)                                                                                                  \
    F(pool, MEMORY)                                                                                                    \
    F(graph, MEMORY)      /* a launched graph's block */                                                               \
    F(node, NODE)         /* an allocation node of a graph: an address that gets memory from launches */               \
    F(physical, PHYSICAL) /* cuMemCreate() */                                                                          \
    F(reservation, RANGE) /* cuMemAddressReserve() */                                                                  \
    F(mapping, MAPPING)   /* cuMemMap() */                                                                             \
    F(ipc, MEMORY)        /* opened from another process */                                                            \
    F(external, HANDLE)   /* cuImportExternalMemory() */                                                               \
    F(external_buffer, MEMORY)                                                                                         \
    F(external_mipmap, HANDLE)                                                                                         \
    F(pool_import, MEMORY) /* a pointer imported from another process's pool */                                        \
    F(import, PHYSICAL)    /* physical memory of another process */                                                    \
    F(multicast, PHYSICAL) /* a multicast object: no memory of its own */                                              \
    F(variable, VARIABLE)  /* a module's __device__ variable */                                                        \
    F(managed_variable, VARIABLE)                                                                                      \
    F(context, HANDLE)                                                                                                 \
    F(stream, HANDLE)                                                                                                  \
    F(event, HANDLE)                                                                                                   \
    F(module, HANDLE)                                                                                                  \
    F(library, HANDLE)                                                                                                 \
    F(mempool, HANDLE)                                                                                                 \
    F(graph_handle, HANDLE)                                                                                            \
    F(graph_exec, HANDLE)

#define SOFT_CLASS(class, space) SOFT_##class,
enum soft_class { SOFT_CLASSES(SOFT_CLASS) SOFT_CLASS_COUNT };
#undef SOFT_CLASS

/* A digest of the live blocks that does not depend on their order: equal sums mean equal sets. */
struct softgpu_digest {
    uint64_t blocks, bytes, sum;
};

/* One block's contribution to `sum`. */
static inline uint64_t softgpu_digest_of(uint64_t address, uint64_t bytes)
{
    uint64_t hash = address * 0x9e3779b97f4a7c15 ^ (bytes + 1) * 0xc2b2ae3d27d4eb4f;
    hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ hash >> 32) * 0x94d049bb133111eb;
    return hash ^ hash >> 31;
}

/* Computes the digests of all classes at one moment. `of` has SOFT_CLASS_COUNT entries. */
void softgpu_live(struct softgpu_digest *of);
/* Writes buffered lines to the ledger's file. */
void softgpu_flush(void);
const char *softgpu_class_name(enum soft_class class);
/* Sets a value that the calling thread reads back before its next kernel. `address`: where it reads (0: anywhere).
 * `widths`: how many bytes it reads, a sum of 1, 4, 8 and 16 for each possible number; the last eight of 16 are 0. The
 * policy "ones" takes precedence. */
void softgpu_expect(uint64_t address, unsigned widths, uint64_t value);
/* The fat binary that registered a function, with the kernel's name in it; NULL: not registered there. */
typedef const void *softgpu_find_image(const void *function, const char **name);
/* Lets the driver ask for the kernels of a runtime, under its lock. */
void softgpu_offer_images(softgpu_find_image *find);
/* For libraries that launch a kernel of their own. cuBLAS takes its share of a device at its first kernel there. NCCL
 * takes its share at each launch that `connects`: the first of a communicator. They return a
 * CUresult. */
int softgpu_cublas_launch(void *stream);
int softgpu_nccl_launch(bool connects, void *stream);
int softgpu_launch(void *stream); /* of any other library */
/* The origin of a value that no kernel computed. */
enum softgpu_source {
    SOFTGPU_KNOWN,    /* the value that a GPU would have */
    SOFTGPU_MADE_UP,  /* by the policy */
    SOFTGPU_SPREAD,   /* choices and conditions, spread evenly (libmemprof_plan/values.py) */
    SOFTGPU_RECEIVED, /* from another rank, which is assumed to have sent what this rank has */
};
/* Sets the data that the calling thread reads from a device, in copies of at most `bytes`, until the next call. NULL,
 * 0: values are made up again. The caller keeps the data alive. */
void softgpu_answer(const void *data, size_t bytes, enum softgpu_source source);
/* Called when data of other ranks arrived at an address. `like_own`: they are assumed to be what the device has there;
 * else they are unknown. */
void softgpu_received(uint64_t address, uint64_t bytes, bool like_own);
/* Copies what the device has at an address, if that is known. Returns its softgpu_source; -1: it is unknown. */
int softgpu_known(uint64_t address, void *to, uint64_t bytes);
/* Sets what the device has at an address; source -1: it is unknown. */
void softgpu_put(uint64_t address, const void *data, uint64_t bytes, int source);
/* True if the address lies in memory that some device handed out. */
bool softgpu_is_device_address(uint64_t address);
