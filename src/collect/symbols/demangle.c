#include "collect/symbols/demangle.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

typedef char *demangle_function(const char *symbol, char *buffer, size_t *size, int *status);

struct mp_demangler {
    bool opened;
    void *library;
    demangle_function *demangle;
    struct mp_map
        shown; /* address of a symbol's name to address of the text to show; the text is owned if the two differ */
};

struct mp_demangler *mp_demangler_open(void)
{
    return calloc(1, sizeof(struct mp_demangler));
}

static demangle_function *find_demangle(struct mp_demangler *demangler)
{
    if (!demangler->opened) {
        demangler->opened = true;
        demangler->library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
        void *found = demangler->library ? dlsym(demangler->library, "__cxa_demangle") : NULL;
        memcpy(&demangler->demangle, &found, sizeof found);
    }
    return demangler->demangle;
}

/* The text to show, owned by the caller unless it is the symbol's name itself. */
static const char *make_shown(struct mp_demangler *demangler, const char *symbol)
{
    bool mangled = symbol[0] == '_' && symbol[1] == 'Z';
    size_t length = strcspn(symbol, mangled ? "@." : "@");
    char *bare = symbol[length] ? strndup(symbol, length) : NULL, *text = NULL;
    const char *name = bare ? bare : symbol;
    if (mangled && find_demangle(demangler)) {
        int status;
        text = demangler->demangle(name, NULL, NULL, &status);
    }
    if (!text) return name;
    free(bare);
    return text;
}

const char *mp_demangle(struct mp_demangler *demangler, const char *symbol)
{
    uint64_t *known = mp_map_insert(&demangler->shown, (uintptr_t)symbol, NULL);
    if (!known) return symbol;
    if (!*known) *known = (uintptr_t)make_shown(demangler, symbol);
    return (const char *)(uintptr_t)*known;
}

void mp_demangler_close(struct mp_demangler *demangler)
{
    if (!demangler) return;
    for (size_t i = 0; i < demangler->shown.room; i++) {
        const struct mp_map_slot *slot = &demangler->shown.slots[i];
        if (slot->key && slot->value != slot->key) free((void *)(uintptr_t)slot->value);
    }
    mp_map_free(&demangler->shown);
    if (demangler->library) dlclose(demangler->library);
    free(demangler);
}
