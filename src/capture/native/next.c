#include "capture/native/next.h"

#include <dlfcn.h>

#include "capture/native/loaded.h"

#define NOT_THERE ((void *)-1)

void mp_next_start(struct mp_next *nexts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        atomic_store(&nexts[i].known, dlsym(RTLD_NEXT, nexts[i].name));
}

/* PyTorch's libraries are mostly loaded with local scope, and the calling library is mostly the one that defines the
 * name. */
static void *look_up(const struct mp_next *next, const void *caller)
{
    struct mp_loaded loaded;
    void *found = mp_loaded_at(caller, &loaded) ? mp_loaded_symbol(&loaded, next->name) : NULL;
    if (!found && (mp_loaded_with(next->name, next->library, &loaded) || mp_loaded_with(next->name, NULL, &loaded)))
        found = mp_loaded_symbol(&loaded, next->name);
    return found;
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
