/* The watch of the devices in the collector's forked children, which do not have the reading thread. */
#include "collect/device/device_watch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/suite.h"

static struct mp_device_watch *watch;
static _Atomic bool leaving;

/* Stands in for the reading thread, and takes the lock as often as possible. */
static void *ask(void *nothing)
{
    while (!leaving)
        mp_device_watch_ask(watch, false);
    return nothing;
}

START_TEST(a_child_finds_no_lock_held)
{
    enum { CHILDREN = 400, SECONDS = 20 };
    pthread_t thread;
    watch = mp_device_watch_open();
    ck_assert_ptr_nonnull(watch);
    ck_assert(!pthread_create(&thread, NULL, ask, NULL));
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = mp_device_watch_fork(watch);
        if (!child) {
            struct mp_device_reading reading;
            uint64_t cursor = 0;
            char text[64] = "x";
            alarm(SECONDS);
            mp_device_watch_trouble(watch, text, sizeof text);
            _exit(mp_device_watch_next(watch, &cursor, &reading) ? 1 : 42);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 42, "child %d ended with %x", i, (unsigned)status);
    }
    leaving = true;
    pthread_join(thread, NULL);
    mp_device_watch_close(watch);
    pid_t child = mp_device_watch_fork(NULL);
    if (!child) _exit(42);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(WEXITSTATUS(status), 42);
}

MP_SUITE("device_watch", a_child_finds_no_lock_held)
