/*
 * libmemprof-hooks.so sees the driver's calls without CUPTI. It is a separate library, preloaded only on machines with
 * a libcuda. It wraps the driver's exported functions. It also wraps dlsym() and cuGetProcAddress(), through which all
 * other callers find these functions, NVIDIA's runtime among them. Its dlclose() first pins the driver. Wrappers pass
 * each call to libmemprof.so, which does the booking.
 *
 * Never allocates, prints or ends the program. It asks the driver questions only outside of any hook, on the program's
 * own thread. The caller of the wrapper could ask the same questions at that moment.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "capture/cuda/front.h"
#include "capture/native/loaded.h"

/* The wrappers, by row of driver_calls.h. */
extern void *const mp_hooks_wrappers[MP_CUDA_CALL_COUNT];

static void *hooks_function_of_driver(const char *name);
static bool hooks_started(void);
static void *hooks_dlsym(void *handle, const char *name);
/* Called by the wrapper of dlsym(). Returns our wrapper for that name, or NULL to let the look-up continue. */
__attribute__((visibility("hidden"))) void *mp_hooks_look_up(void *handle, const char *name);

/* ---- questions that only the driver can answer -------------------------------------------------------------------
 * They are about the context, captures of a stream, the memory of pools and graphs, and sizes of imported memory. They
 * are asked after a call of the program has returned. */

/* X(member, name, arguments): functions of the driver. Each function is older than the feature that it is asked
 * about. */
#define QUESTIONS(X)                                                                                                   \
    X(current, "cuCtxGetCurrent", (mp_cu_handle * context))                                                            \
    X(device, "cuCtxGetDevice", (int *device))                                                                         \
    X(is_capturing, "cuStreamIsCapturing", (mp_cu_handle stream, int *status))                                         \
    X(is_capturing_ptsz, "cuStreamIsCapturing_ptsz", (mp_cu_handle stream, int *status))                               \
    X(pool_of_device, "cuDeviceGetMemPool", (mp_cu_handle * pool, int device))                                         \
    X(pool_attribute, "cuMemPoolGetAttribute", (mp_cu_handle pool, int attribute, void *value))                        \
    X(graph_attribute, "cuDeviceGetGraphMemAttribute", (int device, int attribute, void *value))                       \
    X(primary_state, "cuDevicePrimaryCtxGetState", (int device, unsigned *flags, int *active))                         \
    X(address_range, "cuMemGetAddressRange_v2", (mp_cu_ptr * base, size_t * bytes, mp_cu_ptr address))                 \
    X(device_count, "cuDeviceGetCount", (int *count))                                                                  \
    X(uuid, "cuDeviceGetUuid_v2", (struct mp_cu_uuid * uuid, int device))

static struct questions {
#define QUESTION(member, name, arguments) int(*member) arguments;
    QUESTIONS(QUESTION)
#undef QUESTION
} questions;

/* Captures under way. While a stream captures, some queries would break the capture, so they wait. */
static _Atomic int captures;
static _Atomic bool has_graph_memory;

static bool find_questions(void)
{
    static _Atomic bool found;
    if (atomic_load_explicit(&found, memory_order_acquire)) return true;
    struct questions answers;
    void *at;
#define QUESTION(member, name, arguments)                                                                              \
    at = hooks_function_of_driver(name);                                                                               \
    memcpy(&answers.member, &at, sizeof at);
    QUESTIONS(QUESTION)
#undef QUESTION
    if (!answers.current || !answers.device) return false;
    questions = answers; /* not atomic: every thread writes the same values */
    atomic_store_explicit(&found, true, memory_order_release);
    return true;
}

static void ask_context(struct mp_cuda_facts *facts)
{
    mp_cu_handle context = NULL;
    int device;
    if (questions.current(&context) || !context || questions.device(&device)) return;
    facts->context = (uint64_t)(uintptr_t)context;
    facts->device = device;
}

