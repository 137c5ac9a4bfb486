#include "capture/cuda/cupti.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "capture/core/session.h"
#include "capture/cuda/cupti_library.h"
#include "capture/cuda/cupti_records.h"
#include "capture/stack/stack.h"

#define FLUSH_EVERY_NS  MP_NS_PER_SECOND
#define FLUSH_PERIOD_MS 1000
#define NOT_FOUND       -1 /* memprof's own value: results of CUPTI are never negative */
/* We put this mark into a call's correlation word; its low byte is then the visit's index. */
#define VISIT_MARK UINT64_C(0x6d656d70726f6600)

static void *subscriber;
static pid_t holder;               /* the process that subscribed */
static uint32_t holder_generation; /* generation of its session: a child of a raw clone() finds another number in the
                                    * wiped page */
static _Atomic bool held;
static _Atomic uint64_t last_flush;
static bool reported[MP_CUDA_CALL_COUNT]; /* set before the first callback */

/* The row of a cbid; MP_CUDA_CALL_COUNT: there is none. */
static enum mp_cuda_call_id call_of(uint32_t cbid)
{
    enum { CBIDS = 1024 };
    static _Atomic uint16_t known[CBIDS]; /* row + 1 */
    if (cbid >= CBIDS) return MP_CUDA_CALL_COUNT;
    uint16_t row = atomic_load_explicit(&known[cbid], memory_order_relaxed);
    if (row) return (enum mp_cuda_call_id)(row - 1);
    unsigned id = 0;
    while (id < MP_CUDA_CALL_COUNT && mp_cuda_calls[id].cbid != cbid)
        id++;
    atomic_store_explicit(&known[cbid], (uint16_t)(id + 1), memory_order_relaxed);
    return (enum mp_cuda_call_id)id;
}

bool mp_cupti_reports(enum mp_cuda_call_id id)
{
    return reported[id];
}

static struct stat own_file; /* this library's file; st_ino 0: unknown */

_Atomic int mp_cuda_front;
static bool has_hooks; /* libmemprof-hooks.so is preloaded; written by the constructor */

static bool start(void)
{
    has_hooks = dlsym(RTLD_DEFAULT, "memprof_hooks_are_here");
    static const char here;
    Dl_info own;
    if (!dladdr(&here, &own) || stat(own.dli_fname, &own_file)) own_file.st_ino = 0;
    return true;
}

static size_t thread_place;
const struct mp_front mp_cupti_front = {
    .start = start, .thread_bytes = sizeof(struct mp_cupti_thread), .thread_place = &thread_place};

struct mp_cupti_thread *mp_cupti_thread(struct mp_thread *thread)
{
    return thread ? mp_thread_part(thread, thread_place) : NULL;
}

/* True if the hooks' library is in this process and is wanted. */
static bool cuda_has_hooks(void)
{
    return mp_session.config.hooks && has_hooks;
}

void mp_cuda_without_cupti(const char *reason)
{
    char text[MP_SPOOL_NOTE_TEXT];
    bool hooks = cuda_has_hooks();
    atomic_store(&mp_cuda_front, hooks ? MP_FRONT_HOOKS : MP_FRONT_NOBODY);
    snprintf(text, sizeof text, "%s: the CUDA driver's calls were %s", reason,
             hooks ? "recorded by hooks" : "not recorded");
    mp_session_note(text);
}

