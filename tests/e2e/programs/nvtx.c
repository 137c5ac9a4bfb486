/*
 * A program with NVTX ranges, `nvtx MODE`. It prints the regions that a recording must have. A line has the
 * thread's name, then B, E or M, then the region's name. Built with NVIDIA's headers if there are any (NVTX_HEADERS),
 * and always with a stand-in for them. As a shared library (NVTX_LIBRARY) it is a further copy of NVTX in the process.
 */
#ifdef NVTX_HEADERS
#    include <nvtx3/nvToolsExt.h>
#    include <nvtx3/nvToolsExtMem.h>

#    include <assert.h>

#    include "capture/nvtx/nvtx_abi.h"
#    define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), "not as in the headers of NVTX")
SAME(NVTX_TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(NVTX_MODULE_CORE, NVTX_CB_MODULE_CORE);
SAME(NVTX_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
SAME(NVTX_MARK_EX, NVTX_CBID_CORE_MarkEx);
SAME(NVTX_MARK_A, NVTX_CBID_CORE_MarkA);
SAME(NVTX_MARK_W, NVTX_CBID_CORE_MarkW);
SAME(NVTX_RANGE_START_EX, NVTX_CBID_CORE_RangeStartEx);
SAME(NVTX_RANGE_START_A, NVTX_CBID_CORE_RangeStartA);
SAME(NVTX_RANGE_START_W, NVTX_CBID_CORE_RangeStartW);
SAME(NVTX_RANGE_END, NVTX_CBID_CORE_RangeEnd);
SAME(NVTX_RANGE_PUSH_EX, NVTX_CBID_CORE_RangePushEx);
SAME(NVTX_RANGE_PUSH_A, NVTX_CBID_CORE_RangePushA);
SAME(NVTX_RANGE_PUSH_W, NVTX_CBID_CORE_RangePushW);
SAME(NVTX_RANGE_POP, NVTX_CBID_CORE_RangePop);
SAME(NVTX_DOMAIN_MARK_EX, NVTX_CBID_CORE2_DomainMarkEx);
SAME(NVTX_DOMAIN_RANGE_START_EX, NVTX_CBID_CORE2_DomainRangeStartEx);
SAME(NVTX_DOMAIN_RANGE_END, NVTX_CBID_CORE2_DomainRangeEnd);
SAME(NVTX_DOMAIN_RANGE_PUSH_EX, NVTX_CBID_CORE2_DomainRangePushEx);
SAME(NVTX_DOMAIN_RANGE_POP, NVTX_CBID_CORE2_DomainRangePop);
SAME(NVTX_DOMAIN_REGISTER_STRING_A, NVTX_CBID_CORE2_DomainRegisterStringA);
SAME(NVTX_DOMAIN_REGISTER_STRING_W, NVTX_CBID_CORE2_DomainRegisterStringW);
SAME(NVTX_DOMAIN_CREATE_A, NVTX_CBID_CORE2_DomainCreateA);
SAME(NVTX_DOMAIN_CREATE_W, NVTX_CBID_CORE2_DomainCreateW);
SAME(NVTX_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);
SAME(NVTX_MESSAGE_UNICODE, NVTX_MESSAGE_TYPE_UNICODE);
SAME(NVTX_MESSAGE_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
SAME(NVTX_NO_TRACKING, NVTX_NO_PUSH_POP_TRACKING);
SAME(sizeof(struct nvtx_attributes), sizeof(nvtxEventAttributes_t));
SAME(offsetof(struct nvtx_attributes, message_type), offsetof(nvtxEventAttributes_t, messageType));
SAME(offsetof(struct nvtx_attributes, message), offsetof(nvtxEventAttributes_t, message));
SAME(sizeof(struct nvtx_callbacks), sizeof(NvtxExportTableCallbacks));
SAME(NVTX_EXTENSION_MEMORY, NVTX_EXT_MODULEID_MEM);
SAME(NVTX_MEMORY_COMPATIBLE, NVTX_EXT_COMPATID_MEM);
SAME(NVTX_MEMORY_VIRTUAL_ADDRESS, NVTX_MEM_TYPE_VIRTUAL_ADDRESS);
SAME(NVTX_HEAP_REGISTER, NVTX3EXT_CBID_nvtxMemHeapRegister);
SAME(NVTX_HEAP_UNREGISTER, NVTX3EXT_CBID_nvtxMemHeapUnregister);
SAME(NVTX_HEAP_RESET, NVTX3EXT_CBID_nvtxMemHeapReset);
SAME(NVTX_REGIONS_REGISTER, NVTX3EXT_CBID_nvtxMemRegionsRegister);
SAME(NVTX_REGIONS_RESIZE, NVTX3EXT_CBID_nvtxMemRegionsResize);
SAME(NVTX_REGIONS_UNREGISTER, NVTX3EXT_CBID_nvtxMemRegionsUnregister);
SAME(sizeof(struct nvtx_heap), sizeof(nvtxMemHeapDesc_t));
SAME(offsetof(struct nvtx_heap, message_type), offsetof(nvtxMemHeapDesc_t, messageType));
SAME(sizeof(struct nvtx_memory_range), sizeof(nvtxMemVirtualRangeDesc_t));
SAME(sizeof(struct nvtx_regions_register), sizeof(nvtxMemRegionsRegisterBatch_t));
SAME(offsetof(struct nvtx_regions_register, handles), offsetof(nvtxMemRegionsRegisterBatch_t, regionHandleElementsOut));
SAME(sizeof(struct nvtx_regions_resize), sizeof(nvtxMemRegionsResizeBatch_t));
SAME(sizeof(struct nvtx_regions_unregister), sizeof(nvtxMemRegionsUnregisterBatch_t));
#else
#    include "nvtx_stand_in.h"
#endif

#include <memprof.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PUSHED 300 /* more open ranges than the recorder records (128) */

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    char line[512], name[16];
    va_list arguments;
    prctl(PR_GET_NAME, name);
    int length = snprintf(line, sizeof line, "%s ", name);
    va_start(arguments, format);
    length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
    va_end(arguments);
    line[length++] = '\n';
    if (write(STDOUT_FILENO, line, (size_t)length) != length) _exit(9);
}

static nvtxEventAttributes_t named(const char *name)
{
    nvtxEventAttributes_t attributes = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name;
    return attributes;
}

/* Makes ranges of one domain. `whose` is part of their names. */
__attribute__((visibility("default"))) void nvtx_in_library(const char *whose, int rounds);
void nvtx_in_library(const char *whose, int rounds)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("shared");
    nvtxEventAttributes_t attributes = named(NULL);
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = nvtxDomainRegisterStringA(domain, whose);
    for (int i = 0; i < rounds; i++) {
        nvtxDomainRangePushEx(domain, &attributes);
        tell("B shared:%s", whose);
        nvtxDomainRangePop(domain);
        tell("E shared:%s", whose);
    }
}

#ifndef NVTX_LIBRARY

static int kinds(void)
{
    nvtxEventAttributes_t attributes = named("aten::mm, seq = 17");
    nvtxDomainHandle_t domain = nvtxDomainCreateA("NCCL"), wide = nvtxDomainCreateW(L"b\u00fccher");
    if (nvtxRangePushA("outer") != 0) return 1;
    tell("B outer");
    if (nvtxRangePushW(L"\u00e4\u20ac\U0001f600") != 1) return 2;
    tell("B \u00e4\u20ac\U0001f600");
    if (nvtxRangePushEx(&attributes) != 2) return 3;
    tell("B aten::mm");
    attributes = named("AllReduce");
    if (nvtxDomainRangePushEx(domain, &attributes) != 0) return 4;
    tell("B NCCL:AllReduce");
    nvtxDomainMarkEx(domain, &attributes);
    tell("M NCCL:AllReduce");
    nvtxMarkA("here");
    tell("M here");
    attributes.size = 8; /* too small to hold a message */
    nvtxDomainRangePushEx(wide, &attributes);
    tell("B b\u00fccher:");
    attributes = named(NULL);
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = (void *)0x1234; /* not a registered string */
    nvtxDomainRangePushEx(wide, &attributes);
    tell("B b\u00fccher:");
    nvtxDomainRangePop(wide);
    tell("E b\u00fccher:");
    nvtxDomainRangePop(wide);
    tell("E b\u00fccher:");
    if (nvtxDomainRangePop(domain) != 0) return 5;
    tell("E NCCL:AllReduce");
    if (nvtxRangePop() != 2) return 6;
    tell("E aten::mm");
    nvtxRangePop();
    tell("E \u00e4\u20ac\U0001f600");
    if (nvtxRangePop() != 0) return 7;
    tell("E outer");
    return 0;
}

/* Pops without pushes are ignored. Only ranges deeper than the bound are left out. */
static int unbalanced(void)
{
    nvtxRangePop();
    for (int i = 0; i < PUSHED; i++) {
        char name[32];
        snprintf(name, sizeof name, "level %d", i);
        if (nvtxRangePushA(name) != i) return 1;
        if (i < 128) tell("B %s", name);
    }
    for (int i = PUSHED; i-- > 0;) {
        if (nvtxRangePop() != i) return 2;
        if (i < 128) tell("E level %d", i);
    }
    if (nvtxRangePop() >= 0) return 3;
    nvtxRangePushA("left open");
    tell("B left open");
    return 0;
}

/* Ranges of two domains cross: when the outer one ends, the inner one is begun again. */
static int crossing(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("other");
    nvtxEventAttributes_t attributes = named("inner");
    nvtxRangePushA("first");
    tell("B first");
    nvtxDomainRangePushEx(domain, &attributes);
    tell("B other:inner");
    nvtxRangePop();
    tell("E first");
    tell("B other:inner");
    nvtxRangePushA("second");
    tell("B second");
    nvtxDomainRangePop(domain);
    tell("E other:inner");
    tell("B second");
    nvtxRangePop();
    tell("E second");
    return 0;
}

static void *end_elsewhere(void *ranges)
{
    nvtxRangeEnd(((nvtxRangeId_t *)ranges)[0]);
    nvtxRangeEnd(((nvtxRangeId_t *)ranges)[0]); /* a second end is ignored */
    return NULL;
}

/* Ranges that overlap and end on another thread, and more ranges at once than lanes. The test has the right answer. */
static int ranges(void)
{
    nvtxRangeId_t open[400];
    pthread_t thread;
    open[0] = nvtxRangeStartA("a");
    open[1] = nvtxRangeStartW(L"b");
    if (pthread_create(&thread, NULL, end_elsewhere, open)) return 1;
    pthread_join(thread, NULL);
    nvtxRangeEnd(open[1]);
    nvtxRangeEnd(12345);
    nvtxRangeEnd(0);
    for (int i = 0; i < 400; i++)
        open[i] = nvtxRangeStartA("many");
    for (int i = 0; i < 400; i++)
        nvtxRangeEnd(open[i]);
    return 0;
}

static void block(uint32_t pool, int number, size_t bytes, int keep)
{
    memprof_alloc(pool, (void *)(uintptr_t)(4096 * (number + 1)), bytes);
    if (!keep) memprof_free(pool, (void *)(uintptr_t)(4096 * (number + 1)));
}

/* Ten steps by name. Each contains a range with a similar name. */
static int steps(const char *format)
{
    uint32_t pool = memprof_pool("steps", MEMPROF_HOST);
    for (int i = 0; i < 10; i++) {
        char name[64];
        snprintf(name, sizeof name, format, i);
        nvtxRangePushA(name);
        block(pool, 2 * i, 1000, 1);
        nvtxRangePushA("step_optimizer");
        block(pool, 2 * i + 1, 500, 0);
        nvtxRangePop();
        nvtxRangePop();
    }
    return 0;
}

/* A child forked inside ranges: the child's recording has the child's own ranges, but not the ends of the parent's. */
static int child(void)
{
    nvtxRangePushA("parent's");
    tell("B parent's");
    nvtxRangeId_t range = nvtxRangeStartA("lane");
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_NAME, "child");
        nvtxRangePop();
        nvtxRangeEnd(range);
        nvtxRangePushA("child's");
        tell("B child's");
        nvtxRangePop();
        tell("E child's");
        _exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status) return 1;
    nvtxRangeEnd(range);
    nvtxRangePop();
    tell("E parent's");
    return 0;
}

