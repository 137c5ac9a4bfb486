/*
 * A stand-in for PyTorch's libc10 with a CUDA caching allocator, for tests without a GPU. It exports the reporting
 * functions of every release (c10/core/Allocator.h), and calls them through its PLT as CUDACachingAllocator.cpp does.
 * The definitions here are "PyTorch's own profiler": they count the reports that reach them.
 *
 * Loaded by c10_program.c with local scope, as Python loads torch.
 */
#include <stddef.h>
#include <stdint.h>

struct c10_device {
    int8_t type, index;
};

#define EXPORTED(name) __asm__(name) __attribute__((visibility("default"), noinline))

static uint64_t seen_by_profiler;

void usage_unsigned(void *address, int64_t bytes, size_t allocated, size_t reserved, struct c10_device device)
    EXPORTED("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
void usage_unsigned(void *address, int64_t bytes, size_t allocated, size_t reserved, struct c10_device device)
{
    (void)address, (void)allocated, (void)reserved, (void)device, (void)bytes;
    seen_by_profiler++;
}

void usage_signed(void *address, int64_t bytes, int64_t allocated, int64_t reserved, struct c10_device device)
    EXPORTED("_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE");
void usage_signed(void *address, int64_t bytes, int64_t allocated, int64_t reserved, struct c10_device device)
{
    (void)address, (void)allocated, (void)reserved, (void)device, (void)bytes;
    seen_by_profiler++;
}

void usage_old(void *address, int64_t bytes, struct c10_device device)
    EXPORTED("_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE");
void usage_old(void *address, int64_t bytes, struct c10_device device)
{
    (void)address, (void)device, (void)bytes;
    seen_by_profiler++;
}

void out_of_memory(int64_t bytes, size_t allocated, size_t reserved, struct c10_device device)
    EXPORTED("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
void out_of_memory(int64_t bytes, size_t allocated, size_t reserved, struct c10_device device)
{
    (void)bytes, (void)allocated, (void)reserved, (void)device;
    seen_by_profiler++;
}

_Bool profiling_enabled(void) EXPORTED("_ZN3c1022memoryProfilingEnabledEv");
_Bool profiling_enabled(void)
{
    return 0;
}

/* The program calls this: makes a report with the signature of index `signature` (0: 2.x, 1: 1.10-1.13, 2: 1.9). */
__attribute__((visibility("default"))) void stand_in_report(int signature, void *address, int64_t bytes,
                                                            size_t allocated, size_t reserved, int type, int index);
void stand_in_report(int signature, void *address, int64_t bytes, size_t allocated, size_t reserved, int type,
                     int index)
{
    struct c10_device device = {(int8_t)type, (int8_t)index};
    if (signature == 0)
        usage_unsigned(address, bytes, allocated, reserved, device);
    else if (signature == 1)
        usage_signed(address, bytes, (int64_t)allocated, (int64_t)reserved, device);
    else
        usage_old(address, bytes, device);
}

__attribute__((visibility("default"))) void stand_in_out_of_memory(int64_t bytes, size_t allocated, size_t reserved,
                                                                   int index);
void stand_in_out_of_memory(int64_t bytes, size_t allocated, size_t reserved, int index)
{
    out_of_memory(bytes, allocated, reserved, (struct c10_device){1, (int8_t)index});
}

__attribute__((visibility("default"))) _Bool stand_in_cpu_is_reported(void);
_Bool stand_in_cpu_is_reported(void)
{
    return profiling_enabled();
}

__attribute__((visibility("default"))) uint64_t stand_in_seen_by_profiler(void);
uint64_t stand_in_seen_by_profiler(void)
{
    return seen_by_profiler;
}