bool mp_cupti_is_own_path(const char *path)
{
    struct stat given;
    return own_file.st_ino && !stat(path, &given) && given.st_ino == own_file.st_ino && given.st_dev == own_file.st_dev;
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */

/* Makes CUPTI hand over the records in its buffers. Records that stay there are lost if the program dies. Not inside a
 * hook: the buffers come back within this call, and their callback enters one. */
static void flush(bool now)
{
    uint64_t time = mp_clock_monotonic_ns(), last = atomic_load(&last_flush);
    if (!now && time - last < FLUSH_EVERY_NS) return;
    if (atomic_compare_exchange_strong(&last_flush, &last, time)) mp_cupti.cuptiActivityFlushAll(0);
}

static int device_of(mp_cu_handle context)
{
    uint32_t device;
    int known = mp_cuda_device_of((uint64_t)(uintptr_t)context);
    if (known != MP_NOT_KNOWN || !context) return known;
    return mp_cupti.cuptiGetDeviceId(context, &device) ? MP_NOT_KNOWN : (int)device;
}

static void on_enter(enum mp_cuda_call_id id, const struct mp_cupti_call *data)
{
    struct mp_cuda_visit visit = {0};
    mp_cuda_enter(id, data->functionParams, &visit);
    *data->correlationData = VISIT_MARK;
    struct mp_cupti_thread *own = mp_cupti_thread(mp_thread_present());
    if (!own) return;
    own->captured = false;
    unsigned place = own->enters++ % MP_CUPTI_VISITS;
    own->visits[place] = visit;
    *data->correlationData = VISIT_MARK | (place + 1);
}

static void on_exit_of(enum mp_cuda_call_id id, const struct mp_cupti_call *data)
{
    struct mp_cuda_visit visit = {0};
    const struct mp_cupti_thread *own = mp_cupti_thread(mp_thread_present());
    uint64_t place = *data->correlationData ^ VISIT_MARK;
    if (own && place && place <= MP_CUPTI_VISITS) visit = own->visits[place - 1];
    bool captured = own && own->captured;
    int result = *(const int *)data->functionReturnValue;
    struct mp_cuda_facts facts = MP_CUDA_NO_FACTS;
    facts.context = (uint64_t)(uintptr_t)data->context;
    facts.device = device_of(data->context);
    if (captured) facts.capturing = 1;
    mp_cuda_exit(id, data->functionParams, result, &visit, &facts);
    if (result == MP_CU_SUCCESS) mp_cupti_expect(&mp_cuda_calls[id], data, &visit);
    struct mp_cupti_thread *now = mp_cupti_thread(mp_thread_present()); /* looked up again: the call's exit may have
                                                                         * made the thread's state */
    if (now) now->exits++;
    flush(mp_cuda_loads_code(mp_cuda_calls[id].action));
}

static void on_undescribed(uint32_t cbid)
{
    static const struct {
        uint32_t cbid;
        const char *note;
    } calls[] = {
#define MP_CUDA_ROW(name, cbid)                                                                                        \
    {cbid, #name " was called: what this interface of CUDA 3 allocates and frees is not recorded"},
        MP_CUDA_UNDESCRIBED_CALLS(MP_CUDA_ROW)
#undef MP_CUDA_ROW
    };
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].cbid == cbid) mp_session_note(calls[i].note);
    mp_hook_leave(thread);
}

static void on_call(uint32_t cbid, const struct mp_cupti_call *data)
{
    enum mp_cuda_call_id id = call_of(cbid);
    if (id == MP_CUDA_CALL_COUNT)
        on_undescribed(cbid);
    else if (data->callbackSite == MP_CUPTI_ENTER)
        on_enter(id, data);
    else
        on_exit_of(id, data);
}

static void on_resource(uint32_t id, const struct mp_cupti_resource *data)
{
    const struct mp_cupti_graph *graph = data->resourceDescriptor;
    if (id == MP_CUPTI_GRAPHNODE_CREATED) {
        struct mp_cupti_thread *own = mp_cupti_thread(mp_thread_present());
        if (own && graph && graph->nodeType == MP_CU_NODE_MEM_ALLOC) own->captured = true;
        return;
    }
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    if (id == MP_CUPTI_CONTEXT_CREATED)
        mp_cuda_context_seen(thread, (uint64_t)(uintptr_t)data->context, device_of(data->context), true);
    else
        mp_cuda_context_gone(thread, (uint64_t)(uintptr_t)data->context);
    mp_hook_leave(thread);
}

static void lost(const char *note)
{
    if (!atomic_exchange(&held, false)) return;
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    mp_cuda_without_cupti(note);
    mp_hook_leave(thread);
}

