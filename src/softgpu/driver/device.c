/* The devices of the stand-in: their memory, their addresses, and the answers of cuInit() and the cuDevice
 * functions. */
#include "softgpu/driver/device.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/ledger.h"
#include "softgpu/driver/profile.h"

#include <fcntl.h>
#include <memprof.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

pthread_mutex_t soft_lock = PTHREAD_MUTEX_INITIALIZER;
struct soft_device soft_devices[SOFT_DEVICES];
int soft_device_count;

/* Device addresses, to which nothing is mapped: a program that reads there faults, as on a GPU. A freed range is reused
 * at once, from a list for each power of two of the size. The range that was freed last comes first. */
#define ADDRESS_BITS 44
#define SMALLEST     9
static uint64_t range_from, next_address, address_end, next_low = 0x10000000;
struct free_range {
    struct free_range *next;
    uint64_t address;
};
static struct free_range *free_ranges[ADDRESS_BITS];
static struct soft_state *state;
static int state_slot = -1;

bool soft_is_device_address(uint64_t address)
{
    return address >= range_from && address < address_end;
}

EXPORTED bool softgpu_is_device_address(uint64_t address)
{
    return address >= range_from && address < next_address;
}

bool soft_has_device(CUdevice device)
{
    return device >= 0 && device < soft_device_count;
}

static void publish(const struct soft_device *device)
{
    if (state && state_slot >= 0 && state->processes[state_slot].pid == getpid())
        state->processes[state_slot].used[device->physical] = device->used;
}

bool soft_take(enum soft_class class, int device, uint64_t bytes, uint64_t asked)
{
    struct soft_device *at = &soft_devices[device];
    if (soft_refusing() || bytes > at->total || at->used + bytes > at->total) {
        soft_refused(class, device, asked);
        return false;
    }
    at->used += bytes;
    publish(at);
    return true;
}

void soft_give(int device, uint64_t bytes)
{
    soft_devices[device].used -= bytes;
    publish(&soft_devices[device]);
}

static unsigned size_class(uint64_t bytes)
{
    unsigned bits = SMALLEST;
    while (((uint64_t)1 << bits) < bytes)
        bits++;
    return bits;
}

uint64_t soft_new_address(uint64_t bytes)
{
    unsigned bits = size_class(bytes);
    if (bits >= ADDRESS_BITS - 1) return 0;
    struct free_range *range = free_ranges[bits];
    if (range) {
        free_ranges[bits] = range->next;
        uint64_t address = range->address;
        free(range);
        return address;
    }
    uint64_t size = (uint64_t)1 << bits;
    uint64_t address = soft_round(next_address, size < SOFT_GRANULE ? size : SOFT_GRANULE);
    if (address + size > address_end) return 0;
    next_address = address + size;
    return address;
}

uint64_t soft_new_low_address(uint64_t bytes)
{
    uint64_t address = next_low;
    next_low += soft_round(bytes, 512);
    return address;
}

