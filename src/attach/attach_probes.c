#include "attach/attach_probes.h"

#define STACK (MP_ATTACH_STACK | MP_ATTACH_SAMPLED)
#define NEW   (STACK | MP_ATTACH_METHOD)
#define OUT   (MP_ATTACH_STACK | MP_ATTACH_RETURNS | MP_ATTACH_OUT)

/* Frees come first: a block whose free was missed would look like a leak. PyTorch's CPU allocator reports to its
 * profiler only while that runs, so what it calls for each block is probed; its others always report. alloc_cpu()
 * itself would have to be probed where it returns, and it may throw. */
const struct mp_attach_probe mp_attach_probes[] = {
    {"libc10", "_ZN3c108free_cpuEPv", MP_ATTACH_CPU_FREE, MP_ATTACH_SAMPLED, MP_SOURCE_TORCH, "", MP_KIND_HOST},
    {"libcuda.so", "cuMemFree_v2", MP_ATTACH_FREE, 0, MP_SOURCE_HOOKS, "", MP_KIND_DEVICE},
    {"libcuda.so", "cuMemFreeAsync", MP_ATTACH_FREE, 0, MP_SOURCE_HOOKS, "pool", MP_KIND_POOL},
    {"libcuda.so", "cuMemFreeHost", MP_ATTACH_FREE, 0, MP_SOURCE_HOOKS, "", MP_KIND_PINNED},
    {"libc10", MP_C10_USAGE_UNSIGNED, MP_ATTACH_REPORT, STACK, MP_SOURCE_TORCH, "", MP_KIND_DEVICE},
    {"libc10", MP_C10_USAGE_SIGNED, MP_ATTACH_REPORT, STACK, MP_SOURCE_TORCH, "", MP_KIND_DEVICE},
    {"libc10", MP_C10_USAGE_OLD, MP_ATTACH_REPORT_OLD, STACK, MP_SOURCE_TORCH, "", MP_KIND_DEVICE},
    {"libc10", MP_C10_OUT_OF_MEMORY_UNSIGNED, MP_ATTACH_OOM, MP_ATTACH_STACK, MP_SOURCE_TORCH, "", MP_KIND_DEVICE},
    {"libc10", "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm", MP_ATTACH_CPU_ALLOC, NEW, MP_SOURCE_TORCH, "",
     MP_KIND_HOST},
    {"libcuda.so", "cuMemAlloc_v2", MP_ATTACH_ALLOC, OUT, MP_SOURCE_HOOKS, "", MP_KIND_DEVICE},
    {"libcuda.so", "cuMemAllocManaged", MP_ATTACH_ALLOC, OUT, MP_SOURCE_HOOKS, "managed", MP_KIND_MANAGED},
    {"libcuda.so", "cuMemAllocPitch_v2", MP_ATTACH_ALLOC_PITCH, OUT, MP_SOURCE_HOOKS, "", MP_KIND_DEVICE},
    {"libcuda.so", "cuMemAllocAsync", MP_ATTACH_ALLOC, OUT, MP_SOURCE_HOOKS, "pool", MP_KIND_POOL},
    {"libcuda.so", "cuMemAllocHost_v2", MP_ATTACH_ALLOC, OUT, MP_SOURCE_HOOKS, "", MP_KIND_PINNED},
    {"libcuda.so", "cuMemHostAlloc", MP_ATTACH_ALLOC, OUT, MP_SOURCE_HOOKS, "", MP_KIND_PINNED},
};
const unsigned mp_attach_probe_count = sizeof mp_attach_probes / sizeof *mp_attach_probes;

static struct mp_c10_device device_of(uint64_t word)
{
    return (struct mp_c10_device){(int8_t)(word & 0xff), (int8_t)(word >> 8 & 0xff)};
}

struct mp_attach_fact mp_attach_fact_of(const struct mp_attach_event *event)
{
    const struct mp_attach_probe *probe = &mp_attach_probes[event->probe];
    const uint64_t *argument = (const uint64_t *)event->argument;
    struct mp_attach_fact fact = {.type = MP_EVENT_NONE,
                                  .kind = probe->kind,
                                  .pool = probe->pool,
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
    case MP_ATTACH_ALLOC:
    case MP_ATTACH_ALLOC_PITCH:
    case MP_ATTACH_FREE:
        fact.of_driver = true;
        if (probe->kind != MP_KIND_PINNED) fact.device = (struct mp_c10_device){MP_DEVICE_CUDA, 0};
        fact.address = probe->action == MP_ATTACH_FREE ? argument[0] : event->out[0];
        fact.bytes = probe->action == MP_ATTACH_ALLOC         ? argument[1]
                     : probe->action == MP_ATTACH_ALLOC_PITCH ? event->out[1] * argument[3]
                                                              : MP_BYTES_UNKNOWN;
        if (fact.address && !(uint32_t)event->result)
            fact.type = probe->action == MP_ATTACH_FREE ? MP_EVENT_FREE : MP_EVENT_ALLOC;
        break;
    }
    return fact;
}