#    ifdef NVTX_HEADERS
/* An allocator announces a heap and in it 100 blocks of 1000 bytes, of which one grows to 5000. It gives back 50 by
 * address, 10 by handle, the rest with the heap. It then announces as many without a heap, and leaves them. */
static int memory(void)
{
    static char room[1 << 20];
    nvtxDomainHandle_t domain = nvtxDomainCreateA("alloc");
    nvtxMemVirtualRangeDesc_t whole = {sizeof room, room}, grown = {5000, room}, range[100];
    nvtxMemHeapDesc_t heap = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                              .structSize = sizeof heap,
                              .usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR,
                              .type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                              .typeSpecificDescSize = sizeof whole,
                              .typeSpecificDesc = &whole,
                              .messageType = NVTX_MESSAGE_TYPE_ASCII,
                              .message.ascii = "scratch"};
    nvtxMemHeapHandle_t made = nvtxMemHeapRegister(domain, &heap);
    nvtxMemRegionHandle_t handles[100];
    for (int i = 0; i < 100; i++)
        range[i] = (nvtxMemVirtualRangeDesc_t){1000, room + 8192 * i};
    nvtxMemRegionsRegisterBatch_t batch = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                           .structSize = sizeof batch,
                                           .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                                           .heap = made,
                                           .regionCount = 100,
                                           .regionDescElementSize = sizeof *range,
                                           .regionDescElements = range,
                                           .regionHandleElementsOut = handles};
    nvtxMemRegionsRegister(domain, &batch);
    nvtxMemRegionsResizeBatch_t resize = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                          .structSize = sizeof resize,
                                          .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                                          .regionDescCount = 1,
                                          .regionDescElementSize = sizeof grown,
                                          .regionDescElements = &grown};
    nvtxMemRegionsResize(domain, &resize);
    nvtxMemRegionRef_t references[60];
    for (int i = 0; i < 50; i++)
        references[i].pointer = room + 8192 * (i + 1);
    for (int i = 50; i < 60; i++)
        references[i].handle = handles[i + 1];
    for (int i = 0; i < 60; i += 10) {
        nvtxMemRegionsUnregisterBatch_t part = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                                .structSize = sizeof part,
                                                .refType = i < 50 ? NVTX_MEM_REGION_REF_TYPE_POINTER
                                                                  : NVTX_MEM_REGION_REF_TYPE_HANDLE,
                                                .refCount = 10,
                                                .refElementSize = sizeof *references,
                                                .refElements = references + i};
        nvtxMemRegionsUnregister(domain, &part);
        nvtxMemRegionsUnregister(domain, &part); /* twice: ends nothing */
    }
    nvtxMemHeapUnregister(domain, made);
    batch.heap = NULL;
    nvtxMemRegionsRegister(domain, &batch);
    return 0;
}

