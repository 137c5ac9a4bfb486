#include "capture/core/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/kernel.h"

#include "capture/core/futex.h"

#define WAITED UINT32_C(0x80000000)
#define NOBODY UINT32_C(0x7fffffff)

#define LOOK_AGAIN_NS (5 * MP_NS_PER_MS) /* a thread that ends while it holds a lock wakes no other thread */
/* After this time a living owner must have left the lock by a jump, since no use of a lock takes so long. A number of
 * tries is needed, too, because a process that was stopped finds the time already over. */
#define PATIENCE_NS    (2 * MP_NS_PER_SECOND)
#define PATIENCE_TRIES 16

static __thread uint32_t own_tid; /* initial-exec, like the whole recorder */

uint32_t mp_own_tid(void)
{
    if (__builtin_expect(!own_tid, 0)) {
        long tid = mp_syscall(SYS_gettid);
        own_tid = tid > 0 ? (uint32_t)tid : NOBODY; /* if gettid() is refused, all threads share one id */
    }
    return own_tid;
}

void mp_own_tid_forget(void)
{
    own_tid = 0;
}

static uint32_t tid_of(uint32_t word)
{
    return word & ~WAITED;
}

static bool is_gone(uint32_t tid)
{
    return mp_syscall(SYS_tgkill, mp_getpid(), tid, 0) && errno == ESRCH;
}

/* Takes the lock away from owner `seen`, unless it changed hands meanwhile. Sets the mark for sleepers, since there may
 * be some. */
static bool take_from(mp_lock *lock, uint32_t seen, uint32_t own)
{
    if (!atomic_compare_exchange_strong(&lock->owner, &seen, own | WAITED)) return false;
    atomic_store(&lock->in_vain, 0);
    return true;
}

/* Called if a thread has already waited in vain for owner `seen`. Takes the lock if the owner has kept it too long or
 * has ended. */
static bool take_after_all(mp_lock *lock, uint32_t seen, uint32_t own, uint64_t wait_ns)
{
    uint64_t patience = wait_ns < PATIENCE_NS ? PATIENCE_NS : wait_ns;
    uint32_t tries = atomic_fetch_add(&lock->tries, 1);
    bool over = tries >= PATIENCE_TRIES && mp_clock_monotonic_ns() - atomic_load(&lock->since) > patience;
    return (over || is_gone(tid_of(seen))) && take_from(lock, seen, own);
}

static void remember_in_vain(mp_lock *lock, uint32_t seen, uint64_t now)
{
    atomic_store(&lock->since, now);
    atomic_store(&lock->tries, 0);
    atomic_store(&lock->in_vain, tid_of(seen));
    if (tid_of(atomic_load(&lock->owner)) != tid_of(seen)) atomic_store(&lock->in_vain, 0);
}

static __attribute__((noinline)) bool wait_for(mp_lock *lock, uint32_t own, uint64_t wait_ns)
{
    int saved = errno;
    uint64_t now = mp_clock_monotonic_ns(), give_up = now + wait_ns;
    bool taken = false;
    for (;;) {
        uint32_t seen = atomic_load(&lock->owner);
        if (!seen || tid_of(seen) == own) { /* a hook of this thread had it, and a jump left the hook */
            taken = take_from(lock, seen, own);
            if (taken) break;
            continue;
        }
        if (tid_of(seen) == atomic_load(&lock->in_vain)) {
            taken = take_after_all(lock, seen, own, wait_ns);
            break;
        }
        if (now >= give_up) {
            remember_in_vain(lock, seen, now);
            break;
        }
        if (!(seen & WAITED) && !atomic_compare_exchange_strong(&lock->owner, &seen, seen | WAITED)) continue;
        uint64_t rest = give_up - now;
        mp_futex_wait_private(&lock->owner, seen | WAITED, rest < LOOK_AGAIN_NS ? rest : LOOK_AGAIN_NS);
        now = mp_clock_monotonic_ns();
        if (atomic_load(&lock->owner) == (seen | WAITED) && is_gone(tid_of(seen)) &&
            take_from(lock, seen | WAITED, own)) {
            taken = true;
            break;
        }
    }
    errno = saved;
    return taken;
}

bool mp_lock_take_within(mp_lock *lock, uint64_t wait_ns)
{
    uint32_t own = mp_own_tid(), seen = 0;
    return __builtin_expect(atomic_compare_exchange_strong(&lock->owner, &seen, own), 1) ||
           wait_for(lock, own, wait_ns);
}

bool mp_lock_take(mp_lock *lock)
{
    return mp_lock_take_within(lock, MP_LOCK_WAIT_NS);
}

bool mp_lock_is_own(const mp_lock *lock)
{
    return tid_of(atomic_load_explicit(&lock->owner, memory_order_relaxed)) == mp_own_tid();
}

void mp_lock_release(mp_lock *lock)
{
    uint32_t own = mp_own_tid(), seen = own;
    if (atomic_load_explicit(&lock->in_vain, memory_order_relaxed) == own) atomic_store(&lock->in_vain, 0);
    if (__builtin_expect(atomic_compare_exchange_strong(&lock->owner, &seen, 0), 1)) return;
    if (seen != (own | WAITED) || !atomic_compare_exchange_strong(&lock->owner, &seen, 0)) return;
    int saved = errno;
    mp_futex_wake_private(&lock->owner, 1);
    errno = saved;
}
