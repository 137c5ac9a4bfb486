#include "capture/cuda/front.h"

#include <errno.h>
#include <stdlib.h>

#include "capture/core/session.h"
#include "capture/cuda/cupti.h"
#include "capture/stack/stack.h"

/* CUDA does not survive a fork, so the child has none of the parent's memory, and cannot use CUPTI's state. If a signal
 * handler inside a hook forked, the hook continues in the child and still uses its tables. No other hook of CUDA begins
 * there. */
static void forked(bool inside)
{
    if (!inside) {
        mp_live_reset();
        mp_book_reset();
    }
    if (mp_cupti_forget()) atomic_store(&mp_cuda_front, MP_FRONT_NOBODY);
}

const struct mp_front mp_cuda_front_end = {.forked = forked};

/* Called when a call has succeeded: so cuInit() has run, but has not loaded the recorder for CUPTI. */
static void decide_without_injection(void)
{
    const char *injected = getenv(MP_CUDA_VARIABLE);
    if (!mp_session.config.cupti)
        atomic_store(&mp_cuda_front, mp_session.config.hooks ? MP_FRONT_HOOKS : MP_FRONT_NOBODY);
    else if (injected && *injected && !mp_cupti_is_own_path(injected))
        mp_cuda_without_cupti("CUPTI was not used, since CUDA_INJECTION64_PATH names another tool's library");
    else
        mp_cuda_without_cupti("CUPTI was not used, since the driver did not load the recorder");
}

/* Reads how many enters and exits the callbacks have reported on this thread. */
static void count_callbacks(uint32_t *enters, uint32_t *exits)
{
    const struct mp_cupti_thread *own = mp_cupti_thread(mp_thread_present());
    *enters = own ? own->enters : 0;
    *exits = own ? own->exits : 0;
}

static bool before(struct mp_hook_call *call)
{
    if (!mp_session_recording()) return false;
    call->visit.taken_count = 0;
    call->visit.entered = call->visit.unknown = false;
    call->visit.began = 0;
    int front = atomic_load_explicit(&mp_cuda_front, memory_order_relaxed);
    if (front == MP_FRONT_NOBODY) return false;
    call->watched = front == MP_FRONT_CUPTI && mp_cupti_reports(call->id);
    if (call->watched) {
        count_callbacks(&call->enters_before, &call->exits_before);
        return true;
    }
    mp_cuda_enter(call->id, call->arguments, &call->visit);
    return true;
}

/* While CUPTI records, a wrapper only adds facts for which the driver must be asked: callbacks may not ask it. */
static void book_facts(const struct mp_hook_call *call, const struct mp_cuda_facts *facts)
{
    bool has_size = facts->bytes != MP_BYTES_UNKNOWN;
    if (!facts->pool && !has_size && facts->graph_bytes == MP_BYTES_UNKNOWN) return;
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    mp_cuda_book_facts(thread, facts);
    if (has_size) mp_book_has_size(thread, **(const mp_cu_ptr *const *)call->arguments, facts->bytes);
    mp_hook_leave(thread);
}

static void device(int ordinal, const struct mp_cu_uuid *uuid)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    mp_cuda_device_is(ordinal, uuid, true);
    mp_hook_leave(thread);
}

/* Books a call that callbacks should have reported but did not. Another thread may have noticed that callbacks have
 * stopped, or CUPTI was released during the call. `entered`: a callback reported the call's enter, so the thread's
 * visit has the blocks that the call ended. */
static void take_over(struct mp_hook_call *call, bool entered)
{
    struct mp_thread *thread = mp_cupti_forget() ? mp_hook_enter() : NULL;
    if (thread) {
        mp_cuda_without_cupti("CUPTI went away in the middle, finalized by another tool; from then on");
        mp_hook_leave(thread);
    }
    const struct mp_cupti_thread *facts = entered ? mp_cupti_thread(mp_thread_present()) : NULL;
    if (facts)
        call->visit = facts->visits[(facts->enters - 1) % MP_CUPTI_VISITS];
    else
        mp_cuda_enter(call->id, call->arguments, &call->visit);
}

/* Notes in the spool, once, that the hooks record. Call it outside of other hooks: it enters a hook itself. */
static void report_hooks(enum mp_cuda_action action, int result)
{
    static _Atomic uint32_t reported_session;
    uint32_t session = atomic_load_explicit(&mp_session.page->generation, memory_order_relaxed);
    bool undecided =
        result == MP_CU_SUCCESS && atomic_load_explicit(&mp_cuda_front, memory_order_relaxed) == MP_FRONT_UNDECIDED;
    bool loads_code = mp_cuda_loads_code(action);
    if (session == atomic_load_explicit(&reported_session, memory_order_relaxed) && !undecided && !loads_code) return;
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    if (undecided) decide_without_injection();
    mp_session_source(MP_SOURCE_HOOKS);
    if (loads_code) mp_session_note("variables of CUDA modules are not recorded: only CUPTI's records tell of them");
    atomic_store_explicit(&reported_session, session, memory_order_relaxed);
    mp_hook_leave(thread);
}

static void after(struct mp_hook_call *call, int result, const struct mp_cuda_facts *facts)
{
    int saved = errno;
    uint32_t enters, exits;
    count_callbacks(&enters, &exits);
    if (call->watched && exits != call->exits_before) {
        book_facts(call, facts);
        errno = saved;
        return;
    }
    if (call->watched) take_over(call, enters != call->enters_before);
    report_hooks(mp_cuda_calls[call->id].action, result);
    mp_cuda_exit(call->id, call->arguments, result, &call->visit, facts);
    errno = saved;
}

__attribute__((visibility("default"))) const struct mp_cuda_hooks *memprof_cuda_v1(void)
{
    static const struct mp_cuda_hooks hooks = {.size = sizeof hooks,
                                               .version = MP_CUDA_HOOKS_VERSION,
                                               .call_bytes = sizeof(struct mp_hook_call),
                                               .calls = MP_CUDA_CALL_COUNT,
                                               .before = before,
                                               .after = after,
                                               .device = device};
    static _Atomic bool came;
    if (!mp_session.page) return NULL;
    if (!atomic_exchange(&came, true)) mp_stack_leave_out((uintptr_t)__builtin_return_address(0));
    return &hooks;
}
