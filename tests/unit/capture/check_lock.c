/* The recorder's lock: only one thread has it, it can be taken from a thread that has ended, and no wait is endless. */
#include "capture/core/lock.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/suite.h"

enum { THREADS = 6, ROUNDS = 20000 };

static mp_lock lock;

/* A thread that takes the lock and obeys commands. */
struct owner {
    pthread_t thread;
    pid_t tid;
    atomic_bool has_it, may_release;
    bool leaves; /* without releasing it */
};

static void *own(void *argument)
{
    struct owner *owner = argument;
    ck_assert(mp_lock_take_within(&lock, 10 * MP_NS_PER_SECOND));
    ck_assert(mp_lock_is_own(&lock));
    owner->tid = (pid_t)syscall(SYS_gettid);
    atomic_store(&owner->has_it, true);
    while (!owner->leaves && !atomic_load(&owner->may_release))
        usleep(1000);
    if (!owner->leaves) mp_lock_release(&lock);
    return NULL;
}

static void start(struct owner *owner)
{
    ck_assert(!pthread_create(&owner->thread, NULL, own, owner));
    while (!atomic_load(&owner->has_it))
        usleep(1000);
}

/* Waits until the kernel has forgotten the thread, which takes a moment after joining. */
static void join(struct owner *owner)
{
    pid_t tid = owner->tid;
    pthread_join(owner->thread, NULL);
    while (!syscall(SYS_tgkill, getpid(), tid, 0))
        usleep(1000);
}

static void end(struct owner *owner)
{
    atomic_store(&owner->may_release, true);
    pthread_join(owner->thread, NULL);
}

START_TEST(it_is_its_owners_until_released)
{
    ck_assert_uint_eq(mp_own_tid(), (uint32_t)syscall(SYS_gettid));
    ck_assert(!mp_lock_is_own(&lock));
    ck_assert(mp_lock_take(&lock));
    ck_assert(mp_lock_is_own(&lock));
    ck_assert(mp_lock_take(&lock)); /* an earlier hook of this thread was left */
    mp_lock_release(&lock);
    ck_assert(!mp_lock_is_own(&lock));
    ck_assert_uint_eq(atomic_load(&lock.owner), 0);
    mp_lock_release(&lock);
    ck_assert_uint_eq(atomic_load(&lock.owner), 0);
}

START_TEST(a_living_owner_keeps_it)
{
    struct owner owner = {.leaves = false};
    start(&owner);
    errno = 4711;
    for (uint64_t wait_ns = 0; wait_ns <= 40 * MP_NS_PER_MS; wait_ns += 20 * MP_NS_PER_MS) {
        ck_assert(!mp_lock_take_within(&lock, wait_ns));
        ck_assert(!mp_lock_is_own(&lock));
        mp_lock_release(&lock); /* of another thread: has no effect */
    }
    ck_assert_int_eq(errno, 4711);
    end(&owner);
    ck_assert(mp_lock_take_within(&lock, 0));
    mp_lock_release(&lock);
}

static void *let_go(void *argument)
{
    usleep(30000);
    end(argument);
    return NULL;
}

START_TEST(who_waits_gets_it_when_it_is_released)
{
    for (int round = 0; round < 5; round++) {
        struct owner owner = {.leaves = false};
        pthread_t other;
        start(&owner);
        ck_assert(!pthread_create(&other, NULL, let_go, &owner));
        ck_assert(mp_lock_take_within(&lock, 100 * MP_NS_PER_SECOND));
        ck_assert(mp_lock_is_own(&lock));
        mp_lock_release(&lock);
        pthread_join(other, NULL);
        ck_assert_uint_eq(atomic_load(&lock.owner), 0);
    }
}

/* The lock of an ended thread is taken while others wait, and after others waited in vain. */
START_TEST(it_is_taken_from_a_thread_that_is_no_more)
{
    for (int in_vain = 0; in_vain < 2; in_vain++) {
        struct owner gone = {.leaves = true};
        start(&gone);
        join(&gone);
        if (in_vain) atomic_store(&lock.in_vain, atomic_load(&lock.owner));
        ck_assert(mp_lock_take_within(&lock, 100 * MP_NS_PER_SECOND));
        ck_assert(mp_lock_is_own(&lock));
        ck_assert_uint_eq(atomic_load(&lock.in_vain), 0);
        mp_lock_release(&lock);
        ck_assert_uint_eq(atomic_load(&lock.owner), 0);
    }
}

/* A living owner has left its hook by a jump: the lock is taken from it, but only after many tries. */
START_TEST(patience_with_a_living_owner_ends)
{
    struct owner owner = {.leaves = false};
    start(&owner);
    unsigned tries = 0;
    while (!mp_lock_take_within(&lock, 0)) {
        tries++;
        usleep(20000);
    }
    ck_assert_uint_gt(tries, 16);
    ck_assert(mp_lock_is_own(&lock));
    end(&owner); /* it releases a lock that is no longer its own */
    ck_assert(mp_lock_is_own(&lock));
    mp_lock_release(&lock);
    ck_assert_uint_eq(atomic_load(&lock.owner), 0);
}

static unsigned long shared;

static void *count(void *unused)
{
    for (int round = 0; round < ROUNDS; round++) {
        while (!mp_lock_take(&lock))
            continue;
        shared++;
        mp_lock_release(&lock);
    }
    return unused;
}

START_TEST(one_thread_at_a_time_has_it)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert(!pthread_create(&threads[i], NULL, count, NULL));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(shared, (unsigned long)THREADS * ROUNDS);
    ck_assert_uint_eq(atomic_load(&lock.owner), 0);
}

START_TEST(a_forked_child_is_somebody_else)
{
    ck_assert(mp_lock_take(&lock));
    pid_t child = fork();
    if (!child) {
        mp_own_tid_forget();
        _exit(mp_own_tid() == (uint32_t)getpid() && !mp_lock_is_own(&lock) ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    mp_lock_release(&lock);
}

MP_SUITE("lock", it_is_its_owners_until_released, a_living_owner_keeps_it, who_waits_gets_it_when_it_is_released,
         it_is_taken_from_a_thread_that_is_no_more, patience_with_a_living_owner_ends, one_thread_at_a_time_has_it,
         a_forked_child_is_somebody_else)
