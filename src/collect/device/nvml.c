#include "collect/device/nvml.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/vec.h"
#include "base/words.h"

/* ---- the parts of nvml.h in use ---- */

#define NVML_OK            0
#define NVML_NOT_AVAILABLE UINT64_MAX

struct nvml_memory { /* nvmlMemory_t; used: includes the driver's own reserve */
    uint64_t total, free, used;
};
struct nvml_memory_v2 {
    uint32_t version;
    uint64_t total, reserved, free, used;
};
#define NVML_MEMORY_V2 (uint32_t)(sizeof(struct nvml_memory_v2) | 2 << 24)

struct nvml_process { /* nvmlProcessInfo_t of _v2 and _v3 */
    uint32_t pid;
    uint64_t bytes;
    uint32_t gpu_instance, compute_instance;
};

/* Name, parameters. All return an int. All but the first NEEDED may be missing. */
#define FUNCTIONS(F)                                                                                                   \
    F(nvmlInit_v2, (void))                                                                                             \
    F(nvmlDeviceGetCount_v2, (unsigned *))                                                                             \
    F(nvmlDeviceGetHandleByIndex_v2, (unsigned, void **))                                                              \
    F(nvmlShutdown, (void))                                                                                            \
    F(nvmlSystemGetDriverVersion, (char *, unsigned))                                                                  \
    F(nvmlSystemGetCudaDriverVersion_v2, (int *))                                                                      \
    F(nvmlDeviceGetUUID, (void *, char *, unsigned))                                                                   \
    F(nvmlDeviceGetName, (void *, char *, unsigned))                                                                   \
    F(nvmlDeviceGetMemoryInfo, (void *, struct nvml_memory *))                                                         \
    F(nvmlDeviceGetMemoryInfo_v2, (void *, struct nvml_memory_v2 *))                                                   \
    F(nvmlDeviceGetComputeRunningProcesses_v3, (void *, unsigned *, struct nvml_process *))                            \
    F(nvmlDeviceGetComputeRunningProcesses_v2, (void *, unsigned *, struct nvml_process *))                            \
    F(nvmlDeviceGetGraphicsRunningProcesses_v3, (void *, unsigned *, struct nvml_process *))                           \
    F(nvmlDeviceGetGraphicsRunningProcesses_v2, (void *, unsigned *, struct nvml_process *))                           \
    F(nvmlDeviceGetMigMode, (void *, unsigned *, unsigned *))                                                          \
    F(nvmlDeviceGetMaxMigDeviceCount, (void *, unsigned *))                                                            \
    F(nvmlDeviceGetMigDeviceHandleByIndex, (void *, unsigned, void **))
#define NEEDED 3

struct mp_nvml {
    void *library;
    const char *(*nvmlErrorString)(int);
#define F(name, parameters) int(*name) parameters;
    FUNCTIONS(F)
#undef F
};

static const char *const names[] = {
#define F(name, parameters) #name,
    FUNCTIONS(F)
#undef F
};

static void *find(const struct mp_nvml *nvml, const char *name)
{
    return dlsym(nvml->library, name);
}

enum mp_status mp_nvml_open(struct mp_nvml **result, struct mp_error *error)
{
    struct mp_nvml *nvml = calloc(1, sizeof *nvml);
    if (!nvml) return mp_fail(error, MP_NO_MEMORY, "out of memory for NVML");
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        free(nvml);
        return mp_fail(error, MP_NOT_FOUND, "there is no libnvidia-ml.so.1 (it comes with NVIDIA's driver)");
    }
    size_t found = 0, i = 0;
    void *symbol;
#define F(name, parameters)                                                                                            \
    symbol = find(nvml, #name);                                                                                        \
    memcpy(&nvml->name, &symbol, sizeof symbol);                                                                       \
    found += i++ < NEEDED && symbol;
    FUNCTIONS(F)
#undef F
    symbol = find(nvml, "nvmlErrorString");
    memcpy(&nvml->nvmlErrorString, &symbol, sizeof symbol);
    enum mp_status status = MP_OK;
    if (found < NEEDED) {
        for (i = 0; i + 1 < NEEDED && find(nvml, names[i]); i++)
            continue;
        status = mp_fail(error, MP_UNSUPPORTED, "libnvidia-ml.so.1 lacks %s: the driver is too old", names[i]);
    } else {
        int code = nvml->nvmlInit_v2();
        if (code)
            status = mp_fail(error, MP_UNSUPPORTED, "NVML does not start: %s (error %d)",
                             nvml->nvmlErrorString ? nvml->nvmlErrorString(code) : "no text", code);
    }
    *result = nvml;
    if (!status) return MP_OK;
    dlclose(nvml->library);
    free(nvml);
    *result = NULL;
    return status;
}

