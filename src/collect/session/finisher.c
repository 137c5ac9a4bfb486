#include "collect/session/finisher.h"

#include <string.h>

#include "base/worker.h"

static void *work(void *context)
{
    struct mp_finisher *finisher = context;
    pthread_mutex_lock(&finisher->lock);
    while (finisher->done < finisher->queue.count) {
        struct mp_recording *recording = finisher->queue.at[finisher->done].recording;
        uint64_t owner = finisher->queue.at[finisher->done].owner;
        struct mp_recording_summary summary;
        pthread_mutex_unlock(&finisher->lock);
        mp_leaving_finish(&finisher->leaving, recording, owner, &summary);
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

/* Joins a worker that has ended, or is about to. */
static void join_worker(struct mp_finisher *finisher)
{
    if (finisher->started) pthread_join(finisher->worker, NULL);
    finisher->started = false;
}

/* Call it with the lock held. */
static bool start_worker(struct mp_finisher *finisher)
{
    if (finisher->running) return true;
    join_worker(finisher);
    finisher->running = finisher->started = mp_worker_start(&finisher->worker, work, finisher);
    return finisher->started;
}

bool mp_finisher_add(struct mp_finisher *finisher, struct mp_recording *recording, uint64_t owner,
                     struct mp_finished *finished)
{
    struct mp_finished entry = {.recording = recording, .owner = owner};
    pthread_mutex_lock(&finisher->lock);
    bool queued = mp_vec_push(&finisher->queue, entry);
    if (queued && !start_worker(finisher)) {
        finisher->queue.count--;
        queued = false;
    }
    pthread_mutex_unlock(&finisher->lock);
    if (queued) return false;
    finished->recording = recording;
    finished->owner = owner;
    struct mp_leaving unshared = {.rows = {0}}; /* the thread may be at work, so notes about left-out files are not
                                                 * shared with it */
    mp_leaving_finish(&unshared, recording, 0, &finished->summary);
    mp_leaving_free(&unshared);
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
    mp_leaving_free(&finisher->leaving);
    pthread_cond_destroy(&finisher->changed);
    pthread_mutex_destroy(&finisher->lock);
}
