/*
 * Finishes the recordings of processes that have ended, one after the other on a thread of its own: reading symbols may
 * take seconds, in which the rings of other processes would run full.
 */
#ifndef MP_COLLECT_FINISHER_H
#define MP_COLLECT_FINISHER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/vec.h"
#include "collect/recording/recording.h"
#include "collect/session/leaving.h"

struct mp_finished {
    struct mp_recording *recording;
    struct mp_recording_summary summary;
    uint64_t owner; /* the id of the recording whose process started this one, if that may leave no file; 0: it stays */
};

struct mp_finisher {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    MP_VEC(struct mp_finished) queue; /* [0, done) are finished, [done] is in work, the others wait */
    size_t done;
    struct mp_leaving leaving; /* the thread's */
    bool running;              /* the thread takes from the queue; it ends when that is empty */
    bool started;              /* and must be joined */
    pthread_t worker;
};

void mp_finisher_open(struct mp_finisher *finisher);
/* Hands over a recording whose end was recorded (mp_recording_end). Where there is no thread or no memory, it is
 * finished here and now and returned in *finished; the result is then true. `owner`: as in struct mp_finished. */
bool mp_finisher_add(struct mp_finisher *finisher, struct mp_recording *recording, uint64_t owner,
                     struct mp_finished *finished);
/* Takes back a finished recording, which the thread that made it must free; `wait` waits for one. False: there is none
 * (with `wait`: none is left). */
bool mp_finisher_take(struct mp_finisher *finisher, bool wait, struct mp_finished *finished);
/* Called after the last was taken. */
void mp_finisher_close(struct mp_finisher *finisher);

#endif
