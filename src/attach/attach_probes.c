#include "attach/attach_probes.h"

#include "attach/attach_driver.h"

#define STACK (MP_ATTACH_STACK | MP_ATTACH_SAMPLED)
#define NEW   (STACK | MP_ATTACH_METHOD)
#define USAGE "c10::reportMemoryUsageToProfiler"
#define OOM   "c10::reportOutOfMemoryToProfiler"

/* PyTorch's CPU allocator reports to the profiler only while a profiler runs. So we probe a function that it calls for
 * each block. PyTorch's other allocators always report. A probe of alloc_cpu() itself would need the call's return, but
 * the call may throw. */
const struct mp_attach_probe mp_attach_probes[] = {
    {"libc10", "_ZN3c108free_cpuEPv", "c10::free_cpu", MP_ATTACH_CPU_FREE, MP_ATTACH_SAMPLED, 0},
    {"libc10", MP_C10_USAGE_UNSIGNED, USAGE, MP_ATTACH_REPORT, STACK, 0},
    {"libc10", MP_C10_USAGE_SIGNED, USAGE, MP_ATTACH_REPORT, STACK, 0},
    {"libc10", MP_C10_USAGE_OLD, USAGE, MP_ATTACH_REPORT_OLD, STACK, 0},
    {"libc10", MP_C10_OUT_OF_MEMORY_UNSIGNED, OOM, MP_ATTACH_OOM, MP_ATTACH_STACK, 0},
    {"libc10", MP_C10_OUT_OF_MEMORY_SIGNED, OOM, MP_ATTACH_OOM, MP_ATTACH_STACK, 0},
    {"libc10", "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm", "c10::ProfiledCPUMemoryReporter::New", MP_ATTACH_CPU_ALLOC,
     NEW, 0},
#define ROW(symbol, name, version, per_thread, cbid, action, ...)                                                      \
    {"libcuda.so", #symbol, name, MP_ATTACH_DRIVER, 0, MP_CUDA_##action},
    MP_CUDA_CALLS(ROW)
#undef ROW
};
const unsigned mp_attach_probe_count = sizeof mp_attach_probes / sizeof *mp_attach_probes;
_Static_assert(sizeof mp_attach_probes / sizeof *mp_attach_probes <= MP_ATTACH_PROBE_MASK + 1,
               "a cookie has their numbers");

bool mp_attach_probe_cookie(unsigned number, unsigned *cookie)
{
    const struct mp_attach_probe *probe = &mp_attach_probes[number];
    if (probe->action == MP_ATTACH_DRIVER && !mp_attach_driver_cookie(probe->call, cookie)) return false;
    if (probe->action != MP_ATTACH_DRIVER) *cookie = probe->cookie;
    *cookie |= number;
    return true;
}

static struct mp_c10_device device_of(uint64_t word)
{
    return (struct mp_c10_device){(int8_t)(word & 0xff), (int8_t)(word >> 8 & 0xff)};
}

struct mp_attach_fact mp_attach_fact_of(const struct mp_attach_event *event)
{
    const struct mp_attach_probe *probe = &mp_attach_probes[event->probe];
    const uint64_t *argument = (const uint64_t *)event->argument;
    struct mp_attach_fact fact = {.type = MP_EVENT_NONE,
                                  .kind = probe->action <= MP_ATTACH_OOM ? MP_KIND_DEVICE : MP_KIND_HOST,
                                  .pool = "",
                                  .device = {MP_DEVICE_CPU, -1},
                                  .allocated = MP_RECORD_TOTAL_UNKNOWN,
                                  .reserved = MP_RECORD_TOTAL_UNKNOWN};
    int64_t bytes = (int64_t)argument[1];
    switch (probe->action) {
    case MP_ATTACH_REPORT:
    case MP_ATTACH_REPORT_OLD:
        fact.device = device_of(argument[probe->action == MP_ATTACH_REPORT ? 4 : 2]);
        if (!argument[0] || !bytes) break;
        fact.type = bytes > 0 ? MP_EVENT_ALLOC : MP_EVENT_FREE;
        fact.address = argument[0];
        fact.bytes = (uint64_t)(bytes > 0 ? bytes : -bytes);
        if (fact.device.type == MP_DEVICE_CPU) fact.kind = MP_KIND_HOST;
        if (fact.device.type != MP_DEVICE_CPU && probe->action == MP_ATTACH_REPORT) {
            fact.allocated = argument[2];
            fact.reserved = argument[3];
        }
        break;
    case MP_ATTACH_OOM:
        fact.type = MP_EVENT_OOM;
        fact.device = device_of(argument[3]);
        fact.bytes = argument[0];
        fact.allocated = argument[1];
        fact.reserved = argument[2];
        break;
    case MP_ATTACH_CPU_ALLOC:
        if (argument[0]) fact.type = MP_EVENT_ALLOC;
        fact.address = argument[0];
        fact.bytes = argument[1];
        break;
    case MP_ATTACH_CPU_FREE:
        if (argument[0]) fact.type = MP_EVENT_FREE;
        fact.address = argument[0];
        fact.bytes = MP_BYTES_UNKNOWN;
        break;
    case MP_ATTACH_DRIVER:
        break;
    }
    return fact;
}
