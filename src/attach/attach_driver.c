#include "attach/attach_driver.h"

#include <string.h>

#include "capture/cuda/array_bytes.h"
#include "capture/cuda/live.h"

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

#define BEGINS (MP_ATTACH_RETURNS | MP_ATTACH_STACK)
#define OUT    (BEGINS | MP_ATTACH_OUT)

/* The driver's calls. For each: whether a probe is set at it, and the class and track of the block or handle that it
 * begins or ends. */
static const struct call {
    bool probed;
    unsigned cookie;
    enum mp_live_class class;
    const char *track;
    enum mp_kind kind;
    bool of_host;
} calls[MP_CUDA_ACTIONS] = {
    [MP_CUDA_ALLOC] = {true, OUT, MP_LIVE_MEMORY, "", MP_KIND_DEVICE, false},
    [MP_CUDA_ALLOC_PITCH] = {true, OUT | MP_ATTACH_WORDS_2ND, MP_LIVE_MEMORY, "", MP_KIND_DEVICE, false},
    [MP_CUDA_ALLOC_MANAGED] = {true, OUT, MP_LIVE_MEMORY, "managed", MP_KIND_MANAGED, false},
    [MP_CUDA_FREE] = {true, 0, MP_LIVE_MEMORY, "", MP_KIND_DEVICE, false},
    [MP_CUDA_HOST_ALLOC] = {true, OUT, MP_LIVE_MEMORY, "", MP_KIND_PINNED, true},
    [MP_CUDA_HOST_FREE] = {true, 0, MP_LIVE_MEMORY, "", MP_KIND_PINNED, true},
    [MP_CUDA_HOST_REGISTER] = {true, BEGINS, MP_LIVE_REGISTERED, "registered", MP_KIND_PINNED, true},
    [MP_CUDA_HOST_UNREGISTER] = {true, 0, MP_LIVE_REGISTERED, "registered", MP_KIND_PINNED, true},
    [MP_CUDA_ALLOC_ASYNC] = {true, OUT, MP_LIVE_MEMORY, "pool", MP_KIND_POOL, false},
    [MP_CUDA_ALLOC_FROM_POOL] = {true, OUT, MP_LIVE_MEMORY, "pool", MP_KIND_POOL, false},
    [MP_CUDA_FREE_ASYNC] = {true, 0, MP_LIVE_MEMORY, "pool", MP_KIND_POOL, false},
    [MP_CUDA_ADDRESS_RESERVE] = {true, OUT, MP_LIVE_RESERVATION, "addresses", MP_KIND_VMM, false},
    [MP_CUDA_ADDRESS_FREE] = {true, 0, MP_LIVE_RESERVATION, "addresses", MP_KIND_VMM, false},
    [MP_CUDA_VMM_CREATE] = {true, OUT | MP_ATTACH_WORDS_3RD, MP_LIVE_PHYSICAL, "", MP_KIND_VMM, false},
    [MP_CUDA_VMM_RETAIN] = {true, MP_ATTACH_RETURNS | MP_ATTACH_OUT, MP_LIVE_PHYSICAL, "", MP_KIND_VMM, false},
    [MP_CUDA_VMM_RELEASE] = {true, 0, MP_LIVE_PHYSICAL, "", MP_KIND_VMM, false},
    [MP_CUDA_VMM_MAP] = {true, BEGINS, MP_LIVE_MAPPING, "mapped", MP_KIND_VMM, false},
    [MP_CUDA_VMM_UNMAP] = {true, 0, MP_LIVE_MAPPING, "mapped", MP_KIND_VMM, false},
    [MP_CUDA_ARRAY_CREATE] = {true, OUT | MP_ATTACH_WORDS_2ND, MP_LIVE_ARRAY, "", MP_KIND_ARRAY, false},
    [MP_CUDA_ARRAY3D_CREATE] = {true, OUT | MP_ATTACH_WORDS_2ND, MP_LIVE_ARRAY, "", MP_KIND_ARRAY, false},
    [MP_CUDA_ARRAY_DESTROY] = {true, 0, MP_LIVE_ARRAY, "", MP_KIND_ARRAY, false},
    [MP_CUDA_MIPMAP_CREATE] = {true, OUT | MP_ATTACH_WORDS_2ND, MP_LIVE_MIPMAP, "", MP_KIND_ARRAY, false},
    [MP_CUDA_MIPMAP_DESTROY] = {true, 0, MP_LIVE_MIPMAP, "", MP_KIND_ARRAY, false},
};

bool mp_attach_probe_cookie(unsigned number, unsigned *cookie)
{
    const struct mp_attach_probe *probe = &mp_attach_probes[number];
    bool driver = probe->action == MP_ATTACH_DRIVER;
    *cookie = (driver ? calls[probe->call].cookie : probe->cookie) | number;
    return !driver || calls[probe->call].probed;
}

/* A live block: the action that began it, and for physical memory its handles and mappings. */
union held {
    uint64_t word;
    struct {
        uint8_t action, device;
        uint8_t of_host;
        uint16_t handles, mappings;
    };
};

struct taking {
    struct mp_attach_driver *driver;
    const struct mp_attach_event *event;
    mp_attach_book *book;
    void *context;
};

static uint64_t key_of(enum mp_live_class class, uint64_t value)
{
    return value ^ (uint64_t) class << 58;
}

