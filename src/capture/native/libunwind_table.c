#include "capture/native/libunwind_table.h"

#include <dlfcn.h>
#include <string.h>

#define EXPANDED(name) #name
#define SYMBOL(name)   EXPANDED(name)

bool mp_libunwind_open(struct mp_libunwind *table)
{
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {
        {SYMBOL(unw_backtrace), &table->backtrace},
#if !defined(__aarch64__)
        {SYMBOL(unw_tdep_getcontext), &table->getcontext},
#endif
        {SYMBOL(unw_init_local), &table->init_local},
        {SYMBOL(unw_step), &table->step},
        {SYMBOL(unw_get_reg), &table->get_reg},
        {SYMBOL(unw_get_proc_info_by_ip), &table->get_proc_info_by_ip},
        {SYMBOL(unw_set_caching_policy), &table->set_caching_policy},
        {SYMBOL(unw_flush_cache), &table->flush_cache},
        {SYMBOL(unw_local_addr_space), &table->local_addr_space},
    };
    memset(table, 0, sizeof *table);
    void *library = dlopen(MP_LIBUNWIND_SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    for (size_t i = 0; library && i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found) library = NULL;
        memcpy(symbols[i].slot, &found, sizeof found);
    }
    dlerror(); /* the text of a failure is not the program's business */
    return library != NULL;
}
