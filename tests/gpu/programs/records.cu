/*
 * What CUPTI itself says of each call that allocates: the open questions about MEMORY2 records, asked of the real
 * library. Prints a line for each call: its name, how many records of kinds MEMORY2 and MEMORY_POOL came of it, their
 * memory kind, whether the correlation id was the driver's or the runtime's, and the bytes. Not run under memprof.
 */
#include <cuda.h>
#include <cuda_runtime.h>
#include <cupti.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

__device__ char in_module[8 << 20];

struct Seen {
    unsigned memory, pool, kind, correlation;
    unsigned long long bytes;
};
static Seen seen;
static unsigned driver_id, runtime_id;

static void CUPTIAPI request(uint8_t **buffer, size_t *bytes, size_t *records)
{
    *bytes = 64 << 10;
    *records = 0;
    *buffer = static_cast<uint8_t *>(std::aligned_alloc(8, *bytes));
}

static void CUPTIAPI complete(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid)
{
    CUpti_Activity *record = nullptr;
    while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY2) {
            auto memory = reinterpret_cast<CUpti_ActivityMemory4 *>(record);
            seen.memory++;
            seen.kind = memory->memoryKind;
            seen.bytes = memory->bytes;
            seen.correlation = memory->correlationId;
        } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY_POOL) {
            seen.pool++;
        }
    }
    std::free(buffer);
}

static void CUPTIAPI call(void *, CUpti_CallbackDomain domain, CUpti_CallbackId, const void *data)
{
    auto info = static_cast<const CUpti_CallbackData *>(data);
    if (info->callbackSite != CUPTI_API_ENTER) return;
    (domain == CUPTI_CB_DOMAIN_DRIVER_API ? driver_id : runtime_id) = info->correlationId;
}

template <typename Call> static void ask(const char *name, Call run)
{
    cuptiActivityFlushAll(1);
    seen = {};
    driver_id = runtime_id = 0;
    int result = int(run());
    unsigned driver_of_it = driver_id, runtime_of_it = runtime_id;
    cuptiActivityFlushAll(1);
    const char *whose = !seen.memory                          ? "-"
                        : seen.correlation == driver_of_it    ? "driver"
                        : seen.correlation == runtime_of_it   ? "runtime"
                        : seen.correlation == 0               ? "none"
                                                              : "other";
    std::printf("%-28s result %d  memory %u  pool %u  kind %u  id %s  bytes %llu\n", name, result, seen.memory,
                seen.pool, seen.kind, whose, seen.bytes);
}

__global__ void touch(char *at)
{
    at[threadIdx.x] = in_module[threadIdx.x];
}

int main()
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
        std::fprintf(stderr, "records: no GPU\n");
        return 77;
    }
    CUpti_SubscriberHandle subscriber;
    CUptiResult got = cuptiSubscribe(&subscriber, call, nullptr);
    if (got != CUPTI_SUCCESS) {
        std::fprintf(stderr, "records: cuptiSubscribe: %d\n", int(got));
        return 1;
    }
    cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
    cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
    cuptiActivityRegisterCallbacks(request, complete);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY_POOL);

    void *at = nullptr, *host = std::aligned_alloc(4096, 1 << 20);
    size_t pitch;
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    ask("context", [] { return cudaFree(nullptr); });
    ask("cudaMalloc", [&] { return cudaMalloc(&at, 1 << 20); });
    ask("module with a variable", [&] { touch<<<1, 32>>>(static_cast<char *>(at)); return cudaDeviceSynchronize(); });
    ask("cudaFree", [&] { return cudaFree(at); });
    ask("cudaMallocPitch", [&] { return cudaMallocPitch(&at, &pitch, 1000, 100); });
    cudaFree(at);
    ask("cudaMallocManaged", [&] { return cudaMallocManaged(&at, 1 << 20); });
    cudaFree(at);
    ask("cudaHostAlloc", [&] { return cudaHostAlloc(&at, 1 << 20, 0); });
    cudaFreeHost(at);
    ask("cudaHostRegister", [&] { return cudaHostRegister(host, 1 << 20, 0); });
    cudaHostUnregister(host);
    ask("cudaMallocArray", [&] { return cudaMallocArray(&array, &format, 256, 256); });
    cudaFreeArray(array);
    ask("cudaMallocAsync, first", [&] { return cudaMallocAsync(&at, 1 << 20, nullptr); });
    ask("cudaFreeAsync", [&] { return cudaFreeAsync(at, nullptr); });
    ask("cudaMallocAsync, again", [&] { return cudaMallocAsync(&at, 1 << 20, nullptr); });
    cudaFreeAsync(at, nullptr);

    cudaDriverEntryPointQueryResult how;
    decltype(::cuMemCreate) *create = nullptr;
    void *found = nullptr;
    cudaGetDriverEntryPointByVersion("cuMemCreate", &found, 12000, cudaEnableDefault, &how);
    create = reinterpret_cast<decltype(::cuMemCreate) *>(found);
    CUmemAllocationProp property = {};
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle;
    if (create) ask("cuMemCreate", [&] { return create(&handle, 2 << 20, &property, 0); });

    cudaGraph_t graph;
    cudaGraphExec_t executable = nullptr;
    cudaGraphNode_t node;
    cudaMemAllocNodeParams parameters = {};
    parameters.poolProps.allocType = cudaMemAllocationTypePinned;
    parameters.poolProps.location.type = cudaMemLocationTypeDevice;
    parameters.bytesize = 4 << 20;
    cudaGraphCreate(&graph, 0);
    ask("graph alloc node", [&] { return cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters); });
    ask("cudaGraphInstantiate", [&] { return cudaGraphInstantiate(&executable, graph, 0); });
    ask("cudaGraphLaunch", [&] { cudaGraphLaunch(executable, nullptr); return cudaDeviceSynchronize(); });
    ask("cudaMalloc, out of memory", [&] { return cudaMalloc(&at, size_t(1) << 50); });
    size_t dropped = 0;
    cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
    std::printf("dropped %zu\n", dropped);
    return 0;
}