void mp_nvml_close(struct mp_nvml *nvml)
{
    if (!nvml) return;
    if (nvml->nvmlShutdown) nvml->nvmlShutdown();
    dlclose(nvml->library);
    free(nvml);
}

void mp_nvml_versions(struct mp_nvml *nvml, char driver[80], int *cuda)
{
    memset(driver, 0, 80);
    *cuda = 0;
    if (nvml->nvmlSystemGetDriverVersion && nvml->nvmlSystemGetDriverVersion(driver, 79)) *driver = '\0';
    if (nvml->nvmlSystemGetCudaDriverVersion_v2 && nvml->nvmlSystemGetCudaDriverVersion_v2(cuda)) *cuda = 0;
}

/* ---- devices ---- */

static void read_memory(const struct mp_nvml *nvml, void *handle, uint64_t *total, uint64_t *used)
{
    struct nvml_memory_v2 second = {.version = NVML_MEMORY_V2};
    struct nvml_memory first;
    *total = *used = MP_BYTES_UNKNOWN;
    if (nvml->nvmlDeviceGetMemoryInfo_v2 && nvml->nvmlDeviceGetMemoryInfo_v2(handle, &second) == NVML_OK) {
        *total = second.total;
        *used = second.used; /* without the driver's own reserve */
    } else if (nvml->nvmlDeviceGetMemoryInfo && nvml->nvmlDeviceGetMemoryInfo(handle, &first) == NVML_OK) {
        *total = first.total;
        *used = first.used;
    }
}

static bool add_gpu(const struct mp_nvml *nvml, void *handle, unsigned physical, bool is_instance, struct mp_gpus *gpus)
{
    struct mp_gpu gpu = {.physical = physical, .is_instance = is_instance, .handle = handle};
    uint64_t used;
    if (!nvml->nvmlDeviceGetUUID || nvml->nvmlDeviceGetUUID(handle, gpu.uuid, sizeof gpu.uuid - 1)) *gpu.uuid = '\0';
    if (!nvml->nvmlDeviceGetName || nvml->nvmlDeviceGetName(handle, gpu.name, sizeof gpu.name - 1)) *gpu.name = '\0';
    read_memory(nvml, handle, &gpu.total_bytes, &used);
    return mp_vec_push(gpus, gpu);
}

static bool is_cut_up(const struct mp_nvml *nvml, void *handle)
{
    unsigned now = 0, later;
    return nvml->nvmlDeviceGetMigMode && nvml->nvmlDeviceGetMaxMigDeviceCount &&
           nvml->nvmlDeviceGetMigDeviceHandleByIndex && !nvml->nvmlDeviceGetMigMode(handle, &now, &later) && now;
}

enum mp_status mp_nvml_gpus(struct mp_nvml *nvml, struct mp_gpus *gpus, struct mp_error *error)
{
    unsigned count = 0;
    if (nvml->nvmlDeviceGetCount_v2(&count)) return mp_fail(error, MP_UNSUPPORTED, "NVML lists no devices");
    for (unsigned i = 0; i < count; i++) {
        void *handle;
        unsigned parts = 0;
        bool added = true;
        if (nvml->nvmlDeviceGetHandleByIndex_v2(i, &handle)) continue; /* the GPU is lost, or memprof may not use it */
        bool cut_up = is_cut_up(nvml, handle);
        if (!cut_up) added = add_gpu(nvml, handle, i, false, gpus);
        if (cut_up && nvml->nvmlDeviceGetMaxMigDeviceCount(handle, &parts)) parts = 0;
        for (unsigned part = 0; part < parts && added; part++) {
            void *instance;
            if (!nvml->nvmlDeviceGetMigDeviceHandleByIndex(handle, part, &instance))
                added = add_gpu(nvml, instance, i, true, gpus);
        }
        if (!added) return mp_fail(error, MP_NO_MEMORY, "out of memory for the list of devices");
    }
    return MP_OK;
}

