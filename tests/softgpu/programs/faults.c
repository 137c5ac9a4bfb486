/*
 * Programs that misuse CUDA, or are disturbed:
 *
 *     faults WAY double_free | unknown_free | lost_context | fork | fork_and_use | fork_in_recorder | kill | refusals |
 *                 reload | stray_end
 */
#include <dlfcn.h>
#include <link.h>
#include <memprof.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
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

/* A context is destroyed with live blocks, whose frees then fail; the thread goes on in the first context. */
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

/* ---- forks out of a signal handler, wherever in the recorder the signal comes; the child goes on there ---- */

static struct code {
    uintptr_t start, end;
} recorder[2];
enum { FORKS = 60 };
static volatile sig_atomic_t recorders, forks, is_child, lost_child;

static int find_recorder(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void)bytes, (void)unused;
    if (!strstr(info->dlpi_name, "/libmemprof") || recorders == 2) return 0;
    struct code *code = &recorder[recorders++];
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X)) continue;
        code->start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        code->end = code->start + info->dlpi_phdr[i].p_memsz;
    }
    return 0;
}

static void set_timer(void)
{
    static unsigned long next;
    struct itimerval once = {.it_value.tv_usec = 100 + 7 * (next++ % 100)};
    setitimer(ITIMER_REAL, &once, NULL);
}

static void fork_here(int number, siginfo_t *info, void *interrupted)
{
    (void)number, (void)info;
#if defined(__x86_64__)
    uintptr_t at = (uintptr_t)((ucontext_t *)interrupted)->uc_mcontext.gregs[REG_RIP];
#else
    uintptr_t at = (uintptr_t)((ucontext_t *)interrupted)->uc_mcontext.pc;
#endif
    bool inside = false;
    int status;
    for (int i = 0; i < recorders; i++)
        inside |= at >= recorder[i].start && at < recorder[i].end;
    if (inside && !is_child) {
        forks++;
        pid_t child = fork();
        if (!child)
            is_child = 1;
        else if (waitpid(child, &status, 0) != child || status)
            lost_child = status ? status : -1;
    }
    if (!is_child && forks < FORKS && !lost_child) set_timer();
}

/* Contexts end with many blocks, so that the recorder is mostly in the middle of its table of what is live. */
static void fork_in_recorder(void)
{
    enum { BLOCKS = 200, ROUNDS_MOST = 20000 };
    struct sigaction action = {.sa_sigaction = fork_here, .sa_flags = SA_SIGINFO | SA_RESTART};
    dl_iterate_phdr(find_recorder, NULL);
    sigaction(SIGALRM, &action, NULL);
    set_timer();
    int contexts = 0, blocks = 0;
    for (int round = 0; recorders && round < ROUNDS_MOST && forks < FORKS && !lost_child; round++) {
        CUcontext other;
        CUdeviceptr block;
        if (driver.cuCtxCreate_v4(&other, NULL, 0, 0) && !is_child) exit(4);
        contexts++;
        for (int i = 0; i < BLOCKS && !is_child; i++) {
            memprof_pool("beside", 0);
            if (driver.cuMemAlloc_v2(&block, 1000) && !is_child) exit(4);
            blocks++;
        }
        if (!is_child && driver.cuCtxDestroy_v2(other) && !is_child) exit(4);
        if (is_child) _exit(0);
    }
    if (lost_child) {
        fprintf(stderr, "a child ended with status %d after %d forks\n", (int)lost_child, (int)forks);
        exit(6);
    }
    printf("%d %d %d\n", (int)forks, contexts, blocks);
}

/* Every function that may find no memory, once; the test has one of them refused ($SOFTGPU_FAIL). */
static void refusals(void)
{
    CUdeviceptr block;
    size_t pitch;
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
    driver.cuMemAllocPitch_v2(&block, &pitch, 1024, 3, 4);
    driver.cuMemAllocManaged(&block, 3000, 1);
    driver.cuMemHostAlloc(&pinned, 4000, 0);
    driver.cuMemAllocHost_v2(&pinned, 5000);
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

/* Somebody looks whether there is a driver, and unloads it again; the one that is used later lies elsewhere. */
static void look_for_driver(void)
{
    Dl_info info;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library || !dladdr(dlsym(library, "softgpu_live"), &info)) exit(3);
    if (!dlsym(library, "cuMemAlloc_v2") || !dlsym(library, "cuMemFree_v2") || dlerror()) exit(3);
    dlclose(library);
    mmap(info.dli_fbase, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

/* The end of a capture that never began, while another stream captures. */
static void stray_end(void)
{
    CUstream stream, other;
    CUgraph captured;
    CUdeviceptr block;
    CHECK(driver.cuStreamCreate(&stream, 0));
    CHECK(driver.cuStreamCreate(&other, 0));
    CHECK(driver.cuStreamBeginCapture_v2(stream, 0));
    CHECK_FAILS(driver.cuStreamEndCapture(other, &captured), CUDA_ERROR_INVALID_VALUE);
    CHECK(driver.cuMemAllocAsync(&block, 4000, stream));
    CHECK(driver.cuStreamEndCapture(stream, &captured));
    CHECK(driver.cuMemAllocAsync(&block, 5000, stream));
}

static void allocate_and_free(void)
{
    CUdeviceptr block;
    CHECK(driver.cuMemAlloc_v2(&block, 1000));
    CHECK(driver.cuMemFree_v2(block));
}

static const struct {
    const char *name;
    void (*commit)(void);
} faults[] = {
    {"double_free", double_free},
    {"unknown_free", unknown_free},
    {"lost_context", lost_context},
    {"fork", fork_only},
    {"fork_and_use", fork_and_use},
    {"fork_in_recorder", fork_in_recorder},
    {"kill", killed},
    {"refusals", refusals},
    {"reload", allocate_and_free},
    {"stray_end", stray_end},
};

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    if (!strcmp(argv[2], "reload")) look_for_driver();
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
