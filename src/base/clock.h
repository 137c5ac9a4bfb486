/* Clocks in nanoseconds, read from the kernel (vDSO, else a system call). They are right even in a program where
 * another library replaces clock_gettime(). Never allocates; may be called in the program. */
#pragma once

#include <stdint.h>

#define MP_NS_PER_SECOND UINT64_C(1000000000)
#define MP_NS_PER_MS     UINT64_C(1000000)

/* The clock of every event. */
uint64_t mp_clock_monotonic_ns(void);

/* From now on, reads clocks by system calls alone: the program may forbid itself the processor's counter. */
void mp_clock_spare_counter(void);

/* The clock of other tools' traces. It is recorded only together with the monotonic clock. */
uint64_t mp_clock_realtime_ns(void);

/* The time that the calling thread has computed, which a busy machine does not change. */
uint64_t mp_clock_thread_ns(void);
/* The time that all threads of the process have computed. The kernel adds it up, thread by thread. */
uint64_t mp_clock_process_ns(void);
