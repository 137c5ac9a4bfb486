/* Used where walk.c has no rules: on machines other than x86-64. */
#include "capture/native/walk.h"

#if !defined(__x86_64__)

#    include "base/hash.h"
#    include "capture/core/fork.h"
#    include "capture/core/signals.h"
#    include "capture/native/libunwind_table.h"

static struct mp_libunwind libunwind;
static bool has_libunwind; /* without it stacks have no native frames */

void mp_native_walk_start(void)
{
    has_libunwind = mp_libunwind_open(&libunwind);
}

/* Around use of the unwinder outside any hook. */
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

void mp_native_walk_forget(void)
{
    if (!has_libunwind) return;
    hold_forks();
    libunwind.flush_cache(*libunwind.local_addr_space, 0, 0);
    release_forks();
}

bool mp_native_same_stack(const struct mp_known_frames *known, uintptr_t inner, uintptr_t outer)
{
    (void)known, (void)inner, (void)outer;
    return false;
}

/* libunwind takes locks, its own and the loader's: a handler must not leave it while it holds one. */
static bool begin(uint64_t *signals)
{
    return has_libunwind && mp_signals_hold(signals);
}

struct mp_walked mp_native_walk(struct mp_known_frames *known, uint64_t generation, const void *frame, uintptr_t end,
                                void **addresses, int room)
{
    (void)known, (void)frame, (void)end;
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

int mp_native_walk_frames(struct mp_known_frames *known, uint64_t generation, const void *frame,
                          struct mp_native_frame *frames, int room)
{
    (void)known, (void)generation, (void)frame;
    uint64_t signals;
    if (!begin(&signals)) return 0;
    int count = walk_slowly(frames, room);
    mp_signals_release(signals);
    return count;
}

bool mp_native_function(uintptr_t address, uintptr_t *start, uintptr_t *end)
{
    unw_proc_info_t info;
    uint64_t signals;
    if (!begin(&signals)) return false;
    bool known = libunwind.get_proc_info_by_ip(*libunwind.local_addr_space, address, &info, NULL) == 0;
    mp_signals_release(signals);
    if (known) *start = info.start_ip, *end = info.end_ip;
    return known;
}

#endif
