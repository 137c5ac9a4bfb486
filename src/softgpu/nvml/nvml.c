/*
 * A stand-in for libnvidia-ml.so.1: the devices of the stand-in driver, and the memory that its processes hold on them
 * (state.h).
 *
 *     SOFTGPU_DEVICES, SOFTGPU_MEMORY, SOFTGPU_STATE     as the driver has them (softgpu.h)
 *     SOFTNVML_OTHERS=BYTES       process 1 holds that many bytes of device 0
 *     SOFTNVML_PROCESSES=none     no bytes per process; some: only those of process 1; hidden: no process is listed, as
 *                                 in a container; crowd: more processes than any caller has room for; drawing: all
 *                                 processes draw, too
 *     SOFTNVML_MIG=N              device 0 is cut into N instances; its processes are dealt out to them in turn
 *     SOFTNVML_FAIL=ERROR         nvmlInit fails
 *
 * Types and numbers as in nvml.h of CUDA 12 and 13.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/state.h"

#define EXPORTED __attribute__((visibility("default")))

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
#define NOT_AVAILABLE UINT64_MAX
#define INSTANCES     7

/* nvmlDevice_t: a device, or a MIG instance of it. */
struct device {
    int physical, instance; /* -1: the whole device */
};

struct memory {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct process_v1 {
    unsigned pid;
    unsigned long long used;
};
struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};
struct pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

static struct device devices[SOFT_DEVICES], instances[INSTANCES];
static unsigned initialized; /* calls of nvmlInit() less calls of nvmlShutdown() */
static struct soft_state *state;

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static unsigned device_count(void)
{
    uint64_t count = number("SOFTGPU_DEVICES", 1);
    return count > SOFT_DEVICES ? SOFT_DEVICES : (unsigned)count;
}

static unsigned mig_count(const struct device *device)
{
    uint64_t count = device->physical == 0 ? number("SOFTNVML_MIG", 0) : 0;
    return count > INSTANCES ? INSTANCES : (unsigned)count;
}

static struct soft_state *map_state(void)
{
    const char *path = getenv("SOFTGPU_STATE");
    int descriptor = path && *path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (descriptor < 0) return NULL;
    void *at = MAP_FAILED;
    if (!ftruncate(descriptor, sizeof *state))
        at = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    return at == MAP_FAILED ? NULL : at;
}

EXPORTED int nvmlInit_v2(void)
{
    int failure = (int)number("SOFTNVML_FAIL", OK);
    if (failure) return failure;
    for (int i = 0; i < SOFT_DEVICES; i++)
        devices[i] = (struct device){i, -1};
    for (int i = 0; i < INSTANCES; i++)
        instances[i] = (struct device){0, i};
    if (!state) state = map_state();
    initialized++;
    return OK;
}

EXPORTED int nvmlInit(void)
{
    return nvmlInit_v2();
}

EXPORTED int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return nvmlInit_v2();
}

EXPORTED int nvmlShutdown(void)
{
    if (!initialized) return UNINITIALIZED;
    initialized--;
    return OK;
}

EXPORTED const char *nvmlErrorString(int result)
{
    switch (result) {
    case OK:
        return "Success";
    case UNINITIALIZED:
        return "Uninitialized";
    case NOT_SUPPORTED:
        return "Not Supported";
    case 9:
        return "Driver Not Loaded";
    default:
        return "Unknown Error";
    }
}

static int copy_text(char *to, unsigned room, const char *text)
{
    if (!to || strlen(text) >= room) return INSUFFICIENT_SIZE;
    strcpy(to, text);
    return OK;
}

EXPORTED int nvmlSystemGetDriverVersion(char *to, unsigned room)
{
    return initialized ? copy_text(to, room, "580.0.0") : UNINITIALIZED;
}

EXPORTED int nvmlSystemGetNVMLVersion(char *to, unsigned room)
{
    return initialized ? copy_text(to, room, "13.580.0.0") : UNINITIALIZED;
}

EXPORTED int nvmlSystemGetCudaDriverVersion(int *to)
{
    *to = (int)number("SOFTGPU_VERSION", 13000);
    return OK;
}

EXPORTED int nvmlSystemGetCudaDriverVersion_v2(int *to)
{
    return nvmlSystemGetCudaDriverVersion(to);
}

EXPORTED int nvmlDeviceGetCount_v2(unsigned *to)
{
    if (!initialized) return UNINITIALIZED;
    *to = device_count();
    return OK;
}

EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **to)
{
    if (!initialized) return UNINITIALIZED;
    if (index >= device_count()) return INVALID_ARGUMENT;
    *to = &devices[index];
    return OK;
}

