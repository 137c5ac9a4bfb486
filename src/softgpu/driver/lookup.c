/* cuGetProcAddress() in both ABIs, by name, version and kind of default stream, and the texts of errors. */
#include "softgpu/driver/driver.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN, THREAD };

/* The same function at another address, which the library does not export: NVIDIA's driver may answer like this. */
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

/* The newest form up to the version, with the wanted kind of stream where the function has streams. */
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

/* $SOFTGPU_LOOKUPS: a line for each lookup, with the library that asked. */
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

/* Answers before cuInit(), too. */
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

/* NVIDIA's private tables are not imitated. */
EXPORTED CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    (void)id;
    if (table) *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

static const struct {
    CUresult error;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
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
