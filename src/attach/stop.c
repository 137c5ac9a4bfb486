#include "attach/stop.h"

#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"

#define PATIENCE_NS (3 * MP_NS_PER_SECOND) /* a round takes some 10 ms, and memprof's end below a second */
#define AGAIN_MS    50

static bool is_done(const struct mp_stop *stop, int wait_ms)
{
    struct pollfd done = {.fd = stop->done, .events = POLLIN};
    return poll(&done, 1, wait_ms) > 0;
}

static void drain(const struct mp_stop *stop)
{
    struct signalfd_siginfo taken;
    while (read(stop->signals, &taken, sizeof taken) == sizeof taken) {
    }
}

static void *watch(void *context)
{
    struct mp_stop *stop = context;
    for (;;) {
        struct pollfd set[2] = {{.fd = stop->signals, .events = POLLIN}, {.fd = stop->done, .events = POLLIN}};
        poll(set, 2, -1);
        if (set[1].revents) return NULL;
        drain(stop);
        (void)eventfd_write(stop->fd, 1);
        uint64_t since = mp_clock_monotonic_ns(), heard = atomic_load(&stop->heard_ns);
        bool late = heard && since > heard + PATIENCE_NS;
        while (!late && !atomic_load(&stop->heard_ns)) {
            if (is_done(stop, AGAIN_MS)) return NULL;
            late = mp_clock_monotonic_ns() > since + PATIENCE_NS;
        }
        if (!late) continue;
        dprintf(STDERR_FILENO, "memprof: a step still lasted 3 s after a signal, so memprof ended without closing its "
                               "file: memprof recover reads what there is\n");
        _exit(1);
    }
}

bool mp_stop_begin(struct mp_stop *stop)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    *stop = (struct mp_stop){.fd = eventfd(0, EFD_CLOEXEC), .done = eventfd(0, EFD_CLOEXEC)};
    stop->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    pthread_sigmask(SIG_BLOCK, &set, &stop->before);
    stop->watched =
        stop->fd >= 0 && stop->done >= 0 && stop->signals >= 0 && !pthread_create(&stop->thread, NULL, watch, stop);
    return stop->watched;
}

void mp_stop_hear(struct mp_stop *stop)
{
    atomic_store(&stop->heard_ns, mp_clock_monotonic_ns());
}

void mp_stop_end(struct mp_stop *stop)
{
    if (stop->watched) {
        (void)eventfd_write(stop->done, 1);
        pthread_join(stop->thread, NULL);
        drain(stop); /* a pending signal would end memprof before its closing report */
    }
    close(stop->fd);
    close(stop->done);
    close(stop->signals);
    pthread_sigmask(SIG_SETMASK, &stop->before, NULL);
}