/* An allocator that never reuses an address: 150 000 blocks of 100 bytes, of which the last 2000 stay live. */
static int churn(void)
{
    enum { BATCHES = 150, EACH = 1000, KEPT = 2 };
    static nvtxMemVirtualRangeDesc_t range[EACH];
    static nvtxMemRegionRef_t references[EACH];
    nvtxDomainHandle_t domain = nvtxDomainCreateA("alloc");
    nvtxMemRegionsRegisterBatch_t batch = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                           .structSize = sizeof batch,
                                           .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                                           .regionCount = EACH,
                                           .regionDescElementSize = sizeof *range,
                                           .regionDescElements = range};
    nvtxMemRegionsUnregisterBatch_t ends = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                            .structSize = sizeof ends,
                                            .refType = NVTX_MEM_REGION_REF_TYPE_POINTER,
                                            .refCount = EACH,
                                            .refElementSize = sizeof *references,
                                            .refElements = references};
    char *address = (char *)0x10000000;
    for (int i = 0; i < BATCHES; i++) {
        for (int j = 0; j < EACH; j++, address += 512) {
            range[j] = (nvtxMemVirtualRangeDesc_t){100, address};
            references[j].pointer = address - KEPT * EACH * 512;
        }
        if (i >= KEPT) nvtxMemRegionsUnregister(domain, &ends);
        nvtxMemRegionsRegister(domain, &batch);
    }
    return 0;
}
#    else
static int memory(void)
{
    return 77;
}

