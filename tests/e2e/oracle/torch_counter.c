/*
 * Counts the reports of PyTorch's allocators in the simplest way, as the reference for recordings. It shares no code
 * with the recorder.
 *
 *     TORCH_COUNTER_OUT=counts.json LD_PRELOAD=torch_counter.so python3 train.py
 *
 * It replaces c10's reporting functions and calls the next definition, so it may be before or after other libraries in
 * LD_PRELOAD. The numbers are written when the process ends by exit(); a process without events writes nothing, nor
 * does a forked child. Environment: TORCH_COUNTER_OUT, the file to write.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT  __attribute__((visibility("default")))
#define DEVICES 32

/* c10::Device: two bytes, passed in one register. */
struct c10_device {
    int8_t type, index;
};

struct counts {
    struct c10_device device;
    uint64_t allocs, frees, live_blocks, live_bytes, peak_bytes;
    uint64_t unknown_frees;    /* frees of addresses that are not live; live_bytes ignores them */
    uint64_t reused_addresses; /* allocations at the address of a live block, whose free was not reported */
    uint64_t wrong_sizes;      /* frees with another size than the allocation */
    int64_t reported_bytes;    /* the allocator's own last total; -1: it reports none */
};

struct block {
    uintptr_t address; /* 0: empty, 1: removed */
    uint64_t bytes;
    unsigned device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner;
static struct counts devices[DEVICES];
static unsigned device_count;
static uint64_t out_of_memory;
static struct block *blocks;
static size_t block_room, block_used; /* block_used counts removed entries, too */

/* ---- the table of live blocks */

static struct block *find_block(uintptr_t address)
{
    if (!block_room) return NULL;
    for (size_t at = address / 16 % block_room;; at = (at + 1) % block_room) {
        if (blocks[at].address == address) return &blocks[at];
        if (!blocks[at].address) return NULL;
    }
}

static void add_block(uintptr_t address, uint64_t bytes, unsigned device)
{
    if (block_used * 2 >= block_room) {
        struct block *old = blocks;
        size_t old_room = block_room;
        block_room = old_room ? old_room * 2 : 4099;
        block_used = 0;
        blocks = calloc(block_room, sizeof *blocks);
        if (!blocks) abort();
        for (size_t i = 0; i < old_room; i++)
            if (old[i].address > 1) add_block(old[i].address, old[i].bytes, old[i].device);
        free(old);
    }
    size_t at = address / 16 % block_room;
    while (blocks[at].address)
        at = (at + 1) % block_room;
    blocks[at] = (struct block){address, bytes, device};
    block_used++;
}

/* ---- counting */

static unsigned find_device(struct c10_device device)
{
    unsigned i = 0;
    while (i < device_count && memcmp(&devices[i].device, &device, sizeof device))
        i++;
    if (i == DEVICES) abort();
    if (i == device_count) devices[device_count++] = (struct counts){.device = device, .reported_bytes = -1};
    return i;
}

static void remove_block(struct block *block)
{
    struct counts *counts = &devices[block->device];
    counts->live_blocks--;
    counts->live_bytes -= block->bytes;
    block->address = 1;
}

static void count(uintptr_t address, int64_t bytes, int64_t total, struct c10_device where)
{
    pthread_mutex_lock(&lock);
    unsigned device = find_device(where);
    struct counts *counts = &devices[device];
    struct block *block = find_block(address);
    counts->reported_bytes = total;
    if (bytes > 0) {
        counts->allocs++;
        if (block) {
            counts->reused_addresses++;
            remove_block(block);
        }
        add_block(address, (uint64_t)bytes, device);
        counts->live_blocks++;
        counts->live_bytes += (uint64_t)bytes;
        if (counts->live_bytes > counts->peak_bytes) counts->peak_bytes = counts->live_bytes;
    } else if (bytes < 0) {
        counts->frees++;
        if (!block)
            counts->unknown_frees++;
        else if (block->bytes != (uint64_t)-bytes)
            counts->wrong_sizes++;
        if (block) remove_block(block);
    }
    pthread_mutex_unlock(&lock);
}

static void count_out_of_memory(void)
{
    pthread_mutex_lock(&lock);
    out_of_memory++;
    pthread_mutex_unlock(&lock);
}

/* ---- the next definition */

/* Finds libc10 among the loaded libraries: in some distributions its name includes the release. */
static int is_libc10(struct dl_phdr_info *info, size_t size, void *found)
{
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || strncmp(slash, "/libc10.so", strlen("/libc10.so"))) return 0;
    *(const char **)found = info->dlpi_name;
    return 1;
}