static void tell(const struct taking *taking, enum mp_event_type type, union held held, uint64_t value, uint64_t bytes)
{
    const struct call *call = &calls[held.action];
    struct mp_attach_fact fact = {
        .type = type,
        .kind = call->kind,
        .device = {held.of_host ? MP_DEVICE_CPU : MP_DEVICE_CUDA, held.of_host ? (int8_t)-1 : (int8_t)held.device},
        .of_driver = true,
        .pool = call->track,
        .address = value,
        .bytes = bytes,
        .allocated = MP_RECORD_TOTAL_UNKNOWN,
        .reserved = MP_RECORD_TOTAL_UNKNOWN};
    taking->book(taking->context, taking->event, &fact);
}

static uint64_t bytes_begun(enum mp_cuda_action action, const struct mp_attach_event *event)
{
    struct mp_cu_array3d array;
    struct mp_cu_array flat;
    switch (action) {
    case MP_CUDA_ALLOC_PITCH:
        return event->words[0] * event->argument[3];
    case MP_CUDA_ARRAY_CREATE:
        memcpy(&flat, event->words, sizeof flat);
        array = (struct mp_cu_array3d){flat.Width, flat.Height, 0, flat.Format, flat.NumChannels, 0};
        return mp_cuda_array_bytes(&array, 1);
    case MP_CUDA_ARRAY3D_CREATE:
    case MP_CUDA_MIPMAP_CREATE:
        memcpy(&array, event->words, sizeof array);
        return mp_cuda_array_bytes(&array, action == MP_CUDA_MIPMAP_CREATE ? (unsigned)event->argument[2] : 1);
    default:
        return event->argument[1];
    }
}

static struct mp_cu_location location_of(enum mp_cuda_action action, const struct mp_attach_event *event)
{
    struct mp_cu_location location = {MP_CU_LOCATION_DEVICE, 0};
    if (action == MP_CUDA_VMM_CREATE && event->words[1]) memcpy(&location, &event->words[1], sizeof location);
    return location;
}

/* Counts handles and mappings of physical memory, which is freed with the last of them. False: the memory is not
 * known. */
static bool count(const struct taking *taking, uint64_t handle, int handles, int mappings, union held *held)
{
    uint64_t key = key_of(MP_LIVE_PHYSICAL, handle), *known = handle ? mp_map_find(&taking->driver->blocks, key) : NULL;
    if (!known) return false;
    held->word = *known;
    held->handles = (uint16_t)(held->handles + handles);
    held->mappings = (uint16_t)(held->mappings + mappings);
    *known = held->word;
    if (held->handles || held->mappings) return true;
    mp_map_remove(&taking->driver->blocks, key, NULL);
    tell(taking, MP_EVENT_FREE, *held, handle, MP_BYTES_UNKNOWN);
    return true;
}

static void begin(const struct taking *taking, enum mp_cuda_action action)
{
    const struct mp_attach_event *event = taking->event;
    const struct call *call = &calls[action];
    struct mp_cu_location location = location_of(action, event);
    bool of_host = call->of_host || location.type != MP_CU_LOCATION_DEVICE;
    union held held = {.word = 0}, physical;
    held.action = (uint8_t)action;
    held.device = (uint8_t)location.id;
    held.of_host = of_host;
    held.handles = 1;
    uint64_t value = call->cookie & MP_ATTACH_OUT ? event->out : event->argument[0], bytes = bytes_begun(action, event);
    if ((uint32_t)event->result == MP_CU_OUT_OF_MEMORY) tell(taking, MP_EVENT_OOM, held, 0, bytes);
    if ((uint32_t)event->result || !value) return;
    if (action == MP_CUDA_VMM_RETAIN) {
        count(taking, value, 1, 0, &held);
        return;
    }
    if (action == MP_CUDA_VMM_MAP) {
        *mp_map_at(&taking->driver->handles, value, NULL) = event->argument[3];
        *mp_map_at(&taking->driver->lengths, value, NULL) = bytes;
        if (count(taking, event->argument[3], 0, 1, &physical)) held.device = physical.device;
    }
    *mp_map_at(&taking->driver->blocks, key_of(call->class, value), NULL) = held.word;
    tell(taking, MP_EVENT_ALLOC, held, value, bytes);
}

/* A call that frees does not give the kind of the block. */
static void end(const struct taking *taking, enum mp_cuda_action action, uint64_t value)
{
    union held held = {.word = 0};
    if (!value || (action == MP_CUDA_VMM_RELEASE && count(taking, value, -1, 0, &held))) return;
    if (!mp_map_remove(&taking->driver->blocks, key_of(calls[action].class, value), &held.word)) {
        held.action = (uint8_t)action;
        held.of_host = calls[action].of_host;
    }
    tell(taking, MP_EVENT_FREE, held, value, MP_BYTES_UNKNOWN);
}

void mp_attach_driver_take(struct mp_attach_driver *driver, const struct mp_attach_event *event, mp_attach_book *book,
                           void *context)
{
    const struct taking taking = {driver, event, book, context};
    enum mp_cuda_action action = mp_attach_probes[event->probe].call;
    uint64_t at = event->argument[0], to = at + event->argument[1], bytes, handle;
    union held physical;
    if (calls[action].cookie & MP_ATTACH_RETURNS) {
        begin(&taking, action);
        return;
    }
    /* One call may unmap several adjacent mappings. */
    bool known = false;
    while (action == MP_CUDA_VMM_UNMAP && at && at < to && mp_map_remove(&driver->lengths, at, &bytes)) {
        known = true;
        end(&taking, action, at);
        if (mp_map_remove(&driver->handles, at, &handle)) count(&taking, handle, 0, -1, &physical);
        at += bytes ? bytes : to - at;
    }
    if (!known) end(&taking, action, at);
}

void mp_attach_driver_free(struct mp_attach_driver *driver)
{
    mp_map_free(&driver->blocks);
    mp_map_free(&driver->handles);
    mp_map_free(&driver->lengths);
}
