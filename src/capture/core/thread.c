#include "capture/core/thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "capture/core/room.h"
#include "capture/core/session.h"
#include "capture/core/views.h"

/* Only one pointer of static TLS: a library that needs much of it may fail to load late. */
static __thread struct mp_thread *self __attribute__((tls_model("initial-exec")));

static pthread_key_t ending_thread;

#define RING_WAIT_NS (100 * MP_NS_PER_MS)

/* Releases all locks of a hook that this thread left without ending it, and counts the hook. */
static void leave_behind(void)
{
    struct mp_session_page *page = mp_session.page;
    mp_lock *locks[] = {&page->table_lock, &page->module_lock, &page->question_lock};
    atomic_fetch_add(&mp_session.header->losses.left_hooks, 1);
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++)
        if (mp_lock_is_own(locks[i])) mp_lock_release(locks[i]);
}

static void retire_ring(void *thread_pointer)
{
    struct mp_thread *thread = thread_pointer;
    self = NULL;
    struct mp_session_page *page = mp_session.page;
    if (thread->ring && atomic_load(&page->generation) == thread->generation) {
        if (thread->inside)
            leave_behind(); /* the thread ended in a hook, by pthread_exit() in a handler or a
                             * cancellation */
        atomic_store_explicit(&thread->ring->open_since, 0, memory_order_release);
        atomic_store_explicit(&thread->ring->state, MP_RING_RETIRED, memory_order_release);
    }
    mp_room_unmap(thread, mp_thread_bytes());
}

bool mp_thread_start(void)
{
    return pthread_key_create(&ending_thread, retire_ring) == 0;
}

static bool own(struct mp_ring *ring)
{
    uint32_t free_state = MP_RING_FREE;
    return atomic_compare_exchange_strong(&ring->state, &free_state, MP_RING_OWNED);
}

/* Finds a ring whose thread has ended, else a fresh one. -1: all committed rings are in use. */
static int find_ring(struct mp_spool_header *header)
{
    uint32_t used = atomic_load(&header->rings_used);
    for (uint32_t i = 0; i < used; i++)
        if (own(&header->rings[i])) return (int)i;
    while (used < atomic_load_explicit(&header->rings_committed, memory_order_acquire)) {
        uint32_t fresh = used;
        if (!atomic_compare_exchange_weak(&header->rings_used, &used, fresh + 1)) continue;
        if (own(&header->rings[fresh])) return (int)fresh;
        used = atomic_load(&header->rings_used); /* another thread took this ring in between */
    }
    return -1;
}

/* True if a wait for a ring can succeed. False: all possible rings exist, and all their threads are alive. */
static bool one_may_come(const struct mp_spool_header *header)
{
    bool any = atomic_load(&header->rings_used) < MP_SPOOL_RINGS_MAX;
    for (int i = 0; i < MP_SPOOL_RINGS_MAX && !any; i++)
        any = atomic_load_explicit(&header->rings[i].state, memory_order_relaxed) != MP_RING_OWNED;
    return any;
}

/* The collector commits rings ahead of the threads. A thread that starts faster than the collector commits waits
 * once. */
static int wait_for_ring(struct mp_thread *thread, struct mp_spool_header *header)
{
    int index = find_ring(header);
    if (index >= 0 || thread->waited_for_ring || !one_may_come(header)) return index;
    atomic_fetch_add(&header->ring_waiters, 1);
    uint64_t give_up = mp_clock_monotonic_ns() + RING_WAIT_NS;
    while (mp_spool_attended(header)) {
        uint32_t drained = atomic_load(&header->drained);
        index = find_ring(header);
        uint64_t now = mp_clock_monotonic_ns();
        if (index >= 0 || now >= give_up) break;
        mp_session_ring_doorbell();
        mp_futex_wait(&header->drained, drained, give_up - now);
    }
    atomic_fetch_sub(&header->ring_waiters, 1);
    thread->waited_for_ring = true;
    return index;
}

static void claim_ring(struct mp_thread *thread)
{
    struct mp_spool_header *header = mp_session.header;
    thread->ring = NULL;
    thread->no_memory = false;
    int index = wait_for_ring(thread, header);
    thread->ring_index = (uint32_t)index;
    if (atomic_load(&header->rings_used) + 1 >= atomic_load(&header->rings_committed)) mp_session_ring_doorbell();
    if (index < 0) return;
    thread->records = mp_view_ring((uint32_t)index);
    thread->no_memory = !thread->records;
    if (thread->no_memory) {
        mp_session_refused("mremap");
        atomic_store(&header->rings[index].state, MP_RING_FREE);
        return;
    }
    struct mp_ring *ring = thread->ring = &header->rings[index]; /* stored at once, since a handler may jump out of
                                                                  * here */
    ring->tid = mp_own_tid();
    memset(ring->name, 0, sizeof ring->name);
    mp_syscall(SYS_prctl, PR_GET_NAME, ring->name);
    thread->full = false;
    thread->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
    thread->last_time_ns = mp_session_clock_ns();
}

