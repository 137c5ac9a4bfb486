/* Questions that only the driver can answer. They are about the context, captures of a stream, the memory of pools and
 * graphs, and sizes of imported memory. They are asked after a call of the program has returned. */
#include <stdatomic.h>
#include <string.h>

#include "capture/hooks/hooks.h"

/* X(member, name, arguments): functions of the driver. Each function is older than the feature that it is asked
 * about. */
#define QUESTIONS(X)                                                                                                   \
    X(current, "cuCtxGetCurrent", (mp_cu_handle * context))                                                            \
    X(device, "cuCtxGetDevice", (int *device))                                                                         \
    X(is_capturing, "cuStreamIsCapturing", (mp_cu_handle stream, int *status))                                         \
    X(is_capturing_ptsz, "cuStreamIsCapturing_ptsz", (mp_cu_handle stream, int *status))                               \
    X(pool_of_device, "cuDeviceGetMemPool", (mp_cu_handle * pool, int device))                                         \
    X(pool_attribute, "cuMemPoolGetAttribute", (mp_cu_handle pool, int attribute, void *value))                        \
    X(graph_attribute, "cuDeviceGetGraphMemAttribute", (int device, int attribute, void *value))                       \
    X(primary_state, "cuDevicePrimaryCtxGetState", (int device, unsigned *flags, int *active))                         \
    X(address_range, "cuMemGetAddressRange_v2", (mp_cu_ptr * base, size_t * bytes, mp_cu_ptr address))                 \
    X(device_count, "cuDeviceGetCount", (int *count))                                                                  \
    X(uuid, "cuDeviceGetUuid_v2", (struct mp_cu_uuid * uuid, int device))

static struct questions {
#define QUESTION(member, name, arguments) int(*member) arguments;
    QUESTIONS(QUESTION)
#undef QUESTION
} driver;

/* Captures under way. While a stream captures, some queries would break the capture, so they wait. */
static _Atomic int captures;
static _Atomic bool has_graph_memory;

static bool find_questions(void)
{
    static _Atomic bool found;
    if (atomic_load_explicit(&found, memory_order_acquire)) return true;
    struct questions answers;
    void *at;
#define QUESTION(member, name, arguments)                                                                              \
    at = mp_hooks_function_of_driver(name);                                                                            \
    memcpy(&answers.member, &at, sizeof at);
    QUESTIONS(QUESTION)
#undef QUESTION
    if (!answers.current || !answers.device) return false;
    driver = answers; /* not atomic: every thread writes the same values */
    atomic_store_explicit(&found, true, memory_order_release);
    return true;
}

static void ask_context(struct mp_cuda_facts *facts)
{
    mp_cu_handle context = NULL;
    int device;
    if (driver.current(&context) || !context || driver.device(&device)) return;
    facts->context = (uint64_t)(uintptr_t)context;
    facts->device = device;
}

static void ask_capturing(const struct mp_cuda_call *call, mp_cu_handle stream, struct mp_cuda_facts *facts)
{
    int status = 0;
    if (!atomic_load(&captures)) {
        facts->capturing = 0;
        return;
    }
    int (*ask)(mp_cu_handle, int *) = call->per_thread ? driver.is_capturing_ptsz : driver.is_capturing;
    if (ask && !ask(stream, &status)) facts->capturing = status != 0;
}

static void ask_pool(mp_cu_handle pool, struct mp_cuda_facts *facts)
{
    uint64_t bytes = 0;
    if (!pool && (facts->device < 0 || !driver.pool_of_device || driver.pool_of_device(&pool, facts->device))) return;
    if (atomic_load(&captures) || !driver.pool_attribute ||
        driver.pool_attribute(pool, MP_CU_POOL_RESERVED_CURRENT, &bytes))
        return;
    facts->pool = (uint64_t)(uintptr_t)pool;
    facts->pool_bytes = bytes;
}

static void ask_graphs(struct mp_cuda_facts *facts)
{
    uint64_t bytes = 0;
    if (!atomic_load(&has_graph_memory) || atomic_load(&captures) || facts->device < 0 || !driver.graph_attribute ||
        driver.graph_attribute(facts->device, MP_CU_GRAPH_MEM_RESERVED_CURRENT, &bytes))
        return;
    facts->graph_bytes = bytes;
}

