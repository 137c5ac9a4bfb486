/*
 * Finds the wrapper for a name: by symbol, and by cuGetProcAddress() in both its forms. A driver's call may come
 * between a failed dlopen() and its dlerror(), or from a thread for which another thread waits under the loader's lock.
 * This code therefore uses the loader only in the constructor, and in the program's own dlsym() and dlclose().
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "capture/hooks/hooks.h"
#include "capture/native/loaded.h"

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
    if (!known) atomic_store(&next, known = mp_hooks_dlsym(RTLD_NEXT, "dlclose"));
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

void *mp_hooks_wrap_symbol(void *handle, const char *name)
{
    bool second = !strcmp(name, "cuGetProcAddress_v2");
    if (second || !strcmp(name, "cuGetProcAddress")) {
        void *found = mp_hooks_dlsym(handle, name);
        return found ? stand_in(second ? &real_lookup_v2 : &real_lookup, found, wrapper_of_lookup(second)) : NULL;
    }
    for (unsigned id = 0; id < MP_CUDA_CALL_COUNT; id++) {
        if (strcmp(mp_cuda_calls[id].symbol, name)) continue;
        void *found = mp_hooks_dlsym(handle, name);
        return found ? stand_in(&real[id], found, mp_hooks_wrappers[id]) : NULL;
    }
    return NULL;
}

/* ---- the driver itself ------------------------------------------------------------------------------------------- */

/* Finds the driver among the libraries that were present when the process began: linked, or preloaded after us. */
void mp_hooks_find_linked(void)
{
    mp_module_start();
    atomic_store(&real_lookup, mp_hooks_dlsym(RTLD_NEXT, "cuGetProcAddress"));
    atomic_store(&real_lookup_v2, mp_hooks_dlsym(RTLD_NEXT, "cuGetProcAddress_v2"));
    bool linked = atomic_load(&real_lookup) || mp_hooks_dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    for (unsigned id = 0; linked && id < MP_CUDA_CALL_COUNT; id++)
        atomic_store(&real[id], mp_hooks_dlsym(RTLD_NEXT, mp_cuda_calls[id].symbol));
    dlerror(); /* the program must not see the text of our own failure */
}

/* Finds a function of a driver that was mapped later, or before the constructor ran. */
static void *find_mapped(_Atomic(void *) *where, const char *name)
{
    struct mp_loaded driver;
    void *found = mp_loaded_with(name, "libcuda.so.1", &driver) ? mp_loaded_symbol(&driver, name) : NULL;
    if (!found || !mp_hooks_started()) return found;
    atomic_store(where, found);
    atomic_store(&has_new, true);
    return found;
}

void *mp_hooks_real(enum mp_cuda_call_id id)
{
    void *known = atomic_load_explicit(&real[id], memory_order_acquire);
    return __builtin_expect(known != NULL, 1) ? known : find_mapped(&real[id], mp_cuda_calls[id].symbol);
}

void *mp_hooks_function_of_driver(const char *name)
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
