/* cuGetProcAddress() in both ABIs, by name, version and kind of default stream. Also the texts of errors. */
#include "softgpu/driver/call.h"
#include "softgpu/driver/driver.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN, THREAD };

/* Each function at a second address, which the library does not export: NVIDIA's driver may answer with such an
 * address. */
#if defined(__x86_64__)
#    define JUMP "jmp "
#elif defined(__aarch64__)
#    define JUMP "b "
#endif
#define INNER(name, version, mode, symbol, cbid, signature)                                                            \
    __asm__(".text\n.hidden inner_" #symbol "\n.globl inner_" #symbol "\n.type inner_" #symbol                         \
            ", %function\ninner_" #symbol ":\n" JUMP #symbol "\n");                                                    \
    CUresult inner_##symbol signature;
DRIVER_CALLS(INNER)
#undef INNER

static const struct row {
    const char *name;
    int version, mode;
    void *function, *inner;
} rows[] = {
#define ROW(name, version, mode, symbol, cbid, signature)                                                              \
    {#name, version, mode, (void *)symbol, (void *)inner_##symbol},
    DRIVER_CALLS(ROW)
#undef ROW
};

/* The newest form of a function up to the version. If the function has streams, the form has the wanted kind of default
 * stream. */
static const struct row *best_row(const char *name, int version, int mode, bool *known)
{
    const struct row *best = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        if (strcmp(row->name, name)) continue;
        *known = true;
        if (row->version > version || row->mode > mode) continue;
        if (!best || row->mode > best->mode || (row->mode == best->mode && row->version > best->version)) best = row;
    }
    return best;
}

/* Writes a line to $SOFTGPU_LOOKUPS for each look-up, with the calling library. */
static void log_look_up(const char *name, int version, uint64_t flags, const void *caller)
{
    static FILE *file;
    static bool opened;
    pthread_mutex_lock(&soft_lock);
    const char *path = opened ? NULL : getenv("SOFTGPU_LOOKUPS");
    opened = true;
    if (path && *path) file = fopen(path, "ae");
    Dl_info asker = {0};
    if (file && dladdr(caller, &asker)) {
        fprintf(file, "%s %d %" PRIu64 " %s\n", *name ? name : "-", version, flags, asker.dli_fname);
        fflush(file);
    }
    pthread_mutex_unlock(&soft_lock);
}

static CUresult look_up(const char *name, void **found, int version, uint64_t flags, int *status, const void *caller)
{
    if (!name || !found) return CUDA_ERROR_INVALID_VALUE;
    bool known = false;
    log_look_up(name, version, flags, caller);
    const struct row *row =
        best_row(name, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? THREAD : PLAIN, &known);
    const char *inner = getenv("SOFTGPU_INNER");
    *found = row ? inner && *inner ? row->inner : row->function : NULL;
    if (status)
        *status = row     ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return row ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* May be called before cuInit(), too. */
EXPORTED CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, uint64_t flags)
{
    return look_up(symbol, pfn, cudaVersion, flags, NULL, __builtin_return_address(0));
}

EXPORTED CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, uint64_t flags,
                                      CUdriverProcAddressQueryResult *symbolStatus)
{
    int status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CUresult result = look_up(symbol, pfn, cudaVersion, flags, &status, __builtin_return_address(0));
    if (symbolStatus) *symbolStatus = (CUdriverProcAddressQueryResult)status;
    return result;
}

/* NVIDIA's private tables are not imitated. NVIDIA's own runtime cannot do without this one. */
EXPORTED CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    static const unsigned char runtime[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                              0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
    static int said;
    Dl_info asker = {0};
    if (id && !memcmp(id, runtime, sizeof runtime) && !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED)) {
        dladdr(__builtin_return_address(0), &asker);
        fprintf(
            stderr,
            "memprof: %s has NVIDIA's CUDA runtime built in, as pip's CuPy has, which needs NVIDIA's driver: it cannot "
            "be planned; use a build that loads libcudart.so\n",
            asker.dli_fname ? asker.dli_fname : "a library");
    }
    if (table) *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

static const struct {
    CUresult error;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {205, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    {206, "CUDA_ERROR_UNMAP_FAILED", "unmapping of buffer object failed"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {300, "CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid"},
    {301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "shared object symbol not found"},
    {303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "shared object initialization failed"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

EXPORTED CUresult cuGetErrorString(CUresult error, const char **text)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        *text = errors[i].text;
        if (errors[i].error == error) return CUDA_SUCCESS;
    }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORTED CUresult cuGetErrorName(CUresult error, const char **text)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        *text = errors[i].name;
        if (errors[i].error == error) return CUDA_SUCCESS;
    }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
