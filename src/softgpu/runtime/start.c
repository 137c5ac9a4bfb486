/* Finds the driver, and the thread's device and context; stores the last error. */
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
    softrt_offer_code();
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

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "cudaErrorMemoryAllocation", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "cudaErrorDeviceUninitialized", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "cudaErrorSymbolNotFound", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "cudaErrorNotReady", "device not ready"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
};

EXPORTED const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error) return errors[i].name;
    return "cudaErrorUnknown";
}

EXPORTED const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error) return errors[i].text;
    return "unknown error";
}
