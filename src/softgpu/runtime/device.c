/* The devices' properties, as each version of the runtime returns them, and which devices reach each other. */
#include "softgpu/runtime/runtime.h"
#include "softgpu/runtime/start.h"

#include <stdio.h>
#include <string.h>

static int attribute(int which, int device)
{
    int value = 0;
    soft_driver.cuDeviceGetAttribute(&value, which, device);
    return value;
}

#if SOFTRT_MAJOR >= 13
typedef struct device_properties_13 properties;
#elif SOFTRT_MAJOR == 12
typedef struct device_properties_12 properties;
#else
typedef struct device_properties_11 properties;
#endif

static void fill_dimensions(properties *p, int device)
{
    for (int i = 0; i < 3; i++) {
        p->maxThreadsDim[i] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i, device);
        p->maxGridSize[i] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i, device);
    }
}

static cudaError_t fill(properties *p, int device)
{
    cudaError_t error = softrt_initialized();
    if (!error && !softrt_has_device(device)) error = cudaErrorInvalidDevice;
    if (error) return error;
    *p = (properties)
    {
        .major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
        .minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
        .multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
        .maxThreadsPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device),
        .warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, device),
        .maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device),
        .maxBlocksPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, device),
        .sharedMemPerBlock = (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device),
        .sharedMemPerBlockOptin = (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device),
        .sharedMemPerMultiprocessor =
            (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device),
        .regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, device),
        .regsPerMultiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, device),
        .totalConstMem = (size_t)attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, device),
        .memPitch = (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH, device),
        .textureAlignment = (size_t)attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, device),
        .texturePitchAlignment = (size_t)attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, device),
        .l2CacheSize = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device),
        .memoryBusWidth = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device),
        .pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device), .canMapHostMemory = 1, .concurrentKernels = 1,
        .asyncEngineCount = 2, .unifiedAddressing = 1, .streamPrioritiesSupported = 1, .managedMemory = 1,
        .computePreemptionSupported = 1, .cooperativeLaunch = 1,
#if SOFTRT_MAJOR < 13
        .clockRate = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device),
        .memoryClockRate = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device),
#endif
#if SOFTRT_MAJOR >= 12
        .hostRegisterSupported = 1, .memoryPoolsSupported = 1,
#endif
    };
    fill_dimensions(p, device);
    soft_driver.cuDeviceGetName(p->name, sizeof p->name, device);
    soft_driver.cuDeviceTotalMem_v2(&p->totalGlobalMem, device);
    soft_driver.cuDeviceGetUuid(&p->uuid, device);
    return cudaSuccess;
}

EXPORTED cudaError_t cudaGetDeviceProperties(void *to, int device)
{
    properties p;
    cudaError_t error = softrt_keep(fill(&p, device));
    /* Programs that were compiled for CUDA 11 call this name in CUDA 12, too, and have room only for the shorter
     * struct. */
    if (!error) memcpy(to, &p, SOFTRT_MAJOR == 12 ? sizeof(struct device_properties_11) : sizeof p);
    return error;
}

#if SOFTRT_MAJOR == 12
EXPORTED cudaError_t cudaGetDeviceProperties_v2(properties *to, int device)
{
    return softrt_keep(fill(to, device));
}
#endif

EXPORTED cudaError_t cudaDeviceGetAttribute(int *value, int which, int device)
{
    cudaError_t error = softrt_initialized();
    if (!error && !softrt_has_device(device)) error = cudaErrorInvalidDevice;
    return softrt_keep(error ? error : soft_driver.cuDeviceGetAttribute(value, which, device));
}

EXPORTED cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    cudaError_t error = softrt_initialized();
    return softrt_keep(error ? error : soft_driver.cuDeviceGetPCIBusId(text, length, device));
}

EXPORTED cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer;
    return softrt_keep(softrt_initialized());
}

EXPORTED cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)peer, (void)flags;
    return softrt_keep(softrt_ready());
}

EXPORTED cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return softrt_keep(softrt_ready());
}

EXPORTED cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t error = softrt_ready();
    return softrt_keep(error ? error : soft_driver.cuCtxSynchronize());
}

/* Finds a function of the driver. From CUDA 12.5 on, the arguments include the version. *status is the driver's
 * enumeration. */
static cudaError_t entry_point(const char *name, void **to, int version, int *status)
{
    *to = softrt_find(name, version);
    if (status) *status = *to ? 0 : 1;
    return cudaSuccess;
}

EXPORTED cudaError_t cudaGetDriverEntryPoint(const char *name, void **to, unsigned long long flags, int *status)
{
    (void)flags;
    return entry_point(name, to, SOFTRT_VERSION, status);
}

EXPORTED cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **to, unsigned version,
                                                      unsigned long long flags, int *status)
{
    (void)flags;
    return entry_point(name, to, (int)version, status);
}