static void ask_size(mp_cu_ptr address, struct mp_cuda_facts *facts)
{
    mp_cu_ptr base;
    size_t bytes;
    if (driver.address_range && !driver.address_range(&base, &bytes, address)) facts->bytes = bytes;
}

static void ask_primary(int device, struct mp_cuda_facts *facts)
{
    unsigned flags;
    int active;
    if (driver.primary_state && !driver.primary_state(device, &flags, &active)) facts->active = active;
}

void mp_hooks_report_devices(const struct mp_cuda_hooks *recorder)
{
    static _Atomic bool facts;
    struct mp_cu_uuid uuid;
    int count;
    if (atomic_load_explicit(&facts, memory_order_relaxed) || !find_questions() || atomic_exchange(&facts, true))
        return;
    if (!driver.device_count || !driver.uuid || driver.device_count(&count)) return;
    for (int i = 0; i < count && i < MP_CUDA_DEVICES; i++)
        if (!driver.uuid(&uuid, i)) recorder->device(i, &uuid);
}

/* Counts the captures that have begun and not ended. A call to end a broken capture fails, but ends the capture. After
 * any other failure the capture goes on: the end was for a stream without a capture, or from the wrong thread. */
static void follow_captures(enum mp_cuda_action action, int result)
{
    bool ends = result == MP_CU_SUCCESS || result == MP_CU_CAPTURE_INVALIDATED || result == MP_CU_CAPTURE_UNJOINED;
    if (action == MP_CUDA_CAPTURE_BEGIN && result == MP_CU_SUCCESS) atomic_fetch_add(&captures, 1);
    if (action == MP_CUDA_CAPTURE_END && ends && atomic_load(&captures) > 0) atomic_fetch_sub(&captures, 1);
}

void mp_hooks_ask(const struct mp_hook_call *call, int result, struct mp_cuda_facts *facts)
{
    const struct mp_cuda_call *row = &mp_cuda_calls[call->id];
    const void *arguments = call->arguments;
    follow_captures(row->action, result);
    if (!find_questions()) return;
    ask_context(facts);
    switch (row->action) {
    case MP_CUDA_ALLOC_ASYNC:
        ask_capturing(row, ((const struct mp_params_cuMemAllocAsync *)arguments)->hStream, facts);
        if (facts->capturing == 1) atomic_store(&has_graph_memory, true);
        if (facts->capturing == 0) ask_pool(NULL, facts);
        return;
    case MP_CUDA_ALLOC_FROM_POOL: {
        const struct mp_params_cuMemAllocFromPoolAsync *a = arguments;
        ask_capturing(row, a->hStream, facts);
        if (facts->capturing == 1) atomic_store(&has_graph_memory, true);
        if (facts->capturing == 0) ask_pool(a->pool, facts);
        return;
    }
    case MP_CUDA_FREE_ASYNC:
        ask_capturing(row, ((const struct mp_params_cuMemFreeAsync *)arguments)->hStream, facts);
        return;
    case MP_CUDA_POOL_TRIM:
        if (result == MP_CU_SUCCESS) ask_pool(((const struct mp_params_cuMemPoolTrimTo *)arguments)->pool, facts);
        return;
    case MP_CUDA_GRAPH_ALLOC_NODE:
    case MP_CUDA_GRAPH_NODE:
    case MP_CUDA_GRAPH_NODE_V2:
        atomic_store(&has_graph_memory, true);
        return;
    case MP_CUDA_GRAPH_LAUNCH:
    case MP_CUDA_GRAPH_TRIM:
    case MP_CUDA_GRAPH_INSTANTIATE:
    case MP_CUDA_GRAPH_EXEC_DESTROY:
        ask_graphs(facts);
        return;
    case MP_CUDA_PRIMARY_RELEASE:
        ask_primary(*(const int *)arguments, facts);
        return;
    case MP_CUDA_IPC_OPEN:
    case MP_CUDA_POOL_IMPORT_POINTER:
        if (result == MP_CU_SUCCESS) ask_size(**(mp_cu_ptr *const *)arguments, facts);
        return;
    default:
        return;
    }
}
