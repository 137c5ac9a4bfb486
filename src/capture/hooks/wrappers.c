/* One wrapper for each row of driver_calls.h, exported under the driver's own name. */
#include <stdatomic.h>
#include <string.h>

#include "capture/hooks/hooks.h"

/* libmemprof.so looks for this symbol to find out whether this library is loaded. */
__attribute__((visibility("default"))) const int memprof_hooks_are_here = MP_CUDA_HOOKS_VERSION;

/* Set during a call of the program's. Calls that the driver itself makes meanwhile are not recorded. */
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* False before the constructor has run. Libraries that the program links are initialised before preloaded ones, and may
 * use CUDA already. libmemprof.so cannot answer then, and is asked again later. */
static _Atomic bool started;
__attribute__((constructor)) static void start(void)
{
    mp_hooks_find_linked();
    atomic_store(&started, true);
}

bool mp_hooks_started(void)
{
    return atomic_load_explicit(&started, memory_order_relaxed);
}

/* Defined in libmemprof.so. The loader resolves it before any code runs. */
__attribute__((weak)) const struct mp_cuda_hooks *memprof_cuda_v1(void);

static const struct mp_cuda_hooks *recorder(void)
{
    static _Atomic(const struct mp_cuda_hooks *) known;
    static _Atomic bool none;
    const struct mp_cuda_hooks *hooks = atomic_load_explicit(&known, memory_order_acquire);
    if (__builtin_expect(hooks != NULL, 1)) return hooks;
    if (atomic_load_explicit(&none, memory_order_relaxed)) return NULL;
    hooks = memprof_cuda_v1 ? memprof_cuda_v1() : NULL;
    bool same_build = hooks && hooks->size == sizeof *hooks && hooks->version == MP_CUDA_HOOKS_VERSION &&
                      hooks->call_bytes == sizeof(struct mp_hook_call) && hooks->calls == MP_CUDA_CALL_COUNT;
    if (same_build)
        atomic_store(&known, hooks);
    else if (atomic_load(&started))
        atomic_store(&none, true);
    return same_build ? hooks : NULL;
}

static bool before(struct mp_hook_call *call)
{
    const struct mp_cuda_hooks *hooks = inside ? NULL : recorder();
    if (!hooks || !hooks->before(call)) return false;
    inside = true;
    return true;
}

static void after(struct mp_hook_call *call, int result)
{
    struct mp_cuda_facts facts = MP_CUDA_NO_FACTS;
    mp_hooks_report_devices(recorder());
    mp_hooks_ask(call, result, &facts);
    recorder()->after(call, result, &facts);
    inside = false;
}

#define MP_CUDA_ROW(symbol, base, version, per_thread, cbid, action, count, ...)                                       \
    __attribute__((visibility("default"))) int symbol(MP_CUDA_PARAMETERS(count, __VA_ARGS__));                         \
    int symbol(MP_CUDA_PARAMETERS(count, __VA_ARGS__))                                                                 \
    {                                                                                                                  \
        int (*next)(MP_CUDA_PARAMETERS(count, __VA_ARGS__));                                                           \
        void *known = mp_hooks_real(MP_CALL_##symbol);                                                                 \
        if (!known) return MP_CU_NOT_INITIALIZED;                                                                      \
        memcpy(&next, &known, sizeof next);                                                                            \
        struct mp_params_##symbol arguments = {MP_CUDA_NAMES(count, __VA_ARGS__)};                                     \
        struct mp_hook_call call;                                                                                      \
        call.id = MP_CALL_##symbol;                                                                                    \
        call.arguments = &arguments;                                                                                   \
        bool seen = before(&call);                                                                                     \
        int result = next(MP_CUDA_NAMES(count, __VA_ARGS__));                                                          \
        if (seen) after(&call, result);                                                                                \
        return result;                                                                                                 \
    }
MP_CUDA_CALLS(MP_CUDA_ROW)
#undef MP_CUDA_ROW

void *const mp_hooks_wrappers[MP_CUDA_CALL_COUNT] = {
#define MP_CUDA_ROW(symbol, ...) [MP_CALL_##symbol] = (void *)symbol,
    MP_CUDA_CALLS(MP_CUDA_ROW)
#undef MP_CUDA_ROW
};
