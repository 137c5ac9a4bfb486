/*
 * Every kind of memory and handle, each with sizes of its own, some freed and some left, on two devices:
 *
 *     every_kind WAY [VERSION]        WAY as in driver_api.h; VERSION of CUDA (11020): nothing newer is called
 *
 * The driver's ledger ($SOFTGPU_LEDGER) has its actions. Needs SOFTGPU_DEVICES=2.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softgpu/programs/driver_api.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static long version = 13000;

static void linear(void)
{
    CUdeviceptr kept, freed, again, pitched[2];
    size_t pitch;
    CHECK(driver.cuMemAlloc_v2(&kept, 1000));
    CHECK(driver.cuMemAlloc_v2(&freed, 3 * MIB));
    CHECK(driver.cuMemFree_v2(freed));
    CHECK(driver.cuMemAlloc_v2(&again, 3 * MIB - 5)); /* the same address */
    CHECK(driver.cuMemAllocPitch_v2(&pitched[0], &pitch, 1001, 7, 4));
    CHECK(driver.cuMemAllocPitch_v2(&pitched[1], &pitch, 513, 100, 16));
    CHECK(driver.cuMemFree_v2(pitched[1]));
    CHECK(driver.cuMemFree_v2(0));
    CHECK_FAILS(driver.cuMemAlloc_v2(&freed, 64 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_FAILS(driver.cuMemAlloc_v2(&freed, 0), CUDA_ERROR_INVALID_VALUE);
}

static void host(void)
{
    void *pinned[2];
    static char own[8192];
    CUdeviceptr managed[2];
    CHECK(driver.cuMemHostAlloc(&pinned[0], 5000, 0));
    CHECK(driver.cuMemAllocHost_v2(&pinned[1], 6000));
    memset(pinned[0], 1, 5000);
    CHECK(driver.cuMemFreeHost(pinned[1]));
    CHECK(driver.cuMemHostRegister_v2(own, 4096, 0));
    CHECK(driver.cuMemHostRegister(own + 4096, 100, 0));
    CHECK_FAILS(driver.cuMemHostRegister_v2(own, 4096, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK(driver.cuMemHostUnregister(own));
    CHECK(driver.cuMemAllocManaged(&managed[0], 70 * KIB, 1));
    CHECK(driver.cuMemAllocManaged(&managed[1], 80 * KIB, 1));
    CHECK(driver.cuMemFree_v2(managed[0]));
}

static void arrays(void)
{
    CUarray array[3], level;
    CUmipmappedArray mipmap[2];
    CHECK(driver.cuArrayCreate_v2(&array[0], &(CUDA_ARRAY_DESCRIPTOR){100, 50, CU_AD_FORMAT_FLOAT, 4}));
    CHECK(driver.cuArrayCreate_v2(&array[1], &(CUDA_ARRAY_DESCRIPTOR){77, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1}));
    CHECK(driver.cuArray3DCreate_v2(&array[2], &(CUDA_ARRAY3D_DESCRIPTOR){16, 8, 4, CU_AD_FORMAT_HALF, 2, 0}));
    CHECK(driver.cuArrayDestroy(array[1]));
    CUDA_ARRAY3D_DESCRIPTOR image = {64, 32, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    CHECK(driver.cuMipmappedArrayCreate(&mipmap[0], &image, 5));
    CUDA_ARRAY3D_DESCRIPTOR layers = {20, 10, 3, CU_AD_FORMAT_HALF, 4, CUDA_ARRAY3D_LAYERED};
    CHECK(driver.cuMipmappedArrayCreate(&mipmap[1], &layers, 3));
    CHECK(driver.cuMipmappedArrayGetLevel(&level, mipmap[0], 1));
    CHECK(driver.cuMipmappedArrayDestroy(mipmap[0]));
    CUDA_ARRAY3D_DESCRIPTOR vast = {1 << 17, 1 << 16, 64, CU_AD_FORMAT_FLOAT, 4, 0};
    CHECK_FAILS(driver.cuArray3DCreate_v2(&array[1], &vast), CUDA_ERROR_OUT_OF_MEMORY);
}

static void pools(CUstream stream)
{
    CUdeviceptr block[6];
    CUmemoryPool pool, standard;
    CUmemPoolProps props = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CHECK(driver.cuMemAllocAsync(&block[0], 100 * KIB, stream));
    CHECK(driver.cuMemAllocAsync_ptsz(&block[1], 5 * MIB, NULL));
    CHECK(driver.cuMemPoolCreate(&pool, &props));
    CHECK(driver.cuMemAllocFromPoolAsync(&block[2], 4 * MIB, pool, stream));
    CHECK(driver.cuMemAllocFromPoolAsync_ptsz(&block[3], 1 * MIB, pool, stream));
    CHECK(driver.cuMemFreeAsync(block[0], stream));
    CHECK(driver.cuMemFreeAsync_ptsz(block[3], stream));
    CHECK(driver.cuMemFree_v2(block[1])); /* a pool's block may be freed so, too */
    CHECK(driver.cuStreamSynchronize(stream));
    CHECK(driver.cuDeviceGetDefaultMemPool(&standard, 0));
    CHECK(driver.cuDeviceSetMemPool(0, pool));
    CHECK(driver.cuMemAllocAsync(&block[4], 300 * KIB, stream));
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    if (version >= 13000) CHECK(driver.cuMemGetDefaultMemPool(&standard, &location, 1));
    if (version >= 13000) CHECK(driver.cuMemSetMemPool(&location, 1, pool));
    CHECK(driver.cuDeviceSetMemPool(0, standard));
    CHECK_FAILS(driver.cuMemAllocAsync(&block[5], 64 * GIB, stream), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(driver.cuMemPoolTrimTo(standard, 0));
    CHECK(driver.cuMemPoolDestroy(pool)); /* its blocks live on */
    CHECK(driver.cuMemFreeAsync(block[4], stream));
    CUmemPoolProps second = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    CHECK(driver.cuMemPoolCreate(&pool, &second));
    CHECK(driver.cuMemAllocFromPoolAsync(&block[5], 2 * MIB + 1, pool, stream));
}

/* Released while mapped, mapped twice, retained by its address: memory goes with the last of all that. */
static void virtual_memory(void)
{
    CUdeviceptr range, other;
    CUmemGenericAllocationHandle handle[3], retained;
    CUmemAllocationProp prop = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, 3};
    CHECK(driver.cuMemAddressReserve(&range, 64 * MIB, 0, 0, 0));
    CHECK(driver.cuMemAddressReserve(&other, 8 * MIB, 0, 0, 0));
    CHECK(driver.cuMemCreate(&handle[0], 4 * MIB, &prop, 0));
    CHECK(driver.cuMemCreate(&handle[1], 6 * MIB, &prop, 0));
    prop.location.id = 1;
    CHECK(driver.cuMemCreate(&handle[2], 10 * MIB, &prop, 0));
    CHECK(driver.cuMemMap(range, 4 * MIB, 0, handle[0], 0));
    CHECK(driver.cuMemMap(range + 4 * MIB, 6 * MIB, 0, handle[1], 0));
    CHECK(driver.cuMemMap(other, 4 * MIB, 0, handle[0], 0));
    CHECK(driver.cuMemSetAccess(range, 10 * MIB, &access, 1));
    CHECK(driver.cuMemRelease(handle[0]));
    CHECK(driver.cuMemRelease(handle[1]));
    CHECK(driver.cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)(range + 4 * MIB)));
    CHECK(driver.cuMemUnmap(range, 10 * MIB)); /* two mappings at once */
    CHECK(driver.cuMemRelease(retained));      /* the last of handle 1 */
    CHECK(driver.cuMemAddressFree(range, 64 * MIB));
    CHECK_FAILS(driver.cuMemAddressFree(other, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
    CHECK(driver.cuMemUnmap(other, 4 * MIB)); /* the last of handle 0 */
    CHECK_FAILS(driver.cuMemCreate(&handle[0], 64 * GIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

static void multicast(CUmemGenericAllocationHandle memory)
{
    CUmemGenericAllocationHandle object;
    CUmulticastObjectProp prop = {.numDevices = 2, .size = 16 * MIB};
    CHECK(driver.cuMulticastCreate(&object, &prop));
    CHECK(driver.cuMulticastAddDevice(object, 0));
    CHECK(driver.cuMulticastBindMem(object, 0, memory, 0, 2 * MIB, 0));
    CHECK(driver.cuMulticastUnbind(object, 0, 0, 2 * MIB));
    CHECK(driver.cuMemRelease(object));
}

static void imported(void)
{
    CUdeviceptr exported, opened[2], buffer;
    CUipcMemHandle handle;
    CHECK(driver.cuMemAlloc_v2(&exported, 9 * KIB));
    CHECK(driver.cuIpcGetMemHandle(&handle, exported));
    CHECK(driver.cuIpcOpenMemHandle_v2(&opened[0], handle, 1));
    CHECK(driver.cuIpcOpenMemHandle(&opened[1], handle, 1)); /* returns the same address again */
    CHECK(driver.cuIpcCloseMemHandle(opened[0]));
    CHECK(driver.cuIpcCloseMemHandle(opened[1]));
    CUexternalMemory external;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {.type = 1, .size = 11 * MIB};
    CHECK(driver.cuImportExternalMemory(&external, &description));
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = {.offset = 4096, .size = 3 * MIB};
    CHECK(driver.cuExternalMemoryGetMappedBuffer(&buffer, external, &part));
    CHECK(driver.cuMemFree_v2(buffer));
    CHECK(driver.cuDestroyExternalMemory(external));

    CUmemGenericAllocationHandle own, shared;
    CUmemAllocationProp device = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    int file;
    CHECK(driver.cuMemCreate(&own, 12 * MIB, &device, 0));
    CHECK(driver.cuMemExportToShareableHandle(&file, own, 1, 0));
    CHECK(driver.cuMemImportFromShareableHandle(&shared, (void *)(intptr_t)file, 1));
    close(file);
    if (version >= 12010) multicast(shared);
    CHECK(driver.cuMemRelease(shared));
    CHECK(driver.cuMemRelease(own));
    CUmemoryPool pool;
    CUmemPoolPtrExportData data = {{0}};
    uint64_t bytes = 123 * KIB;
    memcpy(data.reserved, &bytes, sizeof bytes);
    CHECK(driver.cuMemPoolImportFromShareableHandle(&pool, NULL, 1, 0));
    CHECK(driver.cuMemPoolImportPointer(&opened[0], pool, &data));
    CHECK(driver.cuMemFreeAsync(opened[0], NULL));
}

static void general_nodes(CUgraph graph, const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    CUgraphNode node[2];
    CUgraphNodeParams begin = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc = *params};
    begin.alloc.bytesize = 1 * MIB;
    CHECK(driver.cuGraphAddNode_v2(&node[0], graph, NULL, NULL, 0, &begin));
    CUgraphNodeParams end = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {begin.alloc.dptr}};
    CHECK(driver.cuGraphAddNode(&node[1], graph, &node[0], 1, &end));
}

static void built_graph(CUstream stream)
{
    CUgraph graph;
    CUgraphNode node[2];
    CUgraphExec executable;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                                         .bytesize = 3 * MIB};
    CHECK(driver.cuGraphCreate(&graph, 0));
    CHECK(driver.cuGraphAddMemAllocNode(&node[0], graph, NULL, 0, &params));
    CHECK(driver.cuGraphAddMemFreeNode(&node[1], graph, &node[0], 1, params.dptr));
    if (version >= 12030) general_nodes(graph, &params);
    CHECK(driver.cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(driver.cuGraphLaunch(executable, stream));
    CHECK(driver.cuGraphLaunch(executable, stream));
    CHECK(driver.cuGraphDestroy(graph)); /* its nodes live on in the executable */
    CHECK(driver.cuGraphExecDestroy(executable));
    CHECK(driver.cuDeviceGraphMemTrim(0));
}

static void captured_graph(CUstream stream)
{
    CUgraph captured;
    CUgraphExec executable;
    CUdeviceptr block[2];
    uint64_t reserved;
    CHECK(driver.cuStreamBeginCapture_v2(stream, 0));
    CHECK(driver.cuMemAllocAsync(&block[0], 40 * KIB, stream));
    CHECK(driver.cuMemAllocAsync(&block[1], 50 * KIB, stream));
    CHECK(driver.cuMemFreeAsync(block[0], stream));
    CHECK(driver.cuStreamEndCapture(stream, &captured));
    CHECK(driver.cuGraphInstantiateWithFlags(&executable, captured, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    CHECK(driver.cuGraphLaunch(executable, stream));
    CHECK(driver.cuGraphLaunch(executable, stream));
    CHECK(driver.cuMemFreeAsync(block[1], stream)); /* what the launch left */
    CHECK(driver.cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH};
    if (version >= 12000) CHECK(driver.cuGraphInstantiateWithParams(&executable, captured, &how));
}

static void modules(void)
{
    CUmodule module[2];
    CUdeviceptr variable;
    size_t bytes;
    CHECK(driver.cuModuleLoadData(&module[0], "softgpu module\nvariable weights 40000\nmanaged flags 512\n"));
    CHECK(driver.cuModuleLoadData(&module[1], "softgpu module\nvariable table 12\n"));
    CHECK(driver.cuModuleGetGlobal_v2(&variable, &bytes, module[0], "weights"));
    CHECK(driver.cuModuleUnload(module[1]));
    CHECK_FAILS(driver.cuModuleLoadData(&module[1], "nonsense"), CUDA_ERROR_INVALID_IMAGE);
}

static void handles(void)
{
    CUstream stream[2];
    CUevent event[2];
    for (int i = 0; i < 2; i++)
        CHECK(driver.cuStreamCreate(&stream[i], 0));
    for (int i = 0; i < 2; i++)
        CHECK(driver.cuEventCreate(&event[i], 0));
    CHECK(driver.cuStreamDestroy_v2(stream[0]));
    CHECK(driver.cuEventDestroy_v2(event[1]));
}

/* A context of its own, destroyed with everything in it; and the second device's primary one, reset. */
static void contexts(void)
{
    CUcontext own, primary;
    CUdeviceptr block;
    void *pinned;
    CUarray array;
    CUmodule module;
    CHECK(driver.cuCtxCreate_v2(&own, 0, 1));
    CHECK(driver.cuMemAlloc_v2(&block, 21 * KIB));
    CHECK(driver.cuMemAllocManaged(&block, 22 * KIB, 1));
    CHECK(driver.cuMemHostAlloc(&pinned, 23 * KIB, 0));
    CHECK(driver.cuArrayCreate_v2(&array, &(CUDA_ARRAY_DESCRIPTOR){10, 10, CU_AD_FORMAT_FLOAT, 1}));
    CHECK(driver.cuModuleLoadData(&module, "softgpu module\nvariable x 100\n"));
    handles();
    CHECK(driver.cuCtxDestroy_v2(own));
    CHECK(driver.cuDevicePrimaryCtxRetain(&primary, 1));
    CHECK(driver.cuCtxPushCurrent_v2(primary));
    CHECK(driver.cuMemAlloc_v2(&block, 24 * KIB));
    CHECK(driver.cuCtxPopCurrent_v2(NULL));
    CHECK(driver.cuDevicePrimaryCtxReset_v2(1));
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 3) return 2;
    if (argc == 3) version = strtol(argv[2], NULL, 10);
    driver_open(argv[1]);
    CUcontext context;
    CUstream stream;
    CHECK(driver.cuInit(0));
    CHECK(driver.cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(driver.cuCtxSetCurrent(context));
    CHECK(driver.cuStreamCreate(&stream, 0));
    linear();
    host();
    arrays();
    pools(stream);
    virtual_memory();
    imported();
    if (version >= 11040) built_graph(stream);
    if (version >= 11040) captured_graph(stream);
    modules();
    handles();
    contexts();
    return 0;
}
