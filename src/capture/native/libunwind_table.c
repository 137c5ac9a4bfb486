#if !defined(__x86_64__)

#    include "capture/native/libunwind_table.h"

#    include <dlfcn.h>
#    include <stdint.h>
#    include <string.h>

#    define EXPANDED(name) #    name
#    define SYMBOL(name)   EXPANDED(name)

/* Beside this library, where the portable package has it; else where the system does. */
static void *open_library(void)
{
    char path[4096];
    Dl_info here;
    const char *slash = dladdr((void *)(uintptr_t)open_library, &here) ? strrchr(here.dli_fname, '/') : NULL;
    size_t folder = slash ? (size_t)(slash - here.dli_fname) + 1 : 0;
    if (folder && folder + sizeof MP_LIBUNWIND_SONAME <= sizeof path) {
        memcpy(path, here.dli_fname, folder);
        memcpy(path + folder, MP_LIBUNWIND_SONAME, sizeof MP_LIBUNWIND_SONAME);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library) return library;
    }
    return dlopen(MP_LIBUNWIND_SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

bool mp_libunwind_open(struct mp_libunwind *table)
{
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {
        {SYMBOL(unw_backtrace), &table->backtrace},
#    if !defined(__aarch64__)
        {SYMBOL(unw_tdep_getcontext), &table->getcontext},
#    endif
        {SYMBOL(unw_init_local), &table->init_local},
        {SYMBOL(unw_step), &table->step},
        {SYMBOL(unw_get_reg), &table->get_reg},
        {SYMBOL(unw_get_proc_info_by_ip), &table->get_proc_info_by_ip},
        {SYMBOL(unw_set_caching_policy), &table->set_caching_policy},
        {SYMBOL(unw_flush_cache), &table->flush_cache},
        {SYMBOL(unw_local_addr_space), &table->local_addr_space},
    };
    memset(table, 0, sizeof *table);
    void *library = open_library();
    for (size_t i = 0; library && i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found) library = NULL;
        memcpy(symbols[i].slot, &found, sizeof found);
    }
    dlerror(); /* the text of a failure is not the program's business */
    return library != NULL;
}

#endif
