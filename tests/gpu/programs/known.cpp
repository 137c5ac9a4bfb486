/*
 * Allocations of one kind each, on a real GPU, with what a recording must say of them: `known KIND` prints lines of
 * TRACK, allocations, frees, bytes at the highest and bytes at the end. Exit status 77 where there is no GPU or it
 * cannot do this.
 */
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include <unistd.h>
#include <vector>

constexpr size_t MIB = size_t(1) << 20;
constexpr int COUNT = 8;

static void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "known: %s: %s\n", what, cudaGetErrorString(error));
    std::exit(error == cudaErrorNotSupported ? 77 : 1);
}
#define MUST(call) must(call, #call)

static void must_driver(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS) return;
    std::fprintf(stderr, "known: %s: error %d\n", what, int(result));
    std::exit(result == CUDA_ERROR_NOT_SUPPORTED ? 77 : 1);
}
#define MUST_DRIVER(call) must_driver(call, #call)

/* A function of the driver, looked up as the runtime does it: nothing is linked. */
template <typename Function> static Function *driver(const char *name, Function *)
{
    void *found = nullptr;
    cudaDriverEntryPointQueryResult how;
    MUST(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &how));
    if (!found) std::exit(77);
    return reinterpret_cast<Function *>(found);
}
#define DRIVER(name) driver(#name, static_cast<decltype(::name) *>(nullptr))

struct Truth {
    unsigned long long allocs = 0, frees = 0, now = 0, peak = 0;
};
static std::map<std::string, Truth> truth;

static void add(const char *track, size_t bytes)
{
    Truth &t = truth[track];
    t.allocs++;
    t.now += bytes;
    if (t.now > t.peak) t.peak = t.now;
}

static void take(const char *track, size_t bytes)
{
    truth[track].frees++;
    truth[track].now -= bytes;
}

static const char DEVICE[] = "cuda:0/driver", POOL[] = "cuda:0/driver/pool", MANAGED[] = "cuda:0/driver/managed",
                  PINNED[] = "cpu/driver", REGISTERED[] = "cpu/driver/registered",
                  ADDRESSES[] = "cuda:0/driver/addresses", GRAPH[] = "cuda:0/driver/graph";

static size_t size_of(int i)
{
    return MIB * size_t(i + 1) + size_t(i) * 256;
}

/* COUNT blocks, every second one freed. */
template <typename Alloc, typename Free> static void some(const char *track, Alloc alloc, Free free_one)
{
    std::vector<void *> blocks(COUNT);
    for (int i = 0; i < COUNT; i++) {
        alloc(&blocks[i], size_of(i));
        add(track, size_of(i));
    }
    for (int i = 0; i < COUNT; i += 2) {
        free_one(blocks[i]);
        take(track, size_of(i));
    }
}

static void linear()
{
    some(DEVICE, [](void **at, size_t bytes) { MUST(cudaMalloc(at, bytes)); }, [](void *at) { MUST(cudaFree(at)); });
}

static void pitched()
{
    size_t pitch;
    void *at;
    MUST(cudaMallocPitch(&at, &pitch, 1000, 3000));
    add(DEVICE, pitch * 3000);
}

static void managed()
{
    some(MANAGED, [](void **at, size_t bytes) { MUST(cudaMallocManaged(at, bytes)); },
         [](void *at) { MUST(cudaFree(at)); });
}

static void pinned()
{
    some(PINNED, [](void **at, size_t bytes) { MUST(cudaHostAlloc(at, bytes, 0)); },
         [](void *at) { MUST(cudaFreeHost(at)); });
}

static void registered()
{
    static void *memory[COUNT];
    int next = 0;
    for (int i = 0; i < COUNT; i++)
        memory[i] = std::aligned_alloc(4096, size_of(i) + 4096 - size_of(i) % 4096);
    some(REGISTERED,
         [&](void **at, size_t bytes) {
             *at = memory[next++];
             MUST(cudaHostRegister(*at, bytes, 0));
         },
         [](void *at) { MUST(cudaHostUnregister(at)); });
}

static void stream_ordered()
{
    some(POOL, [](void **at, size_t bytes) { MUST(cudaMallocAsync(at, bytes, nullptr)); },
         [](void *at) { MUST(cudaFreeAsync(at, nullptr)); });
    MUST(cudaStreamSynchronize(nullptr));
}

static void pool()
{
    cudaMemPoolProps properties = {};
    cudaMemPool_t made;
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    MUST(cudaMemPoolCreate(&made, &properties));
    some(POOL, [&](void **at, size_t bytes) { MUST(cudaMallocFromPoolAsync(at, bytes, made, nullptr)); },
         [](void *at) { MUST(cudaFreeAsync(at, nullptr)); });
    MUST(cudaStreamSynchronize(nullptr));
}

static void virtual_memory()
{
    auto reserve = DRIVER(cuMemAddressReserve);
    auto granularity_of = DRIVER(cuMemGetAllocationGranularity);
    auto create = DRIVER(cuMemCreate);
    auto map = DRIVER(cuMemMap);
    auto release = DRIVER(cuMemRelease);
    CUmemAllocationProp property = {};
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t granularity;
    MUST_DRIVER(granularity_of(&granularity, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size_t bytes = 4 * granularity;
    CUdeviceptr range;
    CUmemGenericAllocationHandle handle, unused;
    MUST_DRIVER(reserve(&range, 8 * bytes, 0, 0, 0));
    add(ADDRESSES, 8 * bytes);
    MUST_DRIVER(create(&handle, bytes, &property, 0));
    add(DEVICE, bytes);
    MUST_DRIVER(map(range, bytes, 0, handle, 0));
    MUST_DRIVER(release(handle)); /* the mapping keeps it */
    MUST_DRIVER(create(&unused, bytes, &property, 0));
    add(DEVICE, bytes);
    MUST_DRIVER(release(unused));
    take(DEVICE, bytes);
}

static void graph()
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaGraphNode_t node;
    cudaMemAllocNodeParams parameters = {};
    MUST(cudaGraphCreate(&graph, 0));
    parameters.poolProps.allocType = cudaMemAllocationTypePinned;
    parameters.poolProps.location.type = cudaMemLocationTypeDevice;
    parameters.bytesize = 4 * MIB;
    MUST(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
    MUST(cudaGraphInstantiate(&executable, graph, 0));
    MUST(cudaGraphLaunch(executable, nullptr));
    MUST(cudaStreamSynchronize(nullptr));
    add(GRAPH, 4 * MIB);
}

static void out_of_memory()
{
    void *at;
    if (cudaMalloc(&at, size_t(1) << 50) != cudaErrorMemoryAllocation) std::exit(1);
    std::printf("oom %s %zu\n", DEVICE, size_t(1) << 50);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)();
    } kinds[] = {{"linear", linear},         {"pitched", pitched}, {"managed", managed},
                 {"pinned", pinned},         {"registered", registered}, {"stream_ordered", stream_ordered},
                 {"pool", pool},             {"virtual_memory", virtual_memory}, {"graph", graph},
                 {"out_of_memory", out_of_memory}};
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
        std::fprintf(stderr, "known: no GPU\n");
        return 77;
    }
    for (const auto &kind : kinds) {
        if (argc != 2 || std::strcmp(argv[1], kind.name)) continue;
        MUST(cudaFree(nullptr));
        kind.run();
        usleep(300000); /* the device's total is read ten times a second */
        for (const auto &[track, t] : truth)
            std::printf("track %s %llu %llu %llu %llu\n", track.c_str(), t.allocs, t.frees, t.peak, t.now);
        return 0;
    }
    return 2;
}
