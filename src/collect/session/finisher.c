#include "collect/session/finisher.h"

#include <string.h>

#include "base/worker.h"

static void *work(void *context)
{
    struct mp_finisher *finisher = context;
    pthread_mutex_lock(&finisher->lock);
    while (finisher->done < finisher->queue.count) {
        struct mp_recording *recording = finisher->queue.at[finisher->done].recording;
        struct mp_recording_summary summary;
        pthread_mutex_unlock(&finisher->lock);
        mp_recording_finish(recording, &summary);
        pthread_mutex_lock(&finisher->lock);
        finisher->queue.at[finisher->done++].summary = summary;
        pthread_cond_broadcast(&finisher->changed);
    }
    finisher->running = false;
    pthread_mutex_unlock(&finisher->lock);
    return NULL;
}

void mp_finisher_open(struct mp_finisher *finisher)
{
    *finisher = (struct mp_finisher){.done = 0};
    pthread_mutex_init(&finisher->lock, NULL);
    pthread_cond_init(&finisher->changed, NULL);
}

/* Joins a worker that has ended, except for its last few instructions. */
static void join_worker(struct mp_finisher *finisher)
{
    if (finisher->started) pthread_join(finisher->worker, NULL);
    finisher->started = false;
}

/* With the lock held. */
static bool start_worker(struct mp_finisher *finisher)
{
    if (finisher->running) return true;
    join_worker(finisher);
    finisher->running = finisher->started = mp_worker_start(&finisher->worker, work, finisher);
    return finisher->started;
}

bool mp_finisher_add(struct mp_finisher *finisher, struct mp_recording *recording, struct mp_finished *finished)
{
    struct mp_finished entry = {.recording = recording};
    pthread_mutex_lock(&finisher->lock);
    bool queued = mp_vec_push(&finisher->queue, entry);
    if (queued && !start_worker(finisher)) {
        finisher->queue.count--;
        queued = false;
    }
    pthread_mutex_unlock(&finisher->lock);
    if (queued) return false;
    finished->recording = recording;
    mp_recording_finish(recording, &finished->summary);
    return true;
}

bool mp_finisher_take(struct mp_finisher *finisher, bool wait, struct mp_finished *finished)
{
    pthread_mutex_lock(&finisher->lock);
    while (wait && !finisher->done && finisher->running)
        pthread_cond_wait(&finisher->changed, &finisher->lock);
    bool any = finisher->done > 0;
    if (any) {
        *finished = finisher->queue.at[0];
        finisher->done--;
        finisher->queue.count--;
        memmove(finisher->queue.at, finisher->queue.at + 1, finisher->queue.count * sizeof *finisher->queue.at);
    }
    pthread_mutex_unlock(&finisher->lock);
    return any;
}

void mp_finisher_close(struct mp_finisher *finisher)
{
    join_worker(finisher);
    mp_vec_free(&finisher->queue);
    pthread_cond_destroy(&finisher->changed);
    pthread_mutex_destroy(&finisher->lock);
}