static void uuid_of(const struct device *device, char text[64])
{
    unsigned char uuid[16];
    soft_uuid(device->physical, uuid);
    if (device->instance >= 0) uuid[15] = (unsigned char)(uuid[15] + 1 + device->instance);
    soft_uuid_text(device->instance < 0 ? "GPU-" : "MIG-", uuid, text);
}

EXPORTED int nvmlDeviceGetUUID(const struct device *device, char *to, unsigned room)
{
    if (!initialized) return UNINITIALIZED;
    char text[64];
    uuid_of(device, text);
    return copy_text(to, room, text);
}

EXPORTED int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **to)
{
    if (!initialized) return UNINITIALIZED;
    char text[64];
    for (unsigned i = 0; i < device_count(); i++) {
        uuid_of(&devices[i], text);
        if (strcmp(uuid, text)) continue;
        *to = &devices[i];
        return OK;
    }
    for (unsigned i = 0; i < mig_count(&devices[0]); i++) {
        uuid_of(&instances[i], text);
        if (strcmp(uuid, text)) continue;
        *to = &instances[i];
        return OK;
    }
    return NOT_FOUND;
}

/* Finds the text of "key=" in $SOFTGPU_PROFILE, which ends at ';'. NULL: the profile has no such key. */
static const char *profile_text(const char *key, size_t *length)
{
    const char *profile = getenv("SOFTGPU_PROFILE"), *found = profile ? strstr(profile, key) : NULL;
    if (!found) return NULL;
    found += strlen(key);
    *length = strcspn(found, ";");
    return *length ? found : NULL;
}

EXPORTED int nvmlDeviceGetName(const struct device *device, char *to, unsigned room)
{
    if (!initialized) return UNINITIALIZED;
    size_t length = strlen("Stand-in GPU");
    const char *name = profile_text("name=", &length);
    char text[128];
    snprintf(text, sizeof text, "%.*s%s", (int)length, name ? name : "Stand-in GPU",
             device->instance < 0 ? "" : " MIG 1g.1gb");
    return copy_text(to, room, text);
}

EXPORTED int nvmlDeviceGetCudaComputeCapability(const struct device *device, int *major, int *minor)
{
    (void)device;
    size_t length;
    const char *text = profile_text("cc=", &length);
    int capability = text ? atoi(text) : 86; /* the same default as the stand-in driver's */
    *major = capability / 10;
    *minor = capability % 10;
    return initialized ? OK : UNINITIALIZED;
}

/* The stand-in models no NUMA nodes: all its devices reach each other. */
EXPORTED int nvmlDeviceGetNumaNodeId(const struct device *device, unsigned *to)
{
    (void)device;
    *to = 0;
    return initialized ? OK : UNINITIALIZED;
}

EXPORTED int nvmlDeviceGetP2PStatus(const struct device *device, const struct device *other, int which, int *to)
{
    (void)device, (void)other, (void)which;
    *to = 0;
    return initialized ? OK : UNINITIALIZED;
}

EXPORTED int nvmlDeviceGetCpuAffinity(const struct device *device, unsigned count, unsigned long *to)
{
    (void)device;
    for (unsigned i = 0; i < count; i++)
        to[i] = ~0ul;
    return initialized ? OK : UNINITIALIZED;
}

EXPORTED int nvmlDeviceGetIndex(const struct device *device, unsigned *to)
{
    *to = (unsigned)(device->instance < 0 ? device->physical : device->instance);
    return initialized ? OK : UNINITIALIZED;
}

EXPORTED int nvmlDeviceGetMinorNumber(const struct device *device, unsigned *to)
{
    *to = (unsigned)device->physical;
    return initialized ? OK : UNINITIALIZED;
}

EXPORTED int nvmlDeviceGetCurrPcieLinkWidth(const struct device *device, unsigned *lanes)
{
    *lanes = 16;
    return device ? OK : UNINITIALIZED;
}

EXPORTED int nvmlDeviceGetCurrPcieLinkGeneration(const struct device *device, unsigned *generation)
{
    *generation = 5;
    return device ? OK : UNINITIALIZED;
}

struct fabric {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
};

EXPORTED int nvmlDeviceGetGpuFabricInfoV(const struct device *device, struct fabric *to)
{
    *to = (struct fabric){.version = to->version, .state = 0 /* not supported */};
    return device ? OK : UNINITIALIZED;
}