/* On one stack, a handler's frame lies below the interrupted code, with the registers that the kernel saved in between.
 * These take at least this many bytes. */
#define SAVED_REGISTERS 700

/* True if the thread has certainly left its hook, in two cases. The hook's frames lie further in on the stack on which
 * the thread is now. Or they lie on the alternate stack, and the thread has left that stack. Otherwise the caller may
 * be a handler that interrupted the hook and will return to it. The handler runs on the hook's stack, on the alternate
 * one, or on the stack of a coroutine to which it has switched. */
static bool is_surely_left(struct mp_thread *thread, uintptr_t frame)
{
    stack_t own;
    uintptr_t hook = thread->inside, inner = frame < hook ? frame : hook;
    bool further_out = frame + SAVED_REGISTERS >= hook;
    bool has_alternate = !mp_syscall(SYS_sigaltstack, NULL, &own) && !(own.ss_flags & SS_DISABLE);
    bool hook_on_alternate = has_alternate && hook - (uintptr_t)own.ss_sp < own.ss_size;
    if (has_alternate && own.ss_flags & SS_ONSTACK) return hook_on_alternate && further_out;
    return hook_on_alternate || (further_out && mp_fronts.same_stack(thread, inner, frame + hook - inner));
}

/* True if the hook has lasted too long to be running. Most hooks that seem to run do run, but never this long. If the
 * thread returns to the hook after all, no harm is done: the hook's event is not recorded. */
static bool has_lasted(struct mp_thread *thread)
{
    enum { CALLS = 32 };
    const uint64_t lasts_ns = 5 * MP_NS_PER_SECOND;
    uint64_t now = mp_clock_monotonic_ns();
    if (thread->refused_in != thread->hook || !thread->refused) {
        thread->refused_in = thread->hook;
        thread->refused = 0;
        thread->refused_ns = now;
    }
    return ++thread->refused > CALLS && now - thread->refused_ns > lasts_ns;
}

static bool forget_if_left(struct mp_thread *thread, uintptr_t frame)
{
    if (!is_surely_left(thread, frame) && !has_lasted(thread)) return false;
    thread->refused = 0;
    thread->inside = 0;
    leave_behind();
    return true;
}

__attribute__((noinline)) bool mp_thread_was_left(struct mp_thread *thread, uintptr_t frame)
{
    int saved = errno;
    bool left = forget_if_left(thread, frame);
    if (!left) atomic_fetch_add(&mp_session.header->losses.dropped_inside, 1);
    errno = saved;
    return left;
}

void mp_thread_forks(struct mp_thread *thread, uintptr_t frame)
{
    if (thread->inside) forget_if_left(thread, frame);
}

struct mp_thread *mp_thread_present(void)
{
    return self;
}

void mp_thread_forget(void)
{
    if (self) pthread_setspecific(ending_thread, NULL);
    self = NULL;
}

static __attribute__((noinline)) struct mp_thread *join_session(struct mp_thread *thread, uint32_t generation)
{
    if (!generation) return NULL; /* a handler has forked since the caller looked at the session */
    if (!thread) {
        thread = mp_room_map(mp_thread_bytes());
        if (thread && pthread_setspecific(ending_thread, thread)) {
            mp_room_unmap(thread, mp_thread_bytes());
            thread = NULL;
        }
        if (!thread) mp_session_no_memory();
        if (!thread) return NULL;
        self = thread;
    }
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    while (!mp_thread_claim(thread, frame)) /* claim_ring() touches the spool, as a hook does */
        if (!mp_thread_was_left(thread, frame)) return NULL;
    if (thread->generation != generation) thread->waited_for_ring = false;
    thread->generation = generation;
    claim_ring(thread);
    thread->inside = 0;
    return thread;
}

struct mp_thread *mp_thread_self(void)
{
    struct mp_thread *thread = self;
    uint32_t generation = atomic_load_explicit(&mp_session.page->generation, memory_order_relaxed);
    if (__builtin_expect(thread && thread->generation == generation && thread->ring, 1)) return thread;
    return join_session(thread, generation);
}
