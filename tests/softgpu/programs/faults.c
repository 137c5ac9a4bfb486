/*
 * Programs that do wrong, or to which it is done:
 *
 *     faults WAY double_free | unknown_free | lost_context | fork | fork_and_use | kill | refusals
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "softgpu/programs/driver_api.h"

static CUcontext context;

static void double_free(void)
{
    CUdeviceptr block[2];
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    void *pinned;
    CHECK(driver.cuMemAlloc_v2(&block[0], 1000));
    CHECK(driver.cuMemAlloc_v2(&block[1], 2000));
    CHECK(driver.cuMemFree_v2(block[0]));
    CHECK_FAILS(driver.cuMemFree_v2(block[0]), CUDA_ERROR_INVALID_VALUE);
    CHECK(driver.cuMemHostAlloc(&pinned, 3000, 0));
    CHECK(driver.cuMemFreeHost(pinned));
    CHECK_FAILS(driver.cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
    CHECK(driver.cuMemCreate(&handle, 2 << 20, &prop, 0));
    CHECK(driver.cuMemRelease(handle));
    CHECK_FAILS(driver.cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    CHECK(driver.cuMemAllocAsync(&block[0], 4000, NULL));
    CHECK(driver.cuMemFreeAsync(block[0], NULL));
    CHECK_FAILS(driver.cuMemFreeAsync(block[0], NULL), CUDA_ERROR_INVALID_VALUE);
}

/* Addresses that the driver never gave; the wrong function for the right address. */
static void unknown_free(void)
{
    CUdeviceptr block;
    char own[64];
    CHECK(driver.cuMemAlloc_v2(&block, 1000));
    CHECK_FAILS(driver.cuMemFree_v2(0x1234000), CUDA_ERROR_INVALID_VALUE);
    CHECK_FAILS(driver.cuMemFree_v2(block + 512), CUDA_ERROR_INVALID_VALUE);
    CHECK_FAILS(driver.cuMemFreeHost((void *)(uintptr_t)block), CUDA_ERROR_INVALID_VALUE);
    CHECK_FAILS(driver.cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    CHECK_FAILS(driver.cuMemRelease(99), CUDA_ERROR_INVALID_VALUE);
    CHECK_FAILS(driver.cuMemUnmap(block, 2 << 20), CUDA_ERROR_INVALID_VALUE);
    CHECK_FAILS(driver.cuMemAddressFree(block, 2 << 20), CUDA_ERROR_INVALID_VALUE);
    CHECK_FAILS(driver.cuIpcCloseMemHandle(block), CUDA_ERROR_INVALID_VALUE);
}

/* Destroyed under live blocks, which are then freed in vain; the thread goes on in the first context. */
static void lost_context(void)
{
    CUcontext other;
    CUdeviceptr block[3];
    void *pinned;
    CHECK(driver.cuMemAlloc_v2(&block[0], 1000));
    CHECK(driver.cuCtxCreate_v4(&other, NULL, 0, 0));
    CHECK(driver.cuMemAlloc_v2(&block[1], 2000));
    CHECK(driver.cuMemAllocPitch_v2(&block[2], &(size_t){0}, 300, 3, 4));
    CHECK(driver.cuMemHostAlloc(&pinned, 4000, 0));
    CHECK(driver.cuCtxDestroy_v2(other));
    CHECK_FAILS(driver.cuMemFree_v2(block[1]), CUDA_ERROR_INVALID_VALUE);
    CHECK(driver.cuMemAlloc_v2(&block[1], 2000));
    CHECK_FAILS(driver.cuCtxDestroy_v2(other), CUDA_ERROR_INVALID_CONTEXT);
}

static void wait_for(pid_t child)
{
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status)) exit(6);
}

/* CUDA does not survive a fork: the child's calls fail, the parent's go on. */
static void fork_and(bool use)
{
    CUdeviceptr block[2];
    CHECK(driver.cuMemAlloc_v2(&block[0], 1000));
    pid_t child = fork();
    if (!child) {
        if (use) CHECK_FAILS(driver.cuMemAlloc_v2(&block[1], 2000), CUDA_ERROR_NOT_INITIALIZED);
        if (use) CHECK_FAILS(driver.cuMemFree_v2(block[0]), CUDA_ERROR_NOT_INITIALIZED);
        exit(0);
    }
    wait_for(child);
    CHECK(driver.cuMemAlloc_v2(&block[1], 3000));
    CHECK(driver.cuMemFree_v2(block[0]));
}

/* Every function that may find no memory, once; the test has one of them refused ($SOFTGPU_FAIL). */
static void refusals(void)
{
    CUdeviceptr block;
    CUdeviceptr_v1 old;
    size_t pitch;
    unsigned old_pitch;
    void *pinned;
    CUarray array;
    CUmipmappedArray mipmap;
    CUmemGenericAllocationHandle handle;
    CUmemoryPool pool;
    CUgraph graph;
    CUgraphNode node;
    CUmemAllocationProp prop = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemPoolProps pool_props = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUDA_ARRAY_DESCRIPTOR plane = {10, 20, CU_AD_FORMAT_FLOAT, 1};
    CUDA_ARRAY3D_DESCRIPTOR space = {10, 20, 30, CU_AD_FORMAT_FLOAT, 1, 0};
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = pool_props, .bytesize = 11000};
    CHECK(driver.cuMemPoolCreate(&pool, &pool_props));
    CHECK(driver.cuGraphCreate(&graph, 0));
    driver.cuMemAlloc_v2(&block, 1000);
    driver.cuMemAlloc(&old, 2000);
    driver.cuMemAllocPitch_v2(&block, &pitch, 1024, 3, 4);
    driver.cuMemAllocPitch(&old, &old_pitch, 512, 4, 4);
    driver.cuMemAllocManaged(&block, 3000, 1);
    driver.cuMemHostAlloc(&pinned, 4000, 0);
    driver.cuMemAllocHost_v2(&pinned, 5000);
    driver.cuMemAllocHost(&pinned, 6000);
    driver.cuArrayCreate_v2(&array, &plane);
    driver.cuArray3DCreate_v2(&array, &space);
    driver.cuMipmappedArrayCreate(&mipmap, &space, 3);
    driver.cuMemAllocAsync(&block, 7000, NULL);
    driver.cuMemAllocAsync_ptsz(&block, 8000, NULL);
    driver.cuMemAllocFromPoolAsync(&block, 9000, pool, NULL);
    driver.cuMemAllocFromPoolAsync_ptsz(&block, 10000, pool, NULL);
    driver.cuMemCreate(&handle, 2 << 20, &prop, 0);
    driver.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params);
}

static void killed(void)
{
    CUdeviceptr block;
    for (size_t bytes = 1; bytes <= 1000; bytes++)
        CHECK(driver.cuMemAlloc_v2(&block, bytes));
    driver.flush();
    kill(getpid(), SIGKILL);
}

static void fork_only(void)
{
    fork_and(false);
}

static void fork_and_use(void)
{
    fork_and(true);
}

static const struct {
    const char *name;
    void (*commit)(void);
} faults[] = {
    {"double_free", double_free}, {"unknown_free", unknown_free}, {"lost_context", lost_context},
    {"fork", fork_only},          {"fork_and_use", fork_and_use}, {"kill", killed},
    {"refusals", refusals},
};

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    driver_open(argv[1]);
    CHECK(driver.cuInit(0));
    CHECK(driver.cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(driver.cuCtxSetCurrent(context));
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (strcmp(faults[i].name, argv[2])) continue;
        faults[i].commit();
        return 0;
    }
    return 2;
}
