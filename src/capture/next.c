#include "capture/next.h"

#include <dlfcn.h>
#include <stddef.h>

#define NOT_THERE ((void *)-1)

static void *definition_in(const char *library_name, const char *name)
{
    void *library = library_name ? dlopen(library_name, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    return library ? dlsym(library, name) : NULL;
}

/* PyTorch's libraries are mostly loaded with local scope, where RTLD_NEXT does not reach; the caller mostly is the one
 * that defines the name or links it, so its handle does. */
static void *look_up(const struct mp_next *next, const void *caller)
{
    Dl_info info;
    void *found = dlsym(RTLD_NEXT, next->name);
    if (!found && dladdr(caller, &info)) found = definition_in(info.dli_fname, next->name);
    return found ? found : definition_in(next->library, next->name);
}

void *mp_next_definition(struct mp_next *next, const void *caller)
{
    void *known = atomic_load_explicit(&next->known, memory_order_relaxed);
    if (__builtin_expect(!known, 0)) {
        known = look_up(next, caller);
        if (!known) known = NOT_THERE;
        atomic_store_explicit(&next->known, known, memory_order_relaxed);
    }
    return known == NOT_THERE ? NULL : known;
}
