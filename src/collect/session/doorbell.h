/*
 * The doorbell of a session: a page that all recorded processes share. A thread sleeps on it and turns each ring into
 * an event that poll() sees.
 */
#ifndef MP_COLLECT_DOORBELL_H
#define MP_COLLECT_DOORBELL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct mp_doorbell {
    int memory; /* the page's descriptor, for the processes */
    int heard;  /* readable after a ring */
    _Atomic uint32_t *page;
    pthread_t listener;
    _Atomic bool leaving;
};

/* Opens it and starts the thread, which uses *doorbell until mp_doorbell_close(). */
enum mp_status mp_doorbell_open(struct mp_doorbell *doorbell, struct mp_error *error);
/* Forgets the rings so far. */
void mp_doorbell_hear(struct mp_doorbell *doorbell);
/* Ends the thread, even while processes may still ring, and closes. Ignores a zero-initialised one. */
void mp_doorbell_close(struct mp_doorbell *doorbell);

#endif