static int churn(void)
{
    return 77;
}
#    endif

struct work {
    const char *library;
    int number;
};

static void *use_library(void *argument)
{
    const struct work *work = argument;
    char name[16];
    void (*run)(const char *, int);
    snprintf(name, sizeof name, "thread%d", work->number);
    prctl(PR_SET_NAME, name);
    void *symbol = NULL, *library = dlopen(work->library, RTLD_NOW | RTLD_LOCAL);
    if (library) symbol = dlsym(library, "nvtx_in_library");
    memcpy(&run, &symbol, sizeof run);
    if (!run) return (void *)1;
    run(name, 2000);
    return NULL;
}

/* Every library has its own copy of NVTX, and all start at the same time. */
static int libraries(char **paths, int count)
{
    pthread_t threads[16];
    struct work work[16];
    void *failed, *any = NULL;
    for (int i = 0; i < 8; i++) {
        work[i] = (struct work){paths[i % count], i};
        if (pthread_create(&threads[i], NULL, use_library, &work[i])) return 1;
    }
    nvtx_in_library("main", 2000);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &failed);
        if (failed) any = failed;
    }
    return any != NULL;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {{"kinds", kinds}, {"unbalanced", unbalanced}, {"crossing", crossing}, {"ranges", ranges},
                 {"child", child}, {"memory", memory},         {"churn", churn}};
    prctl(PR_SET_NAME, "main");
    if (argc > 2 && !strcmp(argv[1], "steps")) return steps(argv[2]);
    if (argc > 2 && !strcmp(argv[1], "libraries")) return libraries(argv + 2, argc - 2);
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name)) return modes[i].run();
    return 99;
}

#endif