static void ask_capturing(const struct mp_cuda_call *call, mp_cu_handle stream, struct mp_cuda_facts *facts)
{
    int status = 0;
    if (!atomic_load(&captures)) {
        facts->capturing = 0;
        return;
    }
    int (*ask)(mp_cu_handle, int *) = call->per_thread ? questions.is_capturing_ptsz : questions.is_capturing;
    if (ask && !ask(stream, &status)) facts->capturing = status != 0;
}

static void ask_pool(mp_cu_handle pool, struct mp_cuda_facts *facts)
{
    uint64_t bytes = 0;
    if (!pool && (facts->device < 0 || !questions.pool_of_device || questions.pool_of_device(&pool, facts->device)))
        return;
    if (atomic_load(&captures) || !questions.pool_attribute ||
        questions.pool_attribute(pool, MP_CU_POOL_RESERVED_CURRENT, &bytes))
        return;
    facts->pool = (uint64_t)(uintptr_t)pool;
    facts->pool_bytes = bytes;
}

static void ask_graphs(struct mp_cuda_facts *facts)
{
    uint64_t bytes = 0;
    if (!atomic_load(&has_graph_memory) || atomic_load(&captures) || facts->device < 0 || !questions.graph_attribute ||
        questions.graph_attribute(facts->device, MP_CU_GRAPH_MEM_RESERVED_CURRENT, &bytes))
        return;
    facts->graph_bytes = bytes;
}

static void ask_size(mp_cu_ptr address, struct mp_cuda_facts *facts)
{
    mp_cu_ptr base;
    size_t bytes;
    if (questions.address_range && !questions.address_range(&base, &bytes, address)) facts->bytes = bytes;
}

static void ask_primary(int device, struct mp_cuda_facts *facts)
{
    unsigned flags;
    int active;
    if (questions.primary_state && !questions.primary_state(device, &flags, &active)) facts->active = active;
}

/* Reports the devices' UUIDs, once in a process's life. */
static void hooks_report_devices(const struct mp_cuda_hooks *recorder)
{
    static _Atomic bool facts;
    struct mp_cu_uuid uuid;
    int count;
    if (atomic_load_explicit(&facts, memory_order_relaxed) || !find_questions() || atomic_exchange(&facts, true))
        return;
    if (!questions.device_count || !questions.uuid || questions.device_count(&count)) return;
    for (int i = 0; i < count && i < MP_CUDA_DEVICES; i++)
        if (!questions.uuid(&uuid, i)) recorder->device(i, &uuid);
}

/* Counts the captures that have begun and not ended. A call to end a broken capture fails, but ends the capture. After
 * any other failure the capture goes on: the end was for a stream without a capture, or from the wrong thread. */
static void follow_captures(enum mp_cuda_action action, int result)
{
    bool ends = result == MP_CU_SUCCESS || result == MP_CU_CAPTURE_INVALIDATED || result == MP_CU_CAPTURE_UNJOINED;
    if (action == MP_CUDA_CAPTURE_BEGIN && result == MP_CU_SUCCESS) atomic_fetch_add(&captures, 1);
    if (action == MP_CUDA_CAPTURE_END && ends && atomic_load(&captures) > 0) atomic_fetch_sub(&captures, 1);
}