static void on_callback(void *user, uint32_t domain, uint32_t id, const void *data)
{
    (void)user;
    uint32_t generation = atomic_load_explicit(&mp_session.page->generation, memory_order_relaxed);
    if (!atomic_load_explicit(&held, memory_order_relaxed) || generation != holder_generation) return;
    int saved = errno;
    if (domain == MP_CUPTI_DRIVER)
        on_call(id, data);
    else if (domain == MP_CUPTI_RESOURCE)
        on_resource(id, data);
    else if (domain == MP_CUPTI_STATE && id == MP_CUPTI_STATE_FATAL_ERROR)
        lost("CUPTI gave up after a fatal error of its own; from then on");
    errno = saved;
}

/* ---- subscribing and releasing ----------------------------------------------------------------------------------- */

static void note_refusal(int result)
{
    char name[64] = "", text[160];
    const char *reason = NULL;
    if (result == MP_CUPTI_BUSY && mp_cupti.cuptiSubscribe_v2) {
        /* Only the second version of the interface names the present subscriber. We use this version for nothing
         * else. */
        struct mp_cupti_subscriber_params params = {.structSize = sizeof params,
                                                    .subscriberName = "memprof",
                                                    .oldSubscriberName = name,
                                                    .oldSubscriberSize = sizeof name};
        void *other = NULL;
        if (mp_cupti.cuptiSubscribe_v2(&other, on_callback, NULL, &params) == MP_CUPTI_SUCCESS)
            mp_cupti.cuptiUnsubscribe(other);
        name[sizeof name - 1] = '\0';
    }
    if (mp_cupti.version && mp_cupti.cuptiGetResultString) mp_cupti.cuptiGetResultString(result, &reason);
    if (result == NOT_FOUND)
        snprintf(text, sizeof text, "CUPTI was not found (MEMPROF_CUPTI may name its library)");
    else if (result == MP_CUPTI_BUSY || result == MP_CUPTI_MAX_LIMIT_REACHED)
        snprintf(text, sizeof text, "CUPTI was held by %s", *name ? name : "another tool");
    else if (result == MP_CUPTI_NOT_INITIALIZED)
        snprintf(text, sizeof text, "CUPTI is newer than the driver allows");
    else
        snprintf(text, sizeof text, "CUPTI refused with error %d%s%.100s", result, reason ? ", " : "",
                 reason ? reason : "");
    mp_cuda_without_cupti(text);
}

static int enable(uint32_t domain, uint32_t id)
{
    return mp_cupti.cuptiEnableCallback(1, subscriber, domain, id);
}

static void enable_callbacks(void)
{
    unsigned unknown = 0;
    char text[128];
    for (unsigned id = 0; id < MP_CUDA_CALL_COUNT; id++) {
        reported[id] = !enable(MP_CUPTI_DRIVER, mp_cuda_calls[id].cbid);
        unknown += !reported[id];
    }
    if (unknown && !cuda_has_hooks()) {
        snprintf(text, sizeof text, "CUPTI %u does not know %u of the driver's calls: what they do is not recorded",
                 mp_cupti.version, unknown);
        mp_session_note(text);
    }
#define MP_CUDA_ROW(name, cbid) enable(MP_CUPTI_DRIVER, cbid);
    MP_CUDA_UNDESCRIBED_CALLS(MP_CUDA_ROW)
#undef MP_CUDA_ROW
    enable(MP_CUPTI_RESOURCE, MP_CUPTI_CONTEXT_CREATED);
    enable(MP_CUPTI_RESOURCE, MP_CUPTI_CONTEXT_DESTROY_STARTING);
    enable(MP_CUPTI_RESOURCE, MP_CUPTI_GRAPHNODE_CREATED);
    enable(MP_CUPTI_STATE, MP_CUPTI_STATE_FATAL_ERROR);
}