EXPORTED int nvmlDeviceGetPciInfo_v3(const struct device *device, struct pci *to)
{
    if (!initialized) return UNINITIALIZED;
    *to = (struct pci){.bus = 1 + (unsigned)device->physical};
    snprintf(to->bus_id_legacy, sizeof to->bus_id_legacy, "0000:%02x:00.0", to->bus);
    snprintf(to->bus_id, sizeof to->bus_id, "00000000:%02X:00.0", to->bus);
    return OK;
}

/* True if a process lives. A process that has ended but was not yet waited for holds nothing on a device. */
static bool is_alive(int pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *after = strrchr(text, ')');
    return after && after[1] && after[2] != 'Z' && after[2] != 'X';
}

/* Lists the processes on a device or instance. `to` has room for SOFT_PROCESSES + 1. */
static unsigned list_processes(const struct device *device, struct process *to)
{
    unsigned count = 0, in_turn = 0;
    uint64_t others = device->physical == 0 && device->instance < 1 ? number("SOFTNVML_OTHERS", 0) : 0;
    if (others) to[count++] = (struct process){.pid = 1, .used = others};
    for (int i = 0; state && i < SOFT_PROCESSES; i++) {
        int pid = __atomic_load_n(&state->processes[i].pid, __ATOMIC_ACQUIRE);
        uint64_t used = state->processes[i].used[device->physical];
        if (!pid || !used || !is_alive(pid)) continue;
        if (device->instance >= 0 && in_turn++ % mig_count(device) != (unsigned)device->instance) continue;
        to[count++] = (struct process){.pid = (unsigned)pid, .used = used};
    }
    for (unsigned i = 0; i < count; i++) {
        to[i].gpu_instance = device->instance < 0 ? UINT32_MAX : (unsigned)device->instance + 1;
        to[i].compute_instance = device->instance < 0 ? UINT32_MAX : 0;
    }
    return count;
}

static struct memory memory_of(const struct device *device)
{
    struct process processes[SOFT_PROCESSES + 1];
    struct memory memory = {.total = number("SOFTGPU_MEMORY", (uint64_t)8 << 30)};
    if (device->instance >= 0) memory.total /= mig_count(device);
    if (state) __atomic_fetch_add(&state->readings[device->physical], 1, __ATOMIC_SEQ_CST);
    unsigned count = list_processes(device, processes);
    for (unsigned i = 0; i < count; i++)
        memory.used += processes[i].used;
    memory.free = memory.total - memory.used;
    return memory;
}

EXPORTED int nvmlDeviceGetMemoryInfo(const struct device *device, struct memory *to)
{
    if (!initialized) return UNINITIALIZED;
    *to = memory_of(device);
    return OK;
}

EXPORTED int nvmlDeviceGetMemoryInfo_v2(const struct device *device, struct memory_v2 *to)
{
    if (!initialized) return UNINITIALIZED;
    if (to->version != (sizeof *to | 2 << 24)) return INVALID_ARGUMENT;
    struct memory memory = memory_of(device);
    to->total = memory.total;
    to->free = memory.free;
    to->used = memory.used;
    to->reserved = 0;
    return OK;
}

/* *count: room before the call, the number of processes after it. */
static int give_processes(const struct device *device, unsigned *count, struct process *to, struct process_v1 *to_v1)
{
    if (!initialized) return UNINITIALIZED;
    struct process processes[SOFT_PROCESSES + 1];
    const char *which = getenv("SOFTNVML_PROCESSES");
    bool hidden = which && !strcmp(which, "hidden"), none = which && !strcmp(which, "none");
    bool some = which && !strcmp(which, "some");
    unsigned found = hidden ? 0 : list_processes(device, processes), room = *count;
    if (which && !strcmp(which, "crowd")) found = room + 1;
    *count = found;
    if (room < found) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < found; i++) {
        if (none || (some && processes[i].pid == 1)) processes[i].used = NOT_AVAILABLE;
        if (to) to[i] = processes[i];
        if (to_v1) to_v1[i] = (struct process_v1){processes[i].pid, processes[i].used};
    }
    return OK;
}

EXPORTED int nvmlDeviceGetComputeRunningProcesses(const struct device *device, unsigned *count, struct process_v1 *to)
{
    return give_processes(device, count, NULL, to);
}

EXPORTED int nvmlDeviceGetComputeRunningProcesses_v2(const struct device *device, unsigned *count, struct process *to)
{
    return give_processes(device, count, to, NULL);
}

EXPORTED int nvmlDeviceGetComputeRunningProcesses_v3(const struct device *device, unsigned *count, struct process *to)
{
    return give_processes(device, count, to, NULL);
}

