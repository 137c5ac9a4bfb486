/*
 * Leaks of CUDA programs, after reported bugs, on the stand-in driver:
 *
 *     cuda_leaks WHAT [mended]
 *
 * Sixty steps, marked through memprof.h. Each works in work_here(). The function that WHAT names leaks or does not.
 */
#include <memprof.h>
#include <stdio.h>
#include <string.h>

#include "softgpu/programs/driver_api.h"

#define MIB   ((size_t)1 << 20)
#define STEPS 60

static int mended;
static CUstream stream;
static const CUmemAllocationProp physical = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

static __attribute__((noinline)) void work_here(void)
{
    CUdeviceptr input, output;
    CHECK(driver.cuMemAlloc_v2(&input, 2 * MIB));
    CHECK(driver.cuMemAllocAsync(&output, MIB, stream));
    CHECK(driver.cuMemFreeAsync(output, stream));
    CHECK(driver.cuMemFree_v2(input));
}

/* opencv 8725, onnxruntime 26831: an early return before the free. */
static __attribute__((noinline)) void early_return(unsigned step)
{
    CUdeviceptr scratch;
    CHECK(driver.cuMemAlloc_v2(&scratch, 300000));
    if (step % 3 == 0 && !mended) return;
    CHECK(driver.cuMemFree_v2(scratch));
}

/* tromp/cuckoo 69, llnl/camp 71: an event for each launch. */
static __attribute__((noinline)) void event_a_launch(unsigned step)
{
    CUevent event;
    (void)step;
    CHECK(driver.cuEventCreate(&event, 0));
    if (mended) CHECK(driver.cuEventDestroy_v2(event));
}

/* pycuda 370, tensor-stream PR 31: a stream for each call. */
static __attribute__((noinline)) void stream_a_call(unsigned step)
{
    CUstream own;
    (void)step;
    CHECK(driver.cuStreamCreate(&own, 0));
    if (mended) CHECK(driver.cuStreamDestroy_v2(own));
}

/* numba 9507, cupy 4775: page-locked memory that is never freed. */
static __attribute__((noinline)) void pinned_buffer(unsigned step)
{
    void *host;
    (void)step;
    CHECK(driver.cuMemHostAlloc(&host, 100000, 0));
    if (mended) CHECK(driver.cuMemFreeHost(host));
}

/* NVIDIA/warp 1429, newton 2563: memory that a graph allocated outlives the graph. */
static __attribute__((noinline)) void graph_a_shape(unsigned step)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec executable;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                                         .bytesize = MIB};
    (void)step;
    CHECK(driver.cuGraphCreate(&graph, 0));
    CHECK(driver.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    CHECK(driver.cuGraphInstantiateWithFlags(&executable, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    CHECK(driver.cuGraphLaunch(executable, stream));
    if (mended) CHECK(driver.cuMemFreeAsync(params.dptr, stream));
    CHECK(driver.cuGraphExecDestroy(executable));
    CHECK(driver.cuGraphDestroy(graph));
    if (mended) CHECK(driver.cuDeviceGraphMemTrim(0));
}

/* cuda-python 2344, Mooncake PR 2380: memory is unmapped, but its handle never released. */
static __attribute__((noinline)) void handle_not_released(unsigned step)
{
    CUdeviceptr range;
    CUmemGenericAllocationHandle handle;
    (void)step;
    CHECK(driver.cuMemAddressReserve(&range, 2 * MIB, 0, 0, 0));
    CHECK(driver.cuMemCreate(&handle, 2 * MIB, &physical, 0));
    CHECK(driver.cuMemMap(range, 2 * MIB, 0, handle, 0));
    CHECK(driver.cuMemUnmap(range, 2 * MIB));
    CHECK(driver.cuMemAddressFree(range, 2 * MIB));
    if (mended) CHECK(driver.cuMemRelease(handle));
}

/* Blocks of a pool that are freed only on some paths. */
static __attribute__((noinline)) void pool_block(unsigned step)
{
    CUdeviceptr block;
    CHECK(driver.cuMemAllocAsync(&block, 64000, stream));
    if (step % 2 || mended) CHECK(driver.cuMemFreeAsync(block, stream));
}

/* TensorRT 582, jax 2072: a module for each new kernel, never unloaded. */
static __attribute__((noinline)) void module_a_kernel(unsigned step)
{
    CUmodule module;
    char image[128];
    snprintf(image, sizeof image, "softgpu module\nvariable kernel_%u 4096\n", step);
    CHECK(driver.cuModuleLoadData(&module, image));
    if (mended) CHECK(driver.cuModuleUnload(module));
}

/* A change of the window makes new textures, and the old ones stay. */
static __attribute__((noinline)) void texture(unsigned step)
{
    CUarray array;
    (void)step;
    CHECK(driver.cuArrayCreate_v2(&array, &(CUDA_ARRAY_DESCRIPTOR){256, 64, CU_AD_FORMAT_FLOAT, 1}));
    if (mended) CHECK(driver.cuArrayDestroy(array));
}

static const struct {
    const char *name;
    void (*leak)(unsigned step);
} kinds[] = {{"early_return", early_return},
             {"event_a_launch", event_a_launch},
             {"stream_a_call", stream_a_call},
             {"pinned_buffer", pinned_buffer},
             {"graph_a_shape", graph_a_shape},
             {"handle_not_released", handle_not_released},
             {"pool_block", pool_block},
             {"module_a_kernel", module_a_kernel},
             {"texture", texture}};

int main(int argc, char **argv)
{
    CUcontext context;
    void (*leak)(unsigned) = NULL;
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(argv[1], kinds[i].name)) leak = kinds[i].leak;
    if (!leak) return 2;
    mended = argc > 2;
    driver_open("lookup");
    CHECK(driver.cuInit(0));
    CHECK(driver.cuCtxCreate_v2(&context, 0, 0));
    CHECK(driver.cuStreamCreate(&stream, 0));
    for (unsigned step = 0; step < STEPS; step++) {
        memprof_step();
        work_here();
        leak(step);
    }
    return 0;
}