/* Without these records, a recording lacks only variables of modules and the sizes of pools. */
static void enable_records(void)
{
    if (!mp_cupti_records_start() ||
        mp_cupti.cuptiActivityRegisterCallbacks(mp_cupti_request_buffer, mp_cupti_take_buffer) ||
        mp_cupti.cuptiActivityEnable(MP_CUPTI_MEMORY2)) {
        mp_session_note("CUPTI gave no memory records: variables of modules and sizes of pools are not recorded");
        atomic_store(&mp_session.header->cupti.flushed, 1);
        return;
    }
    mp_cupti.cuptiActivityEnable(MP_CUPTI_MEMORY_POOL);
    /* Memory records have correlation ids only if call records are enabled, too. */
    for (unsigned id = 0; mp_cupti.cuptiActivityEnableDriverApi && id < MP_CUDA_CALL_COUNT; id++)
        if (mp_cupti_has_record(mp_cuda_calls[id].action))
            mp_cupti.cuptiActivityEnableDriverApi(mp_cuda_calls[id].cbid, 1);
    if (mp_cupti.cuptiActivityFlushPeriod) mp_cupti.cuptiActivityFlushPeriod(FLUSH_PERIOD_MS);
}

/* Takes all records that CUPTI still has, and notes the expected ones that did not come. */
static bool take_the_rest(void)
{
    size_t dropped = 0;
    if (mp_cupti.cuptiActivityFlushAll(1)) return false;
    if (!mp_cupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped))
        atomic_fetch_add(&mp_session.header->cupti.dropped, dropped);
    mp_cupti_records_end();
    atomic_store(&mp_session.header->cupti.flushed, 1);
    return true;
}

static void at_exit(void)
{
    if (holder == mp_getpid() && atomic_load(&held) && mp_session_recording()) take_the_rest();
}

/* Subscribes to CUPTI. Skips a version that is too new for the driver, since an older one may work. */
static bool subscribe(void *refusal)
{
    *(int *)refusal = mp_cupti.cuptiSubscribe(&subscriber, on_callback, NULL);
    return *(int *)refusal != MP_CUPTI_NOT_INITIALIZED;
}

/* `driver`: an address in the driver's code. */
static void record_by_cupti(uintptr_t driver)
{
    int refusal = NOT_FOUND;
    mp_cupti_find(subscribe, &refusal);
    if (refusal) {
        note_refusal(refusal);
        return;
    }
    holder = mp_getpid();
    mp_stack_leave_out((uintptr_t)mp_cupti.cuptiSubscribe);
    mp_stack_leave_out(driver);
    enable_callbacks();
    enable_records();
    mp_session_source(MP_SOURCE_CUPTI);
    atomic_store(&mp_cuda_front, MP_FRONT_CUPTI);
    holder_generation = atomic_load(&mp_session.page->generation);
    atomic_store(&held, true);
    atexit(at_exit);
}

/* Called by the driver in cuInit(), before the program's first call has any effect. */
__attribute__((visibility("default"))) int InitializeInjection(void);
int InitializeInjection(void)
{
    static _Atomic bool came;
    int saved = errno;
    if (mp_session.page && !atomic_exchange(&came, true) && mp_session_recording() && mp_session.config.cupti)
        record_by_cupti((uintptr_t)__builtin_return_address(0));
    errno = saved;
    return 1;
}

bool mp_cupti_release(void)
{
    if (holder != mp_getpid() || !atomic_load(&held)) return false;
    bool whole = take_the_rest();
    if (!atomic_exchange(&held, false)) return false;
    mp_cupti.cuptiActivityDisable(MP_CUPTI_MEMORY2);
    mp_cupti.cuptiActivityDisable(MP_CUPTI_MEMORY_POOL);
    mp_cupti.cuptiUnsubscribe(subscriber);
    mp_cuda_without_cupti(whole ? "CUPTI was released on request; from then on"
                                : "CUPTI was released on request, with records left in its buffers; from then on");
    return true;
}

bool mp_cupti_forget(void)
{
    return atomic_exchange(&held, false);
}
