/*
 * A small CUDA runtime. It finds the driver as NVIDIA's does since 12.0: dlopen(), one dlsym() of cuGetProcAddress_v2,
 * that for "cuGetProcAddress", and everything else through what came back. It works in the primary context of the
 * thread's device, and cudaMallocHost() is the driver's cuMemHostAlloc(). Compiled as a shared library and into
 * programs.
 */
#include "softgpu/runtime/cudart.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "softgpu/driver_calls.h"

#define EXPORTED            __attribute__((visibility("default")))
#define DEVICES             8
#define INSUFFICIENT_DRIVER 35

/* What is asked for, with the version of the function as CUDA 13's runtime asks for it. */
#define NEEDED(F)                                                                                                      \
    F(cuInit, 2000, cuInit)                                                                                            \
    F(cuDeviceGetCount, 2000, cuDeviceGetCount)                                                                        \
    F(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain)                                                        \
    F(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2)                                                      \
    F(cuCtxSetCurrent, 4000, cuCtxSetCurrent)                                                                          \
    F(cuMemGetInfo, 3020, cuMemGetInfo_v2)                                                                             \
    F(cuMemAlloc, 3020, cuMemAlloc_v2)                                                                                 \
    F(cuMemAllocPitch, 3020, cuMemAllocPitch_v2)                                                                       \
    F(cuMemAllocManaged, 6000, cuMemAllocManaged)                                                                      \
    F(cuMemFree, 3020, cuMemFree_v2)                                                                                   \
    F(cuMemHostAlloc, 2020, cuMemHostAlloc)                                                                            \
    F(cuMemFreeHost, 2000, cuMemFreeHost)                                                                              \
    F(cuMemHostRegister, 6050, cuMemHostRegister_v2)                                                                   \
    F(cuMemHostUnregister, 4000, cuMemHostUnregister)                                                                  \
    F(cuMemAllocAsync, 11020, cuMemAllocAsync)                                                                         \
    F(cuMemFreeAsync, 11020, cuMemFreeAsync)                                                                           \
    F(cuStreamCreate, 2000, cuStreamCreate)                                                                            \
    F(cuStreamDestroy, 4000, cuStreamDestroy_v2)                                                                       \
    F(cuEventCreate, 2000, cuEventCreate)                                                                              \
    F(cuEventDestroy, 4000, cuEventDestroy_v2)

static struct {
#define MEMBER(name, version, symbol) __typeof__(symbol) *symbol;
    NEEDED(MEMBER)
#undef MEMBER
} driver;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cudaError_t start_error = INSUFFICIENT_DRIVER;
static CUcontext contexts[DEVICES];
static __thread int current_device;

static void start(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    __typeof__(cuGetProcAddress_v2) *look_up;
    CUdriverProcAddressQueryResult status;
    if (!found) return;
    memcpy(&look_up, &found, sizeof found);
    if (look_up("cuGetProcAddress", &found, 12000, 0, &status) != CUDA_SUCCESS) return;
    memcpy(&look_up, &found, sizeof found);
#define FIND(name, version, symbol)                                                                                    \
    if (look_up(#name, &found, version, 0, &status) != CUDA_SUCCESS || !found) return;                                 \
    memcpy(&driver.symbol, &found, sizeof found);
    NEEDED(FIND)
#undef FIND
    start_error = driver.cuInit(0);
}

/* The thread's device made current; else why not. */
static cudaError_t ready(void)
{
    pthread_once(&once, start);
    if (start_error) return start_error;
    cudaError_t error = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!contexts[current_device]) error = driver.cuDevicePrimaryCtxRetain(&contexts[current_device], current_device);
    CUcontext context = contexts[current_device];
    pthread_mutex_unlock(&lock);
    return error ? error : driver.cuCtxSetCurrent(context);
}

EXPORTED cudaError_t cudaGetDeviceCount(int *count)
{
    pthread_once(&once, start);
    return start_error ? start_error : driver.cuDeviceGetCount(count);
}

EXPORTED cudaError_t cudaSetDevice(int device)
{
    int count;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error) return error;
    if (device < 0 || device >= count || device >= DEVICES) return CUDA_ERROR_INVALID_DEVICE;
    current_device = device;
    return ready();
}

EXPORTED cudaError_t cudaDeviceReset(void)
{
    cudaError_t error = ready();
    if (error) return error;
    pthread_mutex_lock(&lock);
    contexts[current_device] = NULL;
    pthread_mutex_unlock(&lock);
    return driver.cuDevicePrimaryCtxReset_v2(current_device);
}

/* FUNCTION(parameters) { the driver's call } in the thread's context. */
#define FORWARD(function, parameters, call)                                                                            \
    EXPORTED cudaError_t function parameters                                                                           \
    {                                                                                                                  \
        cudaError_t error = ready();                                                                                   \
        return error ? error : driver.call;                                                                            \
    }

FORWARD(cudaMemGetInfo, (size_t * free_bytes, size_t *total), cuMemGetInfo_v2(free_bytes, total))
FORWARD(cudaMalloc, (void **to, size_t bytes), cuMemAlloc_v2((CUdeviceptr *)to, bytes))
FORWARD(cudaMallocPitch, (void **to, size_t *pitch, size_t width, size_t height),
        cuMemAllocPitch_v2((CUdeviceptr *)to, pitch, width, height, 4))
FORWARD(cudaMallocManaged, (void **to, size_t bytes, unsigned flags),
        cuMemAllocManaged((CUdeviceptr *)to, bytes, flags))
FORWARD(cudaFree, (void *address), cuMemFree_v2((CUdeviceptr)(uintptr_t)address))
FORWARD(cudaMallocHost, (void **to, size_t bytes), cuMemHostAlloc(to, bytes, 0))
FORWARD(cudaFreeHost, (void *address), cuMemFreeHost(address))
FORWARD(cudaHostRegister, (void *address, size_t bytes, unsigned flags), cuMemHostRegister_v2(address, bytes, flags))
FORWARD(cudaHostUnregister, (void *address), cuMemHostUnregister(address))
FORWARD(cudaMallocAsync, (void **to, size_t bytes, cudaStream_t stream),
        cuMemAllocAsync((CUdeviceptr *)to, bytes, stream))
FORWARD(cudaFreeAsync, (void *address, cudaStream_t stream), cuMemFreeAsync((CUdeviceptr)(uintptr_t)address, stream))
FORWARD(cudaStreamCreate, (cudaStream_t * to), cuStreamCreate(to, 0))
FORWARD(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy_v2(stream))
FORWARD(cudaEventCreate, (cudaEvent_t * to), cuEventCreate(to, 0))
FORWARD(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy_v2(event))
