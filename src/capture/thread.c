#include "capture/thread.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "capture/session.h"

/* One pointer of static TLS: a library with much of it could not be loaded late. */
static __thread struct mp_thread *self __attribute__((tls_model("initial-exec")));

static pthread_key_t ending_thread;

#define RING_WAIT_NS (100 * MP_NS_PER_MS)

static void retire_ring(void *thread_pointer)
{
    struct mp_thread *thread = thread_pointer;
    self = NULL;
    struct mp_session_page *page = mp_session.page;
    if (thread->ring && atomic_load(&page->generation) == thread->generation)
        atomic_store_explicit(&thread->ring->state, MP_RING_RETIRED, memory_order_release);
    munmap(thread, sizeof *thread);
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

/* A ring that its thread left behind, else a fresh one. -1: all committed ones are in use. */
static int find_ring(struct mp_spool_header *header)
{
    uint32_t used = atomic_load(&header->rings_used);
    for (uint32_t i = 0; i < used; i++)
        if (own(&header->rings[i])) return (int)i;
    while (used < atomic_load_explicit(&header->rings_committed, memory_order_acquire)) {
        uint32_t fresh = used;
        if (!atomic_compare_exchange_weak(&header->rings_used, &used, fresh + 1)) continue;
        if (own(&header->rings[fresh])) return (int)fresh;
        used = atomic_load(&header->rings_used); /* another thread found it in between */
    }
    return -1;
}

/* The collector keeps rings ahead of the threads; one that starts faster than that waits for its own, once. */
static int wait_for_ring(struct mp_thread *thread, struct mp_spool_header *header)
{
    int index = find_ring(header);
    if (index >= 0 || thread->waited_for_ring) return index;
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
    int index = wait_for_ring(thread, header);
    if (atomic_load(&header->rings_used) + 1 >= atomic_load(&header->rings_committed)) mp_session_ring_doorbell();
    thread->ring = NULL;
    if (index < 0) return;
    struct mp_ring *ring = &header->rings[index];
    ring->tid = (uint32_t)syscall(SYS_gettid);
    memset(ring->name, 0, sizeof ring->name);
    prctl(PR_GET_NAME, ring->name);
    thread->ring = ring;
    thread->ring_index = (uint32_t)index;
    thread->full = false;
    thread->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
    thread->last_time_ns = mp_clock_monotonic_ns();
}

struct mp_thread *mp_thread_present(void)
{
    return self;
}

static __attribute__((noinline)) struct mp_thread *join_session(struct mp_thread *thread, uint32_t generation)
{
    if (!generation) return NULL; /* a signal handler has forked since the caller looked */
    if (!thread) {
        void *room =
            mmap(NULL, sizeof *thread, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED) return NULL;
        thread = room;
        if (pthread_setspecific(ending_thread, thread)) {
            munmap(room, sizeof *thread);
            return NULL;
        }
        self = thread;
    }
    if (thread->inside) return thread; /* a nested hook: the caller turns back */
    if (thread->generation != generation) thread->waited_for_ring = false;
    thread->generation = generation;
    thread->inside = true; /* the spool is touched: as in a hook */
    claim_ring(thread);
    thread->inside = false;
    return thread;
}

struct mp_thread *mp_thread_self(void)
{
    struct mp_thread *thread = self;
    uint32_t generation = atomic_load_explicit(&mp_session.page->generation, memory_order_relaxed);
    if (__builtin_expect(thread && thread->generation == generation && thread->ring, 1)) return thread;
    return join_session(thread, generation);
}