/* Collects the facts that libmemprof.so needs about a call that has returned. */
static void hooks_ask(const struct mp_hook_call *call, int result, struct mp_cuda_facts *facts)
{
    const struct mp_cuda_call *row = &mp_cuda_calls[call->id];
    const void *arguments = call->arguments;
    follow_captures(row->action, result);
    if (!find_questions()) return;
    ask_context(facts);
    switch (row->action) {
    case MP_CUDA_ALLOC_ASYNC:
        ask_capturing(row, ((const struct mp_params_cuMemAllocAsync *)arguments)->hStream, facts);
        if (facts->capturing == 1) atomic_store(&has_graph_memory, true);
        if (facts->capturing == 0) ask_pool(NULL, facts);
        return;
    case MP_CUDA_ALLOC_FROM_POOL: {
        const struct mp_params_cuMemAllocFromPoolAsync *a = arguments;
        ask_capturing(row, a->hStream, facts);
        if (facts->capturing == 1) atomic_store(&has_graph_memory, true);
        if (facts->capturing == 0) ask_pool(a->pool, facts);
        return;
    }
    case MP_CUDA_FREE_ASYNC:
        ask_capturing(row, ((const struct mp_params_cuMemFreeAsync *)arguments)->hStream, facts);
        return;
    case MP_CUDA_POOL_TRIM:
        if (result == MP_CU_SUCCESS) ask_pool(((const struct mp_params_cuMemPoolTrimTo *)arguments)->pool, facts);
        return;
    case MP_CUDA_GRAPH_ALLOC_NODE:
    case MP_CUDA_GRAPH_NODE:
    case MP_CUDA_GRAPH_NODE_V2:
        atomic_store(&has_graph_memory, true);
        return;
    case MP_CUDA_GRAPH_LAUNCH:
    case MP_CUDA_GRAPH_TRIM:
    case MP_CUDA_GRAPH_INSTANTIATE:
    case MP_CUDA_GRAPH_EXEC_DESTROY:
        ask_graphs(facts);
        return;
    case MP_CUDA_PRIMARY_RELEASE:
        ask_primary(*(const int *)arguments, facts);
        return;
    case MP_CUDA_IPC_OPEN:
    case MP_CUDA_POOL_IMPORT_POINTER:
        if (result == MP_CU_SUCCESS) ask_size(**(mp_cu_ptr *const *)arguments, facts);
        return;
    default:
        return;
    }
}

/*
 * Finds the wrapper for a name: by symbol, and by cuGetProcAddress() in both its forms. A driver's call may come
 * between a failed dlopen() and its dlerror(), or from a thread for which another thread waits under the loader's lock.
 * This code therefore uses the loader only in the constructor, and in the program's own dlsym() and dlclose().
 */

#define EXPORTED __attribute__((visibility("default")))

/* The newest version of the driver's interface that the table covers. In a later version, a name may mean a function
 * that the table lacks. */
#define VERSION_KNOWN 13000

static _Atomic(void *) real[MP_CUDA_CALL_COUNT];
static _Atomic(void *) real_lookup, real_lookup_v2; /* cuGetProcAddress */

EXPORTED int cuGetProcAddress(const char *symbol, void **function, int version, unsigned long long flags);
EXPORTED int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags,
                                 int *status);

static void *wrapper_of_lookup(bool second)
{
    void *wrapper;
    mp_cu_get_proc_address *first_form = cuGetProcAddress;
    mp_cu_get_proc_address_v2 *second_form = cuGetProcAddress_v2;
    if (second)
        memcpy(&wrapper, &second_form, sizeof wrapper);
    else
        memcpy(&wrapper, &first_form, sizeof wrapper);
    return wrapper;
}

static _Atomic bool has_new; /* a library was found, but is not pinned yet */

static bool same_library(const void *one, const void *other)
{
    struct mp_module_facts of_one, of_other;
    return mp_module_of((uintptr_t)one, &of_one) && mp_module_of((uintptr_t)other, &of_other) &&
           of_one.start == of_other.start;
}

static void keep_loaded(const void *function)
{
    Dl_info info;
    if (function && dladdr(function, &info)) dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
}

/* Pins the libraries of all found functions: wrappers call these until the process ends, even after the finder's
 * dlclose(). */
static void keep_all_loaded(void)
{
    if (!atomic_exchange(&has_new, false)) return;
    keep_loaded(atomic_load(&real_lookup));
    keep_loaded(atomic_load(&real_lookup_v2));
    for (unsigned id = 0; id < MP_CUDA_CALL_COUNT; id++)
        keep_loaded(atomic_load(&real[id]));
}

