/*
 * SIGINT, SIGTERM and SIGHUP while memprof is attached. The main thread hears them between two steps. If a step takes
 * too long (a file system of the process that does not answer, tables without an end), a thread of its own ends
 * memprof: no wait outlasts a signal. The kernel then removes the probes.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mp_stop {
    int fd; /* readable once a signal came */
    int signals, done;
    sigset_t before;
    pthread_t thread;
    _Atomic uint64_t heard_ns;
    bool watched;
};

/* False with errno: not possible. */
bool mp_stop_begin(struct mp_stop *stop);
/* The caller ends now. A signal soon after this changes nothing; a later one ends memprof. */
void mp_stop_hear(struct mp_stop *stop);
/* Signals do again what they did before. Signals that came meanwhile are dropped. */
void mp_stop_end(struct mp_stop *stop);
