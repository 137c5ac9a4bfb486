/* A program of random hostile deeds, by its seed. Between events its children change user or root, close descriptors,
 * fork many times, and take signals or die of them. Prints the number of events of all processes. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memprof.h"

static _Atomic uint64_t *count;
static uint32_t pool;
static unsigned scale = 1; /* factor for numbers of events */

static void make_events(unsigned number)
{
    if (!pool) pool = memprof_pool("random", MEMPROF_HOST);
    for (unsigned i = 0; i < number * scale; i++) {
        void *block = malloc(64);
        memprof_alloc(pool, block, 64);
        atomic_fetch_add(count, 1);
        memprof_free(pool, block);
        atomic_fetch_add(count, 1);
        free(block);
    }
}

static void on_signal(int number)
{
    (void)number;
}

static void give_up_user(void)
{
    if (!geteuid() && (setgid(65534) || setuid(65534))) _exit(9);
}

static void give_up_root(void)
{
    if (!geteuid() && (chroot("/proc/self/fdinfo") || chdir("/"))) _exit(9);
}

static void leave_namespaces(void)
{
    if (!geteuid() && unshare(CLONE_NEWNS | CLONE_NEWNET)) _exit(9);
}

static void close_descriptors(void)
{
    for (int fd = 3; fd < 256; fd++)
        close(fd);
}

static void take_signals(void)
{
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 100; i++)
        raise(SIGUSR1);
}

static void limit_files(void)
{
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
    signal(SIGXFSZ, SIG_IGN);
}

static void limit_descriptors(void)
{
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3});
}

static void storm(void)
{
    for (int i = 0; i < 5; i++)
        if (!fork()) {
            make_events(10);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
}

static void ask_for_snapshot(void)
{
    memprof_snapshot("/proc/nowhere.mp");
}

static void die(void)
{
    kill(getpid(), SIGKILL);
}

static void abort_now(void)
{
    abort();
}

static void (*const deeds[])(void) = {close_descriptors, take_signals, limit_files,  storm,
                                      ask_for_snapshot,  give_up_user, give_up_root, leave_namespaces,
                                      limit_descriptors, die,          abort_now};
enum { DEEDS = sizeof deeds / sizeof *deeds };

/* Children first: memprof cannot reach the children of a process that has dropped its rights. */
static int run_child(unsigned seed)
{
    srand(seed);
    make_events(1 + (unsigned)rand() % 300);
    for (int deed = 0; deed < DEEDS; deed++) {
        if (rand() % 4) continue;
        deeds[deed]();
        make_events((unsigned)rand() % 300);
    }
    return rand() % 5;
}

int main(int argc, char **argv)
{
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    if (argc > 2) scale = (unsigned)atoi(argv[2]);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (count == MAP_FAILED) return 9;
    make_events(20);
    for (unsigned i = 0; i < 1 + seed % 4; i++) {
        pid_t child = fork();
        if (!child) _exit(run_child(seed * 7 + i));
        int status;
        waitpid(child, &status, 0);
        printf("%x ", (unsigned)status);
    }
    printf("\n%llu\n", (unsigned long long)atomic_load(count));
    return (int)(seed % 3);
}