EXPORTED int dlclose(void *handle);
int dlclose(void *handle)
{
    static _Atomic(void *) next;
    int (*real_dlclose)(void *);
    void *known = atomic_load(&next);
    if (!known) atomic_store(&next, known = hooks_dlsym(RTLD_NEXT, "dlclose"));
    memcpy(&real_dlclose, &known, sizeof real_dlclose);
    keep_all_loaded();
    return real_dlclose(handle);
}

/* Returns the wrapper if it may replace `function`: that is the real function, or another entry to it in the same
 * library. */
static void *stand_in(_Atomic(void *) *known, void *function, void *wrapper)
{
    void *none = NULL;
    if (function == wrapper) return wrapper;
    if (atomic_compare_exchange_strong(known, &none, function)) {
        atomic_store(&has_new, true);
        return wrapper;
    }
    if (none == function) return wrapper;
    return same_library(none, function) ? wrapper : NULL;
}

static void *hooks_wrap_symbol(void *handle, const char *name)
{
    bool second = !strcmp(name, "cuGetProcAddress_v2");
    if (second || !strcmp(name, "cuGetProcAddress")) {
        void *found = hooks_dlsym(handle, name);
        return found ? stand_in(second ? &real_lookup_v2 : &real_lookup, found, wrapper_of_lookup(second)) : NULL;
    }
    for (unsigned id = 0; id < MP_CUDA_CALL_COUNT; id++) {
        if (strcmp(mp_cuda_calls[id].symbol, name)) continue;
        void *found = hooks_dlsym(handle, name);
        return found ? stand_in(&real[id], found, mp_hooks_wrappers[id]) : NULL;
    }
    return NULL;
}

/* ---- the driver itself ------------------------------------------------------------------------------------------- */

/* Finds the driver among the libraries that were present when the process began: linked, or preloaded after us. */
static void hooks_find_linked(void)
{
    mp_module_start();
    atomic_store(&real_lookup, hooks_dlsym(RTLD_NEXT, "cuGetProcAddress"));
    atomic_store(&real_lookup_v2, hooks_dlsym(RTLD_NEXT, "cuGetProcAddress_v2"));
    bool linked = atomic_load(&real_lookup) || hooks_dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    for (unsigned id = 0; linked && id < MP_CUDA_CALL_COUNT; id++)
        atomic_store(&real[id], hooks_dlsym(RTLD_NEXT, mp_cuda_calls[id].symbol));
    dlerror(); /* the program must not see the text of our own failure */
}

/* Finds a function of a driver that was mapped later, or before the constructor ran. */
static void *find_mapped(_Atomic(void *) *where, const char *name)
{
    struct mp_loaded driver;
    void *found = mp_loaded_with(name, "libcuda.so.1", &driver) ? mp_loaded_symbol(&driver, name) : NULL;
    if (!found || !hooks_started()) return found;
    atomic_store(where, found);
    atomic_store(&has_new, true);
    return found;
}

/* The driver's function that a wrapper calls. NULL: there is no driver. */
static void *hooks_real(enum mp_cuda_call_id id)
{
    void *known = atomic_load_explicit(&real[id], memory_order_acquire);
    return __builtin_expect(known != NULL, 1) ? known : find_mapped(&real[id], mp_cuda_calls[id].symbol);
}

/* A function of the driver that has no wrapper, from the same library as the wrapped ones. */
static void *hooks_function_of_driver(const char *name)
{
    struct mp_loaded driver;
    for (unsigned id = 0; id < MP_CUDA_CALL_COUNT; id++) {
        const void *known = atomic_load(&real[id]);
        if (known && mp_loaded_at(known, &driver)) return mp_loaded_symbol(&driver, name);
    }
    return NULL;
}

/* ---- cuGetProcAddress -------------------------------------------------------------------------------------------- */

static bool matches(const struct mp_cuda_call *call, const char *name, int version, unsigned long long flags)
{
    return !strcmp(call->name, name) && call->version <= version &&
           (!call->per_thread || flags & MP_CU_LOOKUP_PER_THREAD_STREAM);
}

