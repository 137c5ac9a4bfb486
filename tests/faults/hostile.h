/*
 * Shared by hostile programs: events, unique paths, alarms, and threads that no alarm interrupts.
 */
#pragma once

#include <errno.h>
#include <memprof.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))

static uint32_t pool;
static _Atomic long calls, begun; /* calls of memprof's functions that make events */
static _Atomic bool stop;         /* others() */

static void event(void)
{
    static _Atomic uintptr_t next = 1;
    const void *block = (const void *)(atomic_fetch_add(&next, 1) << 12);
    atomic_fetch_add(&begun, 2);
    memprof_alloc(pool, block, 64);
    memprof_free(pool, block);
    atomic_fetch_add(&calls, 2);
}

/* Makes an event with a stack that is unique for `bits`. */
NOINLINE static int path(unsigned bits, int depth)
{
    volatile int x = depth;
    if (!depth) {
        event();
        return 0;
    }
    switch (bits & 3) {
    case 0:
        return path(bits >> 2, depth - 1) + x;
    case 1:
        return path(bits >> 2, depth - 1) + x + 1;
    case 2:
        return path(bits >> 2, depth - 1) * 2 + x;
    default:
        return path(bits >> 2, depth - 1) - x;
    }
}

/* Makes the paths of `count` numbers from `from` on. */
static __attribute__((unused)) int paths(unsigned from, unsigned count)
{
    int sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += path((from + i) * 2654435761U >> 8, 12);
    return sum;
}

static __attribute__((unused)) void *others(void *unused)
{
    for (unsigned i = 1U << 31; !stop;)
        path(i += 7919, 12);
    return unused;
}

static __attribute__((unused)) void rest(long ns)
{
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    nanosleep(&time, NULL);
}

static __attribute__((unused)) int status_of(pid_t child)
{
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return status;
}

static __attribute__((unused)) void handle(int signal, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

static __attribute__((unused)) void alarms(long us)
{
    struct itimerval every = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &every, NULL);
}

static void mask_alarms(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(how, &set, NULL);
}

/* Starts a thread that no alarm interrupts, from its first instruction on. */
static bool start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    mask_alarms(SIG_BLOCK);
    bool started = !pthread_create(thread, NULL, run, argument);
    mask_alarms(SIG_UNBLOCK);
    return started;
}
