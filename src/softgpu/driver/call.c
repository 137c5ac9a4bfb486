/* One call of the driver from entry to exit: checks whether the driver may be used, and calls the tools. Also the
 * injection at cuInit(). */
#include "softgpu/driver/call.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/driver.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <memprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct soft_tool *tool;
static uint32_t correlations;
static pid_t started_in; /* the process that called cuInit(); in a forked child calls fail */
static __thread struct soft_call *innermost;
static __thread uint64_t read_back; /* bytes that the running call returned although no kernel computed them */
static __thread enum softgpu_source read_source;
static __thread char marks[SOFT_MARKS][SOFT_MARK_BYTES]; /* those that the running call left; "": none */
static __thread bool marked;
static __thread bool refusing; /* the test makes the running call find no memory */

EXPORTED void softgpu_set_tool(const struct soft_tool *to)
{
    __atomic_store_n(&tool, to, __ATOMIC_RELEASE);
}

EXPORTED bool softgpu_context_facts(CUcontext context, uint32_t *uid, int *device)
{
    if (!context) return false;
    *uid = context->uid;
    *device = context->device;
    return true;
}

void soft_enter(struct soft_call *call, uint32_t cbid, const char *name, const void *params)
{
    CUcontext context = soft_current();
    *call = (struct soft_call){
        .cbid = cbid,
        .name = name,
        .params = params,
        .context = context,
        .context_uid = context ? context->uid : UINT32_MAX,
        .correlation = __atomic_add_fetch(&correlations, 1, __ATOMIC_RELAXED),
        .tool = __atomic_load_n(&tool, __ATOMIC_ACQUIRE),
        .outer = innermost,
    };
    innermost = call;
    if (call->tool && cbid) call->tool->call(call, false);
}

void soft_read_back(uint64_t bytes, enum softgpu_source source)
{
    if (source != SOFTGPU_KNOWN) read_back += bytes;
    read_source = source;
}

/* Makes a mark in the recording, with the present stack, if there is a recorder. */
static void report_read_back(void)
{
    char text[64];
    static const char *const sources[] = {[SOFTGPU_SPREAD] = " spread", [SOFTGPU_RECEIVED] = " received"};
    const char *source = read_source >= SOFTGPU_SPREAD ? sources[read_source] : "";
    snprintf(text, sizeof text, "plan: read back %" PRIu64 "%s", read_back, source);
    read_back = 0;
    memprof_mark(text);
}

void soft_mark_later(unsigned slot, const char *text)
{
    snprintf(marks[slot], sizeof marks[slot], "%s", text);
    marked = true;
}

static void make_marks(void)
{
    marked = false;
    for (unsigned slot = 0; slot < SOFT_MARKS; slot++) {
        if (!marks[slot][0]) continue;
        memprof_mark(marks[slot]);
        marks[slot][0] = 0;
    }
}

void soft_exit(struct soft_call *call)
{
    innermost = call->outer;
    if (marked && !innermost) make_marks();
    if (read_back) report_read_back();
    if (call->tool && call->cbid && call->tool == __atomic_load_n(&tool, __ATOMIC_ACQUIRE))
        call->tool->call(call, true);
}

/* True if $SOFTGPU_FAIL=SYMBOL:N,... names this call. Under the lock. */
static bool asked_to_fail(const char *name)
{
    enum { MOST = 32 };
    static struct {
        char name[64];
        unsigned long nth;
    } wanted[MOST];
    static size_t count;
    static bool read;
    for (const char *at = read ? NULL : getenv("SOFTGPU_FAIL"); at && count < MOST; at = strchr(at, ',')) {
        at += *at == ',';
        if (sscanf(at, "%63[^:]:%lu", wanted[count].name, &wanted[count].nth) == 2) count++;
    }
    read = true;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(wanted[i].name, name)) return wanted[i].nth && !--wanted[i].nth;
    return false;
}

bool soft_ready(struct soft_call *call)
{
    if (!started_in || started_in != getpid()) {
        call->result = CUDA_ERROR_NOT_INITIALIZED;
        return false;
    }
    refusing = asked_to_fail(call->name);
    return true;
}

bool soft_refusing(void)
{
    return refusing;
}

/* Writes the ledger's text and takes the lock, so that the child gets no unwritten text, and no lock of another
 * thread. */
static void before_fork(void)
{
    softgpu_flush();
    pthread_mutex_lock(&soft_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&soft_lock);
}

void soft_inject(void)
{
    static bool done;
    if (__atomic_exchange_n(&done, true, __ATOMIC_ACQ_REL)) return;
    started_in = getpid();
    pthread_atfork(before_fork, after_fork, after_fork);
    const char *path = getenv("CUDA_INJECTION64_PATH");
    if (!path || !*path) return;
    void *library = dlopen(path, RTLD_NOW);
    int (*initialize)(void);
    void *found = library ? dlsym(library, "InitializeInjection") : NULL;
    if (!found) return; /* there is no such library: the program continues, as with NVIDIA's driver */
    memcpy(&initialize, &found, sizeof found);
    initialize();
}

void soft_report_memory_event(struct soft_memory_event *event)
{
    const struct soft_tool *to = __atomic_load_n(&tool, __ATOMIC_ACQUIRE);
    if (!to) return;
    event->correlation = innermost ? innermost->correlation : 0;
    to->memory(event);
}

void soft_report_pool_event(struct soft_pool_event *event)
{
    const struct soft_tool *to = __atomic_load_n(&tool, __ATOMIC_ACQUIRE);
    if (!to) return;
    event->correlation = innermost ? innermost->correlation : 0;
    to->pool(event);
}

void soft_report_memory(struct soft_block *block, unsigned operation, unsigned kind, const char *name)
{
    soft_report_memory_event(&(struct soft_memory_event){
        .operation = operation,
        .kind = kind,
        .address = block->address,
        .bytes = block->bytes,
        .device = block->device < 0 ? 0 : (uint32_t)block->device,
        .context = block->context ? block->context->uid : UINT32_MAX,
        .stream = UINT32_MAX,
        .name = name,
    });
}

void soft_report_context(unsigned cbid, CUcontext context)
{
    const struct soft_tool *to = __atomic_load_n(&tool, __ATOMIC_ACQUIRE);
    if (to) to->context(&(struct soft_context_event){cbid, context, context->uid});
}
