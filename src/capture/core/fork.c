#include "capture/core/fork.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "capture/core/front.h"
#include "capture/core/tables.h"

#define LEFT_WITHOUT_NS MP_NS_PER_SECOND   /* a hook that began longer ago has been left */
#define LEFT_WAIT_NS    (2 * MP_NS_PER_MS) /* a hook may have begun, but not yet stored its time */

/* True if a hook that began at `open` (monotonic ns) may still run; 0: no hook began. `waited`: how long the fork has
 * waited. */
static bool may_run(uint64_t open, uint64_t waited)
{
    return open && (open + LEFT_WITHOUT_NS > mp_clock_monotonic_ns() || waited < LEFT_WAIT_NS);
}

static bool hook_runs(const struct mp_thread *own, uint64_t waited)
{
    struct mp_spool_header *header = mp_session.header;
    uint32_t rings = atomic_load(&header->rings_used);
    for (uint32_t i = 0; i < rings && i < MP_SPOOL_RINGS_MAX; i++) {
        struct mp_ring *ring = &header->rings[i];
        if (!(own && ring == own->ring) && may_run(atomic_load(&ring->open_since), waited)) return true;
    }
    return atomic_load(&mp_session.page->holding) > 0;
}

static void before_fork(void)
{
    struct mp_session_page *page = mp_session.page;
    if (!page) return;
    int saved = errno;
    if (!atomic_fetch_add(&page->forking, 1)) atomic_store(&page->fork_in_vain, 0);
    struct mp_thread *own = mp_thread_present();
    if (mp_session.header && own) mp_thread_forks(own, (uintptr_t)__builtin_frame_address(0));
    if (mp_session.header) {
        const struct timespec little = {.tv_nsec = 20000};
        uint64_t begin = mp_clock_monotonic_ns(), waited = 0;
        while (hook_runs(mp_thread_present(), waited) && waited < MP_FORK_WAIT_NS) {
            mp_syscall(SYS_nanosleep, &little, NULL); /* not nanosleep(), which is a cancellation point */
            waited = mp_clock_monotonic_ns() - begin;
        }
    }
    errno = saved;
}

static void after_fork_in_parent(void)
{
    struct mp_session_page *page = mp_session.page;
    if (!page) return;
    int saved = errno;
    if (atomic_fetch_sub(&page->forking, 1) == 1) mp_futex_wake(&page->forking);
    errno = saved;
}

/* The program may have excluded the recorder's memory from the fork (MADV_DONTFORK), without knowing it. */
static void after_fork_in_child(void)
{
    const struct mp_thread *own = mp_thread_present();
    bool whole = !mp_session.page || (mp_is_here(mp_session.page) && mp_is_here(own) && mp_fronts_are_here());
    bool inside = whole && own && own->inside;
    if (!whole) mp_thread_forget();
    if (whole)
        mp_session_after_fork(inside);
    else
        mp_session_give_up();
    mp_fronts_forked(inside);
}

bool mp_fork_start(void)
{
    return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

void mp_fork_wait(struct mp_thread *thread)
{
    struct mp_session_page *page = mp_session.page;
    uint64_t give_up = mp_clock_monotonic_ns() + MP_FORK_WAIT_NS;
    for (uint32_t forking; (forking = atomic_load(&page->forking)) && !atomic_load(&page->fork_in_vain);) {
        uint64_t now = mp_clock_monotonic_ns();
        if (now >= give_up) atomic_store(&page->fork_in_vain, 1); /* the fork takes long, or a jump left a hook */
        if (now >= give_up) return;
        atomic_store(&thread->ring->open_since, 0);
        mp_futex_wait(&page->forking, forking, give_up - now);
        atomic_exchange(&thread->ring->open_since, thread->last_time_ns);
    }
}