void soft_free_address(uint64_t address, uint64_t bytes)
{
    if (address < (uint64_t)1 << 32) return;
    struct free_range *range = malloc(sizeof *range);
    if (!range) return;
    unsigned bits = size_class(bytes);
    *range = (struct free_range){free_ranges[bits], address};
    free_ranges[bits] = range;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void open_state(void)
{
    const char *path = getenv("SOFTGPU_STATE");
    int descriptor = path && *path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (descriptor < 0) return;
    if (!ftruncate(descriptor, sizeof *state)) {
        void *at = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        if (at != MAP_FAILED) state = at;
    }
    close(descriptor);
    for (int i = 0; state && i < SOFT_PROCESSES; i++) {
        int32_t before = __atomic_load_n(&state->processes[i].pid, __ATOMIC_ACQUIRE);
        if (before && !kill(before, 0)) continue;
        if (!__atomic_compare_exchange_n(&state->processes[i].pid, &before, getpid(), false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        memset(state->processes[i].used, 0, sizeof state->processes[i].used);
        state_slot = i;
        return;
    }
}

/* The physical ordinal that an entry of CUDA_VISIBLE_DEVICES means: it is an ordinal or the beginning of a UUID. -1:
 * none. */
static int physical_device(const char *text, size_t length, int present)
{
    for (int i = 0; i < present; i++) {
        unsigned char uuid[16];
        char own[64];
        soft_uuid(i, uuid);
        soft_uuid_text("GPU-", uuid, own);
        if (length > 4 && !strncmp(own, text, length)) return i;
    }
    char *end;
    long ordinal = strtol(text, &end, 10);
    return end == text + length && length && ordinal >= 0 && ordinal < present ? (int)ordinal : -1;
}

static void find_devices(void)
{
    int present = (int)number("SOFTGPU_DEVICES", 1);
    if (present > SOFT_DEVICES) present = SOFT_DEVICES;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; !visible && i < present; i++)
        soft_devices[soft_device_count++].physical = i;
    while (visible && *visible && soft_device_count < present) {
        size_t length = strcspn(visible, ",");
        int physical = physical_device(visible, length, present);
        if (physical < 0) break; /* as in CUDA, an invalid entry hides the rest of the list */
        soft_devices[soft_device_count++].physical = physical;
        visible += length + (visible[length] == ',');
    }
    for (int i = 0; i < soft_device_count; i++)
        soft_devices[i].total = number("SOFTGPU_MEMORY", (uint64_t)8 << 30);
}

/* On a machine with a real GPU, a program would compute nothing without noticing. So there the stand-in works only if
 * SOFTGPU_ON is set. */
static bool is_meant(void)
{
    const char *on = getenv("SOFTGPU_ON");
    if ((on && *on) || (access("/dev/nvidiactl", F_OK) && access("/proc/driver/nvidia/version", F_OK))) return true;
    static bool reported;
    if (!reported)
        fputs("memprof: this machine has a GPU, and the stand-in's libcuda was found in place of NVIDIA's; look at "
              "LD_PRELOAD and LD_LIBRARY_PATH, or run the program under \"memprof plan\"\n",
              stderr);
    reported = true;
    return false;
}

static CUresult start(void)
{
    static bool started;
    if (!is_meant()) return CUDA_ERROR_NO_DEVICE;
    CUresult no_device = (CUresult)number("SOFTGPU_NO_DEVICE", CUDA_SUCCESS);
    if (no_device) return no_device;
    if (started) return CUDA_SUCCESS;
    uint64_t size = (uint64_t)1 << ADDRESS_BITS;
    void *range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    madvise(range, size, MADV_DONTDUMP);
    range_from = next_address = soft_round((uint64_t)(uintptr_t)range, SOFT_GRANULE);
    address_end = (uint64_t)(uintptr_t)range + size;
    soft_read_profile();
    find_devices();
    open_state();
    soft_open_ledger();
    started = true;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuInit(unsigned Flags)
{
    struct {
        unsigned Flags;
    } params = {Flags};
    struct soft_call call;
    soft_enter(&call, SOFT_CBID_cuInit, "cuInit", &params);
    pthread_mutex_lock(&soft_lock);
    call.result = start();
    pthread_mutex_unlock(&soft_lock);
    if (call.result == CUDA_SUCCESS) soft_inject();
    soft_exit(&call);
    static bool reported;
    if (!call.result && !soft_device_count && !__atomic_exchange_n(&reported, true, __ATOMIC_RELAXED))
        memprof_mark("plan: hidden");
    return call.result;
}

EXPORTED CUresult cuDriverGetVersion(int *driverVersion)
{
    *driverVersion = (int)number("SOFTGPU_VERSION", 13000);
    return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *device, int ordinal)
{
    if (!soft_has_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

static CUresult device_count(int *to)
{
    *to = soft_device_count;
    return CUDA_SUCCESS;
}

static CUresult device_name(char *name, int length, CUdevice device)
{
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "%s", soft_profile_name());
    return CUDA_SUCCESS;
}

static CUresult device_uuid(CUuuid *uuid, CUdevice device)
{
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    unsigned char bytes[16];
    soft_uuid(soft_devices[device].physical, bytes);
    memcpy(uuid->bytes, bytes, sizeof bytes);
    return CUDA_SUCCESS;
}

static CUresult device_total(size_t *bytes, CUdevice device)
{
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = soft_devices[device].total;
    return CUDA_SUCCESS;
}

static CUresult device_attribute(int *value, int attribute, CUdevice device)
{
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *value = soft_attribute(attribute, soft_devices[device].physical);
    return CUDA_SUCCESS;
}

static CUresult pci_bus_id(char *text, int length, CUdevice device)
{
    int bus = 0;
    CUresult result = device_attribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);
    if (!result) snprintf(text, (size_t)length, "0000:%02x:00.0", (unsigned)bus);
    return result;
}

static CUresult memory_info(size_t *free_bytes, size_t *total)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *total = soft_devices[context->device].total;
    *free_bytes = *total - soft_devices[context->device].used;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGet, device_get(device, ordinal), (CUdevice *, device), (int, ordinal))
ENTRY(cuDeviceGetCount, device_count(count), (int *, count))
ENTRY(cuDeviceGetName, device_name(name, len, dev), (char *, name), (int, len), (CUdevice, dev))
ENTRY(cuDeviceGetUuid, device_uuid(uuid, dev), (CUuuid *, uuid), (CUdevice, dev))
ENTRY(cuDeviceGetUuid_v2, device_uuid(uuid, dev), (CUuuid *, uuid), (CUdevice, dev))
ENTRY(cuDeviceTotalMem_v2, device_total(bytes, dev), (size_t *, bytes), (CUdevice, dev))
ENTRY(cuDeviceGetAttribute, device_attribute(pi, attrib, dev), (int *, pi), (int, attrib), (CUdevice, dev))
ENTRY(cuDeviceGetPCIBusId, pci_bus_id(text, len, dev), (char *, text), (int, len), (CUdevice, dev))
ENTRY(cuMemGetInfo_v2, memory_info(free, total), (size_t *, free), (size_t *, total))
