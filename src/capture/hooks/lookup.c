/* From names to wrappers: by symbol, and by cuGetProcAddress() in both its forms. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "capture/hooks/hooks.h"

#define EXPORTED __attribute__((visibility("default")))

/* The newest version of the driver's interface whose names are known here: by a later one a name may mean a function
 * that is not in the table. */
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

static const void *object_of(const void *function)
{
    Dl_info info;
    return function && dladdr(function, &info) ? info.dli_fbase : NULL;
}

/* A wrapper calls what it knows for as long as the process lives, also after a dlclose() by whoever looked it up. */
static void keep_loaded(const void *function)
{
    Dl_info info;
    if (dladdr(function, &info) && !dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE))
        dlerror(); /* the program may be about to ask for its own */
}

/* The wrapper, where it may stand for `function`: the real one, or another entry of the same library to the same. */
static void *stand_in(_Atomic(void *) *known, void *function, void *wrapper)
{
    void *none = NULL;
    if (function == wrapper) return wrapper;
    if (atomic_compare_exchange_strong(known, &none, function)) {
        keep_loaded(function);
        return wrapper;
    }
    if (none == function) return wrapper;
    return object_of(none) == object_of(function) ? wrapper : NULL;
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

/* A function of the driver's library: of the one that is linked or preloaded after us, else of the one that is mapped.
 */
static void *driver_symbol(const char *name)
{
    void *found = mp_hooks_dlsym(RTLD_NEXT, name);
    if (found) return found;
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    return driver ? mp_hooks_dlsym(driver, name) : NULL;
}

void *mp_hooks_real(enum mp_cuda_call_id id)
{
    void *known = atomic_load_explicit(&real[id], memory_order_acquire);
    if (__builtin_expect(known != NULL, 1)) return known;
    known = driver_symbol(mp_cuda_calls[id].symbol);
    if (known) atomic_store(&real[id], known);
    return known;
}

void *mp_hooks_function_of_driver(const char *name)
{
    Dl_info info;
    for (unsigned id = 0; id < MP_CUDA_CALL_COUNT; id++) {
        void *known = atomic_load(&real[id]);
        void *driver = known && dladdr(known, &info) ? dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : NULL;
        if (driver) return mp_hooks_dlsym(driver, name);
    }
    return NULL;
}

/* ---- cuGetProcAddress -------------------------------------------------------------------------------------------- */

static bool matches(const struct mp_cuda_call *call, const char *name, int version, unsigned long long flags)
{
    return !strcmp(call->name, name) && call->version <= version &&
           (!call->per_thread || flags & MP_CU_LOOKUP_PER_THREAD_STREAM);
}

/* Else by the table; MP_CUDA_CALL_COUNT: not in it. */
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

/* By what the driver exports: its answer mostly is an exported function, and then there is no doubt which. */
static unsigned call_by_function(const char *name, void *function)
{
    Dl_info info;
    void *driver = dladdr(function, &info) ? dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    if (!driver) return MP_CUDA_CALL_COUNT;
    size_t length = strlen(name);
    for (unsigned id = 0; id < MP_CUDA_CALL_COUNT; id++)
        if (!strncmp(mp_cuda_calls[id].symbol, name, length) &&
            mp_hooks_dlsym(driver, mp_cuda_calls[id].symbol) == function)
            return id;
    return MP_CUDA_CALL_COUNT;
}

static void *replace_lookup(void *function, bool second)
{
    void *wrapped = stand_in(second ? &real_lookup_v2 : &real_lookup, function, wrapper_of_lookup(second));
    return wrapped ? wrapped : function;
}

/* What the program gets in place of the driver's answer. */
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
    if (!known && !(known = driver_symbol("cuGetProcAddress"))) return MP_CU_NOT_INITIALIZED;
    memcpy(&next, &known, sizeof next);
    int result = next(symbol, function, version, flags);
    if (result == MP_CU_SUCCESS && function) *function = replace(symbol, *function, version, flags);
    return result;
}

int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags, int *status)
{
    mp_cu_get_proc_address_v2 *next;
    void *known = atomic_load(&real_lookup_v2);
    if (!known && !(known = driver_symbol("cuGetProcAddress_v2"))) return MP_CU_NOT_INITIALIZED;
    memcpy(&next, &known, sizeof next);
    int result = next(symbol, function, version, flags, status);
    if (result == MP_CU_SUCCESS && function) *function = replace(symbol, *function, version, flags);
    return result;
}
