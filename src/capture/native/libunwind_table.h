/*
 * libunwind, opened privately: linking it would rebind the program's own _Unwind_* and backtrace symbols. The names
 * here are libunwind's own for unwinding one's own process; its header's macros turn them into the exported ones.
 */
#ifndef MP_CAPTURE_NATIVE_LIBUNWIND_TABLE_H
#define MP_CAPTURE_NATIVE_LIBUNWIND_TABLE_H

#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <stdbool.h>

struct mp_libunwind {
    int (*backtrace)(void **addresses,
                     int room);                /* fast: keeps a cache per thread; return addresses, innermost first */
    int (*getcontext)(unw_context_t *context); /* NULL where the header has it inline: use MP_UNW_GETCONTEXT */
    int (*init_local)(unw_cursor_t *cursor, unw_context_t *context);
    int (*step)(unw_cursor_t *cursor); /* slow: system calls at each frame */
    int (*get_reg)(unw_cursor_t *cursor, unw_regnum_t number, unw_word_t *value);
    int (*get_proc_info_by_ip)(unw_addr_space_t space, unw_word_t address, unw_proc_info_t *info, void *argument);
    int (*set_caching_policy)(unw_addr_space_t space, unw_caching_policy_t policy);
    void (*flush_cache)(unw_addr_space_t space, unw_word_t low, unw_word_t high);
    unw_addr_space_t *local_addr_space;
};

#if defined(__aarch64__)
#    define MP_UNW_GETCONTEXT(table, context) unw_tdep_getcontext(context)
#else
#    define MP_UNW_GETCONTEXT(table, context) (table)->getcontext(context)
#endif

/* Opens MP_LIBUNWIND_SONAME and fills the table; never closes it. False: not installed, or not the libunwind we know.
 * Takes the loader's lock and allocates: for the start of the recorder. */
bool mp_libunwind_open(struct mp_libunwind *table);

#endif
