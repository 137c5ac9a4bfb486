/* Threads of memprof's own, whose stacks do not follow the limit on stacks (ulimit -s): jobs are run with low ones, and
 * what reads debug information needs more. */
#ifndef MP_BASE_WORKER_H
#define MP_BASE_WORKER_H

#include <pthread.h>
#include <stdbool.h>

/* False, with errno: there is none. */
bool mp_worker_start(pthread_t *thread, void *(*run)(void *), void *context);

#endif