/* ---- use ---- */

static void add_process(struct mp_gpu_use *use, const struct nvml_process *process)
{
    for (unsigned i = 0; i < use->process_count; i++)
        if (use->processes[i].pid == process->pid) return; /* a process that computes and also draws is listed twice */
    if (use->process_count == MP_GPU_PROCESSES) {
        use->sum_known = false;
        return;
    }
    bool known = process->bytes != NVML_NOT_AVAILABLE;
    use->sum_known &= known;
    use->processes[use->process_count++] =
        (struct mp_gpu_process){process->pid, known ? process->bytes : MP_BYTES_UNKNOWN};
}

static bool add_processes(struct mp_gpu_use *use, void *handle, int (*list)(void *, unsigned *, struct nvml_process *))
{
    struct nvml_process found[MP_GPU_PROCESSES];
    unsigned count = MP_GPU_PROCESSES;
    if (!list || list(handle, &count, found)) return false;
    for (unsigned i = 0; i < count && i < MP_GPU_PROCESSES; i++)
        add_process(use, &found[i]);
    return true;
}

void mp_nvml_use(struct mp_nvml *nvml, const struct mp_gpu *gpu, struct mp_gpu_use *use)
{
    uint64_t total;
    read_memory(nvml, gpu->handle, &total, &use->used_bytes);
    use->process_count = 0;
    use->sum_known = true;
    bool known = add_processes(use, gpu->handle, nvml->nvmlDeviceGetComputeRunningProcesses_v3) ||
                 add_processes(use, gpu->handle, nvml->nvmlDeviceGetComputeRunningProcesses_v2);
    if (!add_processes(use, gpu->handle, nvml->nvmlDeviceGetGraphicsRunningProcesses_v3))
        add_processes(use, gpu->handle, nvml->nvmlDeviceGetGraphicsRunningProcesses_v2);
    use->sum_known &= known;
}

/* ---- matching a program's devices ---- */

/* The device that an entry of CUDA_VISIBLE_DEVICES names: by a GPU's number, or by a UUID or its beginning. A
 * partitioned GPU's number means its first instance. -1: no device, or several. */
static int gpu_named(const struct mp_gpus *gpus, const char *name, size_t length)
{
    int found = -1;
    bool is_number = strspn(name, "0123456789") == length;
    unsigned long number = is_number ? strtoul(name, NULL, 10) : 0;
    for (size_t i = 0; i < gpus->count; i++) {
        if (is_number ? gpus->at[i].physical != number : strncasecmp(gpus->at[i].uuid, name, length)) continue;
        if (found >= 0) return is_number ? found : -1;
        found = (int)i;
    }
    return found;
}

/* True if CUDA's order is the bus order. By default CUDA puts the fastest GPU first, so the order is certain only if
 * all GPUs are alike. */
static bool orders_agree(const struct mp_gpus *gpus, const char *order)
{
    if (order && !strcmp(order, "PCI_BUS_ID")) return true;
    for (size_t i = 1; i < gpus->count; i++)
        if (!gpus->at[i].is_instance && strcmp(gpus->at[i].name, gpus->at[0].name)) return false;
    return true;
}

int mp_gpu_of_ordinal(const struct mp_gpus *gpus, const char *visible, const char *order, int ordinal)
{
    bool agree = orders_agree(gpus, order);
    if (ordinal < 0) return -1;
    if (!visible) {
        if (!agree && gpus->count > 1) return -1;
        /* A program sees only the first of several instances. */
        if (gpus->count && gpus->at[0].is_instance) return ordinal ? -1 : 0;
        return (size_t)ordinal < gpus->count ? ordinal : -1;
    }
    for (int i = 0;; i++) {
        size_t blank = strspn(visible, " ");
        size_t length = strcspn(visible + blank, ", ");
        if (!length) return -1;
        bool is_number = isdigit((unsigned char)visible[blank]) != 0;
        int found = gpu_named(gpus, visible + blank, length);
        if (found < 0) return -1; /* the list ends at the first invalid entry */
        if (i == ordinal) return is_number && !agree && gpus->count > 1 ? -1 : found;
        visible += blank + length;
        visible += strcspn(visible, ",");
        if (!*visible++) return -1;
    }
}
