/* memprof's own threads. Their stacks do not follow the limit on stacks (ulimit -s): job schedulers set it low, and
 * reading debug information needs more. */
#ifndef MP_BASE_WORKER_H
#define MP_BASE_WORKER_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread. False, with errno, where that fails. */
bool mp_worker_start(pthread_t *thread, void *(*run)(void *), void *context);

#endif
