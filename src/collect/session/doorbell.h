/*
 * The doorbell of a session: a page that all recorded processes share. A thread sleeps on it and turns each ring into
 * an event that poll() sees.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "wire/config.h"

struct mp_doorbell {
    int memory; /* the page's descriptor, for the processes */
    int heard;  /* readable after a ring */
    struct mp_doorbell_page *page;
    pthread_t listener;
    _Atomic bool leaving;
};

/* Opens the doorbell and starts the thread, which uses *doorbell until mp_doorbell_close(). */
enum mp_status mp_doorbell_open(struct mp_doorbell *doorbell, struct mp_error *error);
/* Clears the rings so far. */
void mp_doorbell_hear(struct mp_doorbell *doorbell);
/* Ends the thread, even while processes may still ring, and closes all descriptors. Does nothing if
 * zero-initialised. */
void mp_doorbell_close(struct mp_doorbell *doorbell);
