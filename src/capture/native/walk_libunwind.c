/* Used with --unwind libunwind, and where walk.c has no rules: on machines other than x86-64. */
#include "capture/native/walk_libunwind.h"

#if defined(MP_HAVE_LIBUNWIND)

#    define UNW_LOCAL_ONLY
#    include <dlfcn.h>
#    include <libunwind.h>
#    include <string.h>

#    include "base/hash.h"
#    include "capture/core/fork.h"
#    include "capture/core/signals.h"

/* libunwind, opened privately: linking it would rebind the program's own _Unwind_* and backtrace symbols. The names
 * here are libunwind's names for unwinding the own process. Its header's macros turn them into the exported names. */
struct libunwind {
    int (*backtrace)(void **addresses, int room); /* fast, with a cache per thread; gives return addresses, innermost
                                                   * first */
    int (*getcontext)(unw_context_t *context);    /* NULL if the header has it as inline code: use MP_UNW_GETCONTEXT */
    int (*init_local)(unw_cursor_t *cursor, unw_context_t *context);
    int (*step)(unw_cursor_t *cursor); /* slow: system calls at each frame */
    int (*get_reg)(unw_cursor_t *cursor, unw_regnum_t number, unw_word_t *value);
    int (*get_proc_info_by_ip)(unw_addr_space_t space, unw_word_t address, unw_proc_info_t *info, void *argument);
    int (*set_caching_policy)(unw_addr_space_t space, unw_caching_policy_t policy);
    void (*flush_cache)(unw_addr_space_t space, unw_word_t low, unw_word_t high);
    unw_addr_space_t *local_addr_space;
};

#    if defined(__aarch64__)
#        define MP_UNW_GETCONTEXT(table, context) unw_tdep_getcontext(context)
#    else
#        define MP_UNW_GETCONTEXT(table, context) (table)->getcontext(context)
#    endif

#    define EXPANDED(name) #    name
#    define SYMBOL(name)   EXPANDED(name)

/* Opens the libunwind next to this library, if the portable package has one; else the system's. */
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

/* Opens MP_LIBUNWIND_SONAME and fills the table; never closes it. False: not installed, or not the libunwind we know.
 * Takes the loader's lock and allocates: for the start of the recorder. */
static bool open_libunwind(struct libunwind *table)
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
    dlerror(); /* the program must not see the text of our own failure */
    return library != NULL;
}

static struct libunwind libunwind;
static bool has_libunwind;

bool mp_libunwind_start(void)
{
    return has_libunwind = open_libunwind(&libunwind);
}

/* Called around any use of the unwinder outside of hooks. */
static void hold_forks(void)
{
    struct mp_session_page *page = mp_session.page;
    if (!page) return;
    uint64_t give_up = mp_clock_monotonic_ns() + MP_FORK_WAIT_NS;
    atomic_fetch_add(&page->holding, 1);
    for (uint32_t forking; (forking = atomic_load(&page->forking)) && !atomic_load(&page->fork_in_vain);) {
        uint64_t now = mp_clock_monotonic_ns();
        if (now >= give_up) return;
        atomic_fetch_sub(&page->holding, 1);
        mp_futex_wait(&page->forking, forking, give_up - now);
        atomic_fetch_add(&page->holding, 1);
    }
}

static void release_forks(void)
{
    if (mp_session.page) atomic_fetch_sub(&mp_session.page->holding, 1);
}

void mp_libunwind_forget(void)
{
    if (!has_libunwind) return;
    hold_forks();
    libunwind.flush_cache(*libunwind.local_addr_space, 0, 0);
    release_forks();
}

/* libunwind takes its own locks and the loader's. A signal handler must not jump out of it while it holds one. */
static bool begin(uint64_t *signals)
{
    return has_libunwind && mp_signals_hold(signals);
}

struct mp_walked mp_libunwind_walk(uint64_t generation, void **addresses, int room)
{
    uint64_t signals;
    if (!begin(&signals)) return (struct mp_walked){.end = MP_WALK_PASSED};
    int count = libunwind.backtrace(addresses, room);
    mp_signals_release(signals);
    if (count < 0) count = 0;
    return (struct mp_walked){count, count == room ? MP_WALK_FULL : MP_WALK_PASSED,
                              mp_hash_words((const uint64_t *)addresses, (size_t)count, generation)};
}

static int walk_slowly(struct mp_native_frame *frames, int room)
{
    unw_context_t context;
    unw_cursor_t cursor;
    unw_word_t address, low, high;
    int count = 0;
    if (MP_UNW_GETCONTEXT(&libunwind, &context) != 0 || libunwind.init_local(&cursor, &context) != 0) return 0;
    if (libunwind.get_reg(&cursor, UNW_REG_SP, &low) != 0) return 0;
    for (; count < room; low = high) {
        if (libunwind.get_reg(&cursor, UNW_REG_IP, &address) != 0 || libunwind.step(&cursor) <= 0) break;
        if (libunwind.get_reg(&cursor, UNW_REG_SP, &high) != 0) break;
        frames[count++] = (struct mp_native_frame){.address = address, .low = low, .high = high};
    }
    return count;
}

int mp_libunwind_walk_frames(struct mp_native_frame *frames, int room)
{
    uint64_t signals;
    if (!begin(&signals)) return 0;
    int count = walk_slowly(frames, room);
    mp_signals_release(signals);
    return count;
}

bool mp_libunwind_function(uintptr_t address, uintptr_t *start, uintptr_t *end)
{
    unw_proc_info_t info;
    uint64_t signals;
    if (!begin(&signals)) return false;
    bool known = libunwind.get_proc_info_by_ip(*libunwind.local_addr_space, address, &info, NULL) == 0;
    mp_signals_release(signals);
    if (known) *start = info.start_ip, *end = info.end_ip;
    return known;
}

#else

bool mp_libunwind_start(void)
{
    return false;
}

void mp_libunwind_forget(void) {}

struct mp_walked mp_libunwind_walk(uint64_t generation, void **addresses, int room)
{
    (void)generation, (void)addresses, (void)room;
    return (struct mp_walked){.end = MP_WALK_PASSED};
}

#endif
