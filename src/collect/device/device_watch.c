#include "collect/device/device_watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/vec.h"
#include "base/words.h"
#include "base/worker.h"
#include "collect/device/nvml.h"

#define FIRST_WAIT_NS  (2 * MP_NS_PER_SECOND)
#define EVERY_NS       (100 * MP_NS_PER_MS)
#define LEAST_APART_NS (10 * MP_NS_PER_MS) /* least time between readings, even for immediate ones */
#define READINGS       256
#define GPUS_MAX       64

struct mp_device_watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started, ready, asked, at_once, leaving;
    struct mp_gpus gpus; /* fixed once `ready` is set */
    char trouble[200];
    struct mp_device_reading readings[READINGS]; /* a ring: reading N is at index N % READINGS */
    uint64_t count;
    struct mp_device_reading first[GPUS_MAX];
    bool has_first[GPUS_MAX];
};

/* Waits until `when`. Call it under the lock. True if the watch must end. */
static bool wait_until(struct mp_device_watch *watch, uint64_t when)
{
    struct timespec moment = {(time_t)(when / MP_NS_PER_SECOND), (long)(when % MP_NS_PER_SECOND)};
    while (!watch->leaving && !watch->at_once && (!watch->asked || mp_clock_monotonic_ns() < when)) {
        if (watch->asked)
            pthread_cond_timedwait(&watch->changed, &watch->lock, &moment);
        else
            pthread_cond_wait(&watch->changed, &watch->lock);
    }
    return watch->leaving;
}

static void keep(struct mp_device_watch *watch, const struct mp_device_reading *reading)
{
    if (reading->use.used_bytes == MP_BYTES_UNKNOWN) return;
    watch->readings[watch->count++ % READINGS] = *reading;
    if (reading->gpu >= GPUS_MAX || watch->has_first[reading->gpu]) return;
    watch->first[reading->gpu] = *reading;
    watch->has_first[reading->gpu] = true;
}

static void read_all(struct mp_device_watch *watch, struct mp_nvml *nvml)
{
    for (unsigned i = 0; i < watch->gpus.count; i++) {
        struct mp_device_reading reading = {.gpu = i, .begun_ns = mp_clock_monotonic_ns()};
        mp_nvml_use(nvml, &watch->gpus.at[i], &reading.use);
        reading.ended_ns = mp_clock_monotonic_ns();
        pthread_mutex_lock(&watch->lock);
        keep(watch, &reading);
        pthread_mutex_unlock(&watch->lock);
    }
}

static void read_in_turns(struct mp_device_watch *watch, struct mp_nvml *nvml)
{
    for (;;) {
        pthread_mutex_lock(&watch->lock);
        bool leaving = wait_until(watch, mp_clock_monotonic_ns() + EVERY_NS);
        watch->at_once = false;
        pthread_mutex_unlock(&watch->lock);
        if (leaving) return;
        read_all(watch, nvml);
        struct timespec pause = {.tv_nsec = LEAST_APART_NS};
        nanosleep(&pause, NULL);
    }
}

static void *run(void *context)
{
    struct mp_device_watch *watch = context;
    struct mp_nvml *nvml = NULL;
    struct mp_error error = {.text = ""};
    enum mp_status status = mp_nvml_open(&nvml, &error);
    if (!status) status = mp_nvml_gpus(nvml, &watch->gpus, &error);
    if (!status) read_all(watch, nvml);
    pthread_mutex_lock(&watch->lock);
    /* A missing driver is no error. */
    if (status && status != MP_NOT_FOUND) memcpy(watch->trouble, error.text, sizeof watch->trouble - 1);
    watch->ready = true;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    if (!status) read_in_turns(watch, nvml);
    mp_nvml_close(nvml);
    return NULL;
}

struct mp_device_watch *mp_device_watch_open(void)
{
    struct mp_device_watch *watch = calloc(1, sizeof *watch);
    if (!watch) return NULL;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->changed, &clock);
    pthread_condattr_destroy(&clock);
    watch->started = mp_worker_start(&watch->thread, run, watch);
    uint64_t when = mp_clock_monotonic_ns() + FIRST_WAIT_NS;
    struct timespec moment = {(time_t)(when / MP_NS_PER_SECOND), (long)(when % MP_NS_PER_SECOND)};
    pthread_mutex_lock(&watch->lock);
    while (watch->started && !watch->ready && mp_clock_monotonic_ns() < when)
        pthread_cond_timedwait(&watch->changed, &watch->lock, &moment);
    pthread_mutex_unlock(&watch->lock);
    return watch;
}

void mp_device_watch_close(struct mp_device_watch *watch)
{
    if (!watch) return;
    pthread_mutex_lock(&watch->lock);
    watch->leaving = true;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    if (watch->started) pthread_join(watch->thread, NULL);
    pthread_mutex_destroy(&watch->lock);
    pthread_cond_destroy(&watch->changed);
    mp_vec_free(&watch->gpus);
    free(watch);
}

/* The watch's thread is missing in the child. So this thread holds the lock during fork(): otherwise the missing thread
 * might hold it there for ever. */
pid_t mp_device_watch_fork(struct mp_device_watch *watch)
{
    if (!watch) return fork();
    pthread_mutex_lock(&watch->lock);
    pid_t child = fork();
    pthread_mutex_unlock(&watch->lock);
    return child;
}

const struct mp_gpus *mp_device_watch_gpus(struct mp_device_watch *watch)
{
    if (!watch) return NULL;
    pthread_mutex_lock(&watch->lock);
    bool known = watch->ready && watch->gpus.count;
    pthread_mutex_unlock(&watch->lock);
    return known ? &watch->gpus : NULL;
}

void mp_device_watch_trouble(struct mp_device_watch *watch, char *text, size_t room)
{
    *text = '\0';
    if (!watch) return;
    pthread_mutex_lock(&watch->lock);
    strncat(text, watch->trouble, room - 1);
    pthread_mutex_unlock(&watch->lock);
}

void mp_device_watch_ask(struct mp_device_watch *watch, bool at_once)
{
    if (!watch) return;
    pthread_mutex_lock(&watch->lock);
    bool news = !watch->asked || (at_once && !watch->at_once);
    watch->asked = true;
    watch->at_once |= at_once;
    if (news) pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

bool mp_device_watch_first(struct mp_device_watch *watch, unsigned gpu, struct mp_device_reading *reading)
{
    if (!watch || gpu >= GPUS_MAX) return false;
    pthread_mutex_lock(&watch->lock);
    bool found = watch->has_first[gpu];
    if (found) *reading = watch->first[gpu];
    pthread_mutex_unlock(&watch->lock);
    return found;
}

bool mp_device_watch_next(struct mp_device_watch *watch, uint64_t *cursor, struct mp_device_reading *reading)
{
    if (!watch) return false;
    pthread_mutex_lock(&watch->lock);
    if (*cursor + READINGS < watch->count) *cursor = watch->count - READINGS;
    bool found = *cursor < watch->count;
    if (found) *reading = watch->readings[(*cursor)++ % READINGS];
    pthread_mutex_unlock(&watch->lock);
    return found;
}
