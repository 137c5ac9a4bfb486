/*
 * The stand-in driver's own ledger, with which a test compares a recording. Its libcuda.so.1 exports it in addition to
 * the driver API; only our programs know of it.
 *
 * The same ledger goes to the file that $SOFTGPU_LEDGER names, a line per entry, in the order of the driver's actions:
 *
 *     + CLASS DEVICE ADDRESS BYTES      memory handed out, or a handle (0 bytes)
 *     - CLASS DEVICE ADDRESS BYTES      given back, by whatever way
 *     ! CLASS DEVICE 0 BYTES            refused for want of memory
 *     = CLASS DEVICE ADDRESS BYTES      a pool, or the device's graph pool, now holds so much
 *
 * DEVICE is the ordinal, -1 for the host's; ADDRESS and BYTES are decimal.
 *
 * The driver reads these variables:
 *
 *     SOFTGPU_ON=1                  needed on a machine that has a GPU of its own
 *     SOFTGPU_DEVICES=N             how many devices there are (1)
 *     SOFTGPU_MEMORY=BYTES          of each (8 GiB)
 *     SOFTGPU_PROFILE=...           what they are: name, cc, sms, ... (driver/profile.c); what the driver takes
 *                                   itself (driver/share.c)
 *     SOFTGPU_VALUES=POLICY         what a program reads back: zeros, ones, host (driver/values.c)
 *     SOFTGPU_SELECTED=SHARE        what a condition selects, of all elements (0.5; runtime/answers.c)
 *     SOFTGPU_EVENT_MS=N            events complete so long after they were recorded (0)
 *     SOFTGPU_CONTEXT=BYTES         that a context takes of it (64 MiB)
 *     SOFTGPU_VERSION=N             what cuDriverGetVersion() says (13000)
 *     SOFTGPU_NO_DEVICE=ERROR       cuInit() fails with it
 *     SOFTGPU_FAIL=SYMBOL:N,...     the Nth call of SYMBOL finds no memory
 *     SOFTGPU_INNER=1               cuGetProcAddress() answers with addresses that the library does not export
 *     SOFTGPU_LEDGER=FILE           the book; appended to
 *     SOFTGPU_LOOKUPS=FILE          the questions to cuGetProcAddress(): name, version, flags, the library that asked
 *     SOFTGPU_CUDNN=N               what cudnnGetVersion() says (90100)
 *     SOFTGPU_STATE=FILE            shared with the stand-in of NVML (softgpu/state.h)
 *     CUDA_VISIBLE_DEVICES, CUDA_INJECTION64_PATH      as NVIDIA's driver
 */
#ifndef SOFTGPU_SOFTGPU_H
#define SOFTGPU_SOFTGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* F(class, space): memory is found by its address in its space; a handle by its value. */
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

/* The live blocks as a sum that does not depend on their order: equal sums mean equal sets. */
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

/* Sums over all classes at once, between two calls; `of` has SOFT_CLASS_COUNT entries. */
void softgpu_live(struct softgpu_digest *of);
/* Writes buffered lines to the ledger's file. */
void softgpu_flush(void);
const char *softgpu_class_name(enum soft_class class);
/* Sets the value that the calling thread reads before its next kernel, from the address (0: any) and with one of the
 * widths; `widths`: a sum of 1, 4, 8. The policy "ones" takes precedence. */
void softgpu_expect(uint64_t address, unsigned widths, uint64_t value);
/* The device memory of a kernel: bytes of its code, and of local memory for each thread. False: unknown to this one.
 */
typedef bool soft_describe(const void *function, int capability, uint64_t *bytes, uint64_t *local);
/* Offers a describer to the driver, which asks when a kernel is first launched, under its lock. */
void softgpu_describe(soft_describe *describe);
/* The library launches a kernel of its own. cuBLAS takes its share of the current device with the first one there, NCCL
 * with each communicator that `connects`. They return a CUresult. */
int softgpu_cublas_launch(void *stream);
int softgpu_nccl_launch(bool connects, void *stream);
/* Sets the data that the calling thread reads from a device, in copies of at most so many bytes, until the next call.
 * NULL, 0: values are made up again. The data stays the caller's. */
void softgpu_answer(const void *data, size_t bytes);
/* True if the address lies in memory handed out on some device. */
bool softgpu_is_device_address(uint64_t address);

#endif
