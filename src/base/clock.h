/* Clocks in nanoseconds: the kernel's own, also in a program in whose place another library answers clock_gettime().
 * Never allocates; may be called in the program (vDSO; a system call where the kernel has none). */
#ifndef MP_BASE_CLOCK_H
#define MP_BASE_CLOCK_H

#include <stdint.h>

#define MP_NS_PER_SECOND UINT64_C(1000000000)
#define MP_NS_PER_MS     UINT64_C(1000000)

/* The clock of every event. */
uint64_t mp_clock_monotonic_ns(void);

/* The clock that other tools' traces use; only ever recorded beside the monotonic one. */
uint64_t mp_clock_realtime_ns(void);

#endif