/* The row with that name and version in the table; MP_CUDA_CALL_COUNT: none. */
static unsigned call_by_version(const char *name, int version, unsigned long long flags)
{
    unsigned best = MP_CUDA_CALL_COUNT;
    if (version > VERSION_KNOWN) return best;
    for (unsigned id = 0; id < MP_CUDA_CALL_COUNT; id++) {
        const struct mp_cuda_call *call = &mp_cuda_calls[id];
        const struct mp_cuda_call *found = best < MP_CUDA_CALL_COUNT ? &mp_cuda_calls[best] : NULL;
        if (!matches(call, name, version, flags)) continue;
        if (!found || call->version > found->version || (call->version == found->version && call->per_thread))
            best = id;
    }
#define MP_CUDA_ROW(symbol, base, from)                                                                                \
    if (!strcmp(name, base) && version >= from) best = MP_CALL_##symbol;
    MP_CUDA_RENAMED_CALLS(MP_CUDA_ROW)
#undef MP_CUDA_ROW
    return best;
}

/* The row of the function that the driver returned: mostly an exported function, so the row is certain. */
static unsigned call_by_function(const char *name, void *function)
{
    struct mp_loaded driver;
    if (!mp_loaded_at(function, &driver)) return MP_CUDA_CALL_COUNT;
    size_t length = strlen(name);
    for (unsigned id = 0; id < MP_CUDA_CALL_COUNT; id++)
        if (!strncmp(mp_cuda_calls[id].symbol, name, length) &&
            mp_loaded_symbol(&driver, mp_cuda_calls[id].symbol) == function)
            return id;
    return MP_CUDA_CALL_COUNT;
}

static void *replace_lookup(void *function, bool second)
{
    void *wrapped = stand_in(second ? &real_lookup_v2 : &real_lookup, function, wrapper_of_lookup(second));
    return wrapped ? wrapped : function;
}

/* Returns the function that the program gets in place of the driver's answer. */
static void *replace(const char *name, void *function, int version, unsigned long long flags)
{
    if (!name || !function) return function;
    if (!strcmp(name, "cuGetProcAddress")) return replace_lookup(function, version >= 12000);
    if (!strcmp(name, "cuGetProcAddress_v2")) return replace_lookup(function, true);
    unsigned id = call_by_function(name, function);
    if (id == MP_CUDA_CALL_COUNT) id = call_by_version(name, version, flags);
    void *wrapped = id < MP_CUDA_CALL_COUNT ? stand_in(&real[id], function, mp_hooks_wrappers[id]) : NULL;
    return wrapped ? wrapped : function;
}

int cuGetProcAddress(const char *symbol, void **function, int version, unsigned long long flags)
{
    mp_cu_get_proc_address *next;
    void *known = atomic_load(&real_lookup);
    if (!known && !(known = find_mapped(&real_lookup, "cuGetProcAddress"))) return MP_CU_NOT_INITIALIZED;
    memcpy(&next, &known, sizeof next);
    int result = next(symbol, function, version, flags);
    if (result == MP_CU_SUCCESS && function) *function = replace(symbol, *function, version, flags);
    return result;
}

int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags, int *status)
{
    mp_cu_get_proc_address_v2 *next;
    void *known = atomic_load(&real_lookup_v2);
    if (!known && !(known = find_mapped(&real_lookup_v2, "cuGetProcAddress_v2"))) return MP_CU_NOT_INITIALIZED;
    memcpy(&next, &known, sizeof next);
    int result = next(symbol, function, version, flags, status);
    if (result == MP_CU_SUCCESS && function) *function = replace(symbol, *function, version, flags);
    return result;
}

/* One wrapper for each row of driver_calls.h, exported under the driver's own name. */

/* libmemprof.so looks for this symbol to find out whether this library is loaded. */
__attribute__((visibility("default"))) const int memprof_hooks_are_here = MP_CUDA_HOOKS_VERSION;

/* Set during a call of the program's. Calls that the driver itself makes meanwhile are not recorded. */
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* False before the constructor has run. Libraries that the program links are initialised before preloaded ones, and may
 * use CUDA already. libmemprof.so cannot answer then, and is asked again later. */
