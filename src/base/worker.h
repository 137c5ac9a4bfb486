/* memprof's own threads. The size of their stacks does not depend on the limit on stacks (ulimit -s): job schedulers
 * set that limit low, and reading debug information needs more. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread that calls run(context). False, with errno, if it cannot. */
bool mp_worker_start(pthread_t *thread, void *(*run)(void *), void *context);