EXPORTED int nvmlDeviceGetGraphicsRunningProcesses_v3(const struct device *device, unsigned *count, struct process *to)
{
    const char *which = getenv("SOFTNVML_PROCESSES");
    if (which && !strcmp(which, "drawing")) return give_processes(device, count, to, NULL);
    *count = 0;
    return initialized ? OK : UNINITIALIZED;
}

EXPORTED int nvmlDeviceGetMPSComputeRunningProcesses_v3(const struct device *device, unsigned *count,
                                                        struct process *to)
{
    return nvmlDeviceGetGraphicsRunningProcesses_v3(device, count, to);
}

EXPORTED int nvmlDeviceGetMigMode(const struct device *device, unsigned *current, unsigned *pending)
{
    if (!initialized) return UNINITIALIZED;
    *current = *pending = mig_count(device) > 0;
    return OK;
}

EXPORTED int nvmlDeviceGetMaxMigDeviceCount(const struct device *device, unsigned *to)
{
    *to = mig_count(device);
    return initialized ? OK : UNINITIALIZED;
}

EXPORTED int nvmlDeviceGetMigDeviceHandleByIndex(const struct device *device, unsigned index, struct device **to)
{
    if (!initialized) return UNINITIALIZED;
    if (index >= mig_count(device)) return NOT_FOUND;
    *to = &instances[index];
    return OK;
}

EXPORTED int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(const struct device *device, struct device **to)
{
    if (!initialized) return UNINITIALIZED;
    if (device->instance < 0) return INVALID_ARGUMENT;
    *to = &devices[device->physical];
    return OK;
}

EXPORTED int nvmlDeviceIsMigDeviceHandle(const struct device *device, unsigned *to)
{
    *to = device->instance >= 0;
    return initialized ? OK : UNINITIALIZED;
}

/* PyTorch looks a device up by "0000:01:00.0" when memory runs out, and before it copies between devices. */
EXPORTED int nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct device **to)
{
    unsigned domain, bus;
    if (!initialized) return UNINITIALIZED;
    if (sscanf(id, "%x:%x", &domain, &bus) != 2 || !bus) return NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2(bus - 1, to) == OK ? OK : NOT_FOUND;
}

/* No kernel runs, so these have no number; programs expect that of some devices. */
#define UNMEASURED(name, ...)                                                                                          \
    EXPORTED int name(const struct device *device, __VA_ARGS__)                                                        \
    {                                                                                                                  \
        (void)device;                                                                                                  \
        return initialized ? NOT_SUPPORTED : UNINITIALIZED;                                                            \
    }
UNMEASURED(nvmlDeviceGetUtilizationRates, void *)
UNMEASURED(nvmlDeviceGetTemperature, int, unsigned *)
UNMEASURED(nvmlDeviceGetTemperatureV, void *)
UNMEASURED(nvmlDeviceGetTemperatureThreshold, int, unsigned *)
UNMEASURED(nvmlDeviceGetPowerUsage, unsigned *)
UNMEASURED(nvmlDeviceGetPowerManagementLimit, unsigned *)
UNMEASURED(nvmlDeviceGetEnforcedPowerLimit, unsigned *)
UNMEASURED(nvmlDeviceGetTotalEnergyConsumption, unsigned long long *)
UNMEASURED(nvmlDeviceGetClockInfo, int, unsigned *)
UNMEASURED(nvmlDeviceGetMaxClockInfo, int, unsigned *)
UNMEASURED(nvmlDeviceGetFanSpeed, unsigned *)
UNMEASURED(nvmlDeviceGetNvLinkState, unsigned, int *)
UNMEASURED(nvmlDeviceGetPerformanceState, int *)
UNMEASURED(nvmlDeviceGetEncoderUtilization, unsigned *, unsigned *)
UNMEASURED(nvmlDeviceGetDecoderUtilization, unsigned *, unsigned *)

struct field {
    unsigned id, scope;
    long long time, latency;
    int type, result;
    uint64_t value;
};

EXPORTED int nvmlDeviceGetFieldValues(const struct device *device, int count, struct field *fields)
{
    for (int i = 0; i < count; i++)
        fields[i].result = NOT_SUPPORTED;
    return device ? OK : UNINITIALIZED;
}

EXPORTED int nvmlDeviceGetNvLinkRemoteDeviceType(const struct device *device, unsigned link, int *to)
{
    (void)device, (void)link, (void)to;
    return initialized ? NOT_SUPPORTED : UNINITIALIZED;
}

EXPORTED int nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct device *device, unsigned link, struct pci *to)
{
    (void)device, (void)link, (void)to;
    return initialized ? NOT_SUPPORTED : UNINITIALIZED;
}