static _Atomic bool started;
__attribute__((constructor)) static void start(void)
{
    hooks_find_linked();
    atomic_store(&started, true);
}

/* True once the constructor has run. */
static bool hooks_started(void)
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
    hooks_report_devices(recorder());
    hooks_ask(call, result, &facts);
    recorder()->after(call, result, &facts);
    inside = false;
}

#define MP_CUDA_ROW(symbol, base, version, per_thread, cbid, action, count, ...)                                       \
    __attribute__((visibility("default"))) int symbol(MP_CUDA_PARAMETERS(count, __VA_ARGS__));                         \
    int symbol(MP_CUDA_PARAMETERS(count, __VA_ARGS__))                                                                 \
    {                                                                                                                  \
        int (*next)(MP_CUDA_PARAMETERS(count, __VA_ARGS__));                                                           \
        void *known = hooks_real(MP_CALL_##symbol);                                                                    \
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
/* Called by the wrapper of dlsym(). Returns our wrapper for that name, or NULL to let the look-up continue. */
__attribute__((visibility("hidden"))) void *mp_hooks_look_up(void *handle, const char *name);
static void *hooks_dlsym(void *handle, const char *name);

/* ---- the wrapper of dlsym() -----------------------------------------------------------------------------------------
 * The C library looks at its caller's address (RTLD_NEXT, RTLD_DEFAULT, namespaces). So look-ups that are not ours
 * continue by a jump, which leaves caller and arguments unchanged. dlopen() is never wrapped. */

__attribute__((visibility("hidden"))) void *(*mp_hooks_real_dlsym)(void *, const char *);

#if defined(__x86_64__)
#    define FIRST_VERSION "GLIBC_2.2.5"
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        ".cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    call mp_hooks_look_up\n"
        "    addq $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    testq %rax, %rax\n"
        "    jne 1f\n"
        "    jmp *mp_hooks_real_dlsym(%rip)\n"
        "1:  ret\n"
        ".cfi_endproc\n"
        ".size dlsym, . - dlsym\n");
#elif defined(__aarch64__)
#    define FIRST_VERSION "GLIBC_2.17"
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        ".cfi_startproc\n"
        "    stp x29, x30, [sp, -32]!\n"
        ".cfi_def_cfa_offset 32\n"
        ".cfi_offset 29, -32\n"
        ".cfi_offset 30, -24\n"
        "    stp x0, x1, [sp, 16]\n"
        "    bl mp_hooks_look_up\n"
        "    mov x9, x0\n"
        "    ldp x0, x1, [sp, 16]\n"
        "    ldp x29, x30, [sp], 32\n"
        ".cfi_def_cfa_offset 0\n"
        ".cfi_restore 29\n"
        ".cfi_restore 30\n"
        "    cbnz x9, 1f\n"
        "    adrp x16, mp_hooks_real_dlsym\n"
        "    ldr x16, [x16, :lo12:mp_hooks_real_dlsym]\n"
        "    br x16\n"
        "1:  mov x0, x9\n"
        "    ret\n"
        ".cfi_endproc\n"
        ".size dlsym, . - dlsym\n");
#endif

static void find_real_dlsym(void)
{
    static const char *const versions[] = {FIRST_VERSION, "GLIBC_2.34"};
    for (size_t i = 0; i < sizeof versions / sizeof *versions && !mp_hooks_real_dlsym; i++) {
        void *found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        memcpy(&mp_hooks_real_dlsym, &found, sizeof found);
    }
}

static void *hooks_dlsym(void *handle, const char *name)
{
    if (!mp_hooks_real_dlsym) find_real_dlsym();
    return mp_hooks_real_dlsym(handle, name);
}

void *mp_hooks_look_up(void *handle, const char *name)
{
    if (!mp_hooks_real_dlsym) find_real_dlsym();
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || !name || name[0] != 'c' || name[1] != 'u') return NULL;
    return hooks_wrap_symbol(handle, name);
}