static void *next(const char *symbol)
{
    void *found = dlsym(RTLD_NEXT, symbol);
    const char *path = NULL;
    if (found || !dl_iterate_phdr(is_libc10, &path)) return found;
    void *libc10 = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    return libc10 ? dlsym(libc10, symbol) : NULL;
}

#define CALL_NEXT(symbol, type, ...)                                                                                   \
    do {                                                                                                               \
        static void *following; /* threads may write it more than once, always with the same value */                  \
        if (!following) following = next(#symbol);                                                                     \
        if (following) ((type)following)(__VA_ARGS__);                                                                 \
    } while (0)

typedef void report_3(void *, int64_t, struct c10_device);
typedef void report_5(void *, int64_t, uint64_t, uint64_t, struct c10_device);
typedef void report_oom(int64_t, uint64_t, uint64_t, struct c10_device);

EXPORT report_3 _ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE;
EXPORT report_5 _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE,
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE;
EXPORT report_oom _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE,
    _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE;
EXPORT bool _ZN3c1022memoryProfilingEnabledEv(void);

/* PyTorch 1.9 and before. */
void _ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE(void *address, int64_t bytes, struct c10_device device)
{
    count((uintptr_t)address, bytes, -1, device);
    CALL_NEXT(_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE, report_3 *, address, bytes, device);
}

/* PyTorch 1.10 to 1.13. */
void _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(void *address, int64_t bytes, uint64_t allocated,
                                                           uint64_t reserved, struct c10_device device)
{
    count((uintptr_t)address, bytes, (int64_t)allocated, device);
    CALL_NEXT(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE, report_5 *, address, bytes, allocated, reserved,
              device);
}

/* PyTorch 2. */
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *address, int64_t bytes, uint64_t allocated,
                                                           uint64_t reserved, struct c10_device device)
{
    count((uintptr_t)address, bytes, (int64_t)allocated, device);
    CALL_NEXT(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE, report_5 *, address, bytes, allocated, reserved,
              device);
}

void _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE(int64_t bytes, uint64_t allocated, uint64_t reserved,
                                                         struct c10_device device)
{
    count_out_of_memory();
    CALL_NEXT(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE, report_oom *, bytes, allocated, reserved, device);
}

void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t bytes, uint64_t allocated, uint64_t reserved,
                                                         struct c10_device device)
{
    count_out_of_memory();
    CALL_NEXT(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE, report_oom *, bytes, allocated, reserved, device);
}

/* Without this the CPU allocator reports nothing. */
bool _ZN3c1022memoryProfilingEnabledEv(void)
{
    return true;
}

/* ---- the result */

__attribute__((constructor)) static void begin(void)
{
    owner = getpid();
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("TORCH_COUNTER_OUT");
    if (!path || getpid() != owner) return;
    pthread_mutex_lock(&lock);
    FILE *file = device_count || out_of_memory ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "{\"out_of_memory\": %lu, \"devices\": [", out_of_memory);
        for (unsigned i = 0; i < device_count; i++) {
            const struct counts *counts = &devices[i];
            fprintf(file, "%s\n  {\"type\": %d, \"index\": %d", i ? "," : "", counts->device.type,
                    counts->device.index);
            fprintf(file, ", \"allocs\": %lu, \"frees\": %lu", counts->allocs, counts->frees);
            fprintf(file, ", \"live_blocks\": %lu, \"live_bytes\": %lu", counts->live_blocks, counts->live_bytes);
            fprintf(file, ", \"peak_bytes\": %lu, \"unknown_frees\": %lu", counts->peak_bytes, counts->unknown_frees);
            fprintf(file, ", \"reused_addresses\": %lu, \"wrong_sizes\": %lu", counts->reused_addresses,
                    counts->wrong_sizes);
            fprintf(file, ", \"reported_bytes\": %ld}", counts->reported_bytes);
        }
        fputs("\n]}\n", file);
        fclose(file);
    }
    pthread_mutex_unlock(&lock);
}
