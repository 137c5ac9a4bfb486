/* Finds the driver, and the thread's device and context; stores the last error. */
#include "softgpu/runtime/start.h"
#include "softgpu/runtime/kernels.h"
#include "softgpu/runtime/runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define DEVICES 64

struct soft_driver soft_driver;
__thread int softrt_device;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cudaError_t start_error = cudaErrorInsufficientDriver;
static CUcontext contexts[DEVICES];
static int device_count;
static __thread cudaError_t last_error;
static __typeof__(cuGetProcAddress_v2) *look_up;

/* True for the stand-in driver. The stand-ins work only together: with NVIDIA's own driver, nothing would be computed,
 * and nobody would notice. */
static bool is_stand_in(void *library)
{
    if (dlsym(library, "softgpu_live")) return true;
    static const char text[] =
        "memprof: the stand-in of CUDA's runtime found NVIDIA's driver and will not use it; unset LD_PRELOAD and "
        "LD_LIBRARY_PATH, or run the program under \"memprof plan\"\n";
    fputs(text, stderr);
    return false;
}

static void start(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = library && is_stand_in(library) ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    CUdriverProcAddressQueryResult status;
    if (!found) return;
    memcpy(&look_up, &found, sizeof found);
    if (look_up("cuGetProcAddress", &found, 12000, 0, &status) != CUDA_SUCCESS) return;
    memcpy(&look_up, &found, sizeof found);
#define FIND(name, version, symbol)                                                                                    \
    if (look_up(#name, &found, version, 0, &status) != CUDA_SUCCESS || !found) return;                                 \
    memcpy(&soft_driver.symbol, &found, sizeof found);
    RUNTIME_NEEDS(FIND)
#undef FIND
    softrt_offer_images();
    start_error = soft_driver.cuInit(0);
    if (!start_error) start_error = soft_driver.cuDeviceGetCount(&device_count);
    if (!start_error && !device_count) start_error = cudaErrorNoDevice;
}

void *softrt_find(const char *name, int version)
{
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    pthread_once(&once, start);
    return look_up && look_up(name, &found, version, 0, &status) == CUDA_SUCCESS ? found : NULL;
}

cudaError_t softrt_keep(cudaError_t error)
{
    if (error) last_error = error;
    return error;
}

cudaError_t softrt_initialized(void)
{
    pthread_once(&once, start);
    return start_error;
}

bool softrt_has_device(int device)
{
    return device >= 0 && device < device_count && device < DEVICES;
}

cudaError_t softrt_ready(void)
{
    cudaError_t error = softrt_initialized();
    if (error) return error;
    pthread_mutex_lock(&lock);
    CUcontext *context = &contexts[softrt_device];
    if (!*context) error = soft_driver.cuDevicePrimaryCtxRetain(context, softrt_device);
    CUcontext wanted = *context, current = NULL;
    pthread_mutex_unlock(&lock);
    if (!error) error = soft_driver.cuCtxGetCurrent(&current);
    return error || current == wanted ? error : soft_driver.cuCtxSetCurrent(wanted);
}

EXPORTED cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = softrt_initialized();
    *count = error ? 0 : device_count;
    return softrt_keep(error);
}

EXPORTED cudaError_t cudaGetDevice(int *device)
{
    *device = softrt_device;
    return softrt_keep(softrt_initialized());
}

EXPORTED cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = softrt_initialized();
    if (!error && !softrt_has_device(device)) error = cudaErrorInvalidDevice;
    if (error) return softrt_keep(error);
    softrt_device = device;
    return softrt_keep(softrt_ready());
}

EXPORTED cudaError_t cudaDeviceReset(void)
{
    cudaError_t error = softrt_ready();
    if (error) return softrt_keep(error);
    pthread_mutex_lock(&lock);
    contexts[softrt_device] = NULL;
    pthread_mutex_unlock(&lock);
    return softrt_keep(soft_driver.cuDevicePrimaryCtxReset_v2(softrt_device));
}

EXPORTED cudaError_t cudaDriverGetVersion(int *version)
{
    pthread_once(&once, start);
    *version = 0;
    return soft_driver.cuDriverGetVersion ? soft_driver.cuDriverGetVersion(version) : cudaSuccess;
}

EXPORTED cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = SOFTRT_VERSION;
    return cudaSuccess;
}

EXPORTED cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

EXPORTED cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

/* `text` NULL: the driver's for the same number. */
static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {0, "cudaSuccess", NULL},
    {1, "cudaErrorInvalidValue", NULL},
    {2, "cudaErrorMemoryAllocation", NULL},
    {3, "cudaErrorInitializationError", NULL},
    {4, "cudaErrorCudartUnloading", NULL},
    {9, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {35, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {100, "cudaErrorNoDevice", NULL},
    {101, "cudaErrorInvalidDevice", NULL},
    {200, "cudaErrorInvalidKernelImage", NULL},
    {201, "cudaErrorDeviceUninitialized", NULL},
    {209, "cudaErrorNoKernelImageForDevice", NULL},
    {217, "cudaErrorPeerAccessUnsupported", NULL},
    {400, "cudaErrorInvalidResourceHandle", NULL},
    {401, "cudaErrorIllegalState", NULL},
    {500, "cudaErrorSymbolNotFound", NULL},
    {600, "cudaErrorNotReady", NULL},
    {704, "cudaErrorPeerAccessAlreadyEnabled", NULL},
    {705, "cudaErrorPeerAccessNotEnabled", NULL},
    {709, "cudaErrorContextIsDestroyed", NULL},
    {712, "cudaErrorHostMemoryAlreadyRegistered", NULL},
    {713, "cudaErrorHostMemoryNotRegistered", NULL},
    {801, "cudaErrorNotSupported", NULL},
    {900, "cudaErrorStreamCaptureUnsupported", NULL},
    {901, "cudaErrorStreamCaptureInvalidated", NULL},
    {999, "cudaErrorUnknown", NULL},
};

EXPORTED const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error) return errors[i].name;
    return "unrecognized error code"; /* NVIDIA's words */
}

EXPORTED const char *cudaGetErrorString(cudaError_t error)
{
    const char *text = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error && errors[i].text) return errors[i].text;
    pthread_once(&once, start);
    if (soft_driver.cuGetErrorString) soft_driver.cuGetErrorString((CUresult)error, &text);
    return text ? text : "unrecognized error code";
}
