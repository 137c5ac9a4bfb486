/* Clocks in nanoseconds. Never allocates; may be called in the program (vDSO, no system call). */
#ifndef MP_BASE_CLOCK_H
#define MP_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define MP_NS_PER_SECOND UINT64_C(1000000000)
#define MP_NS_PER_MS     UINT64_C(1000000)

static inline uint64_t mp_clock_ns_(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * MP_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* The clock of every event. */
static inline uint64_t mp_clock_monotonic_ns(void)
{
    return mp_clock_ns_(CLOCK_MONOTONIC);
}

/* The clock that other tools' traces use; only ever recorded beside the monotonic one. */
static inline uint64_t mp_clock_realtime_ns(void)
{
    return mp_clock_ns_(CLOCK_REALTIME);
}

#endif
