/*
 * Finishes the recordings of ended processes, one after the other, on its own thread. Reading symbols may take seconds.
 * In this time, the rings of other processes would fill up.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/session/leaving.h"

struct mp_finished {
    struct mp_recording *recording;
    struct mp_recording_summary summary;
    uint64_t owner; /* id of the parent's recording if the file may be left out; 0: the file stays */
};

struct mp_finisher {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    MP_VEC(struct mp_finished) queue; /* [0, done) are finished, [done] is under way, the others wait */
    size_t done;
    struct mp_leaving leaving; /* used by the thread */
    bool running;              /* the thread takes from the queue; it ends when the queue is empty */
    bool started;              /* the thread must be joined */
    pthread_t worker;
};

void mp_finisher_open(struct mp_finisher *finisher);
/* Passes on a recording whose end was taken (mp_recording_end). Without a thread or memory, finishes the recording
 * itself, returns it in *finished, and gives true. `owner`: as in struct mp_finished. */
bool mp_finisher_add(struct mp_finisher *finisher, struct mp_recording *recording, uint64_t owner,
                     struct mp_finished *finished);
/* Returns a finished recording, which the thread that made it must free; `wait` waits for one. False: no recording is
 * finished (with `wait`: none will be). */
bool mp_finisher_take(struct mp_finisher *finisher, bool wait, struct mp_finished *finished);
/* Call it after the last recording was taken. */
void mp_finisher_close(struct mp_finisher *finisher);
