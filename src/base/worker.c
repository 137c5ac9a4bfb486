#include "base/worker.h"

#include <errno.h>

#define STACK_BYTES (2 << 20)

bool mp_worker_start(pthread_t *thread, void *(*run)(void *), void *context)
{
    pthread_attr_t attributes;
    int failed = pthread_attr_init(&attributes);
    if (!failed) {
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        failed = pthread_create(thread, &attributes, run, context);
        pthread_attr_destroy(&attributes);
    }
    if (failed) errno = failed;
    return !failed;
}
