/*
 * Programs that treat their own process roughly: `rough MODE [ARGUMENT]`. The output depends only on the arguments, so
 * it is the same recorded or not.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <memprof.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "faults/hostile.h"

static const char *argument;

static pthread_t busy[3];
static void make_busy(void)
{
    stop = false;
    for (size_t i = 0; i < sizeof busy / sizeof *busy; i++)
        if (!start(&busy[i], others, NULL)) exit(9);
}

static void end_busy(void)
{
    stop = true;
    for (size_t i = 0; i < sizeof busy / sizeof *busy; i++)
        pthread_join(busy[i], NULL);
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

static int vforks(void)
{
    volatile int sum = 0;
    make_busy();
    for (volatile int i = 0; i < 40; i++) {
        pid_t child = vfork();
        if (!child) {
            memprof_mark("in a child that shares all memory");
            if (i % 3) execl(i % 3 == 1 ? "/bin/true" : "/does/not/exist", "true", (char *)NULL);
            _exit(3);
        }
        sum += status_of(child);
        char name[] = "true", *const arguments[] = {name, NULL}, *const environment[] = {NULL};
        if (!posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environment)) sum += status_of(child);
    }
    end_busy();
    return sum;
}

static int in_clone(void *unused)
{
    (void)unused;
    event();
    _exit(5);
}

static int clones(void)
{
    int sum = 0;
    make_busy();
    for (int i = 0; i < 60; i++) {
        char *stack = malloc(65536);
        sum += status_of(clone(in_clone, stack + 65536, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
        free(stack);
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (!child) {
            event();
            syscall(SYS_exit_group, 2);
        }
        sum += status_of(child);
    }
    end_busy();
    return sum;
}

static int forks_under_load(void)
{
    int sum = 0;
    make_busy();
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (!child) {
            event();
            if (i % 4 == 0 && !fork()) _exit(0);
            if (i % 5 == 0) {
                make_busy();
                end_busy();
            }
            if (i % 7 == 0) execl("/bin/true", "true", (char *)NULL);
            _exit(2);
        }
        sum += status_of(child);
    }
    end_busy();
    return sum;
}

static int generations(int left)
{
    event();
    if (!left) return 0;
    pid_t child = fork();
    if (!child) _exit(generations(left - 1) + 1);
    return WEXITSTATUS(status_of(child));
}

static int deep_forks(void)
{
    return generations(10);
}

static int execs(void)
{
    int left = argument ? atoi(argument) : 0;
    event();
    if (!left) return 0;
    char text[16];
    snprintf(text, sizeof text, "%d", left - 1);
    execl("/proc/self/exe", "rough", "execs", text, (char *)NULL);
    return -1;
}

static int empty_environments(void)
{
    int sum = 0;
    event();
    for (int i = 0; i < 2; i++) {
        char name[] = "rough", *const arguments[] = {i ? NULL : name, NULL}, *const environment[] = {NULL};
        pid_t child = fork();
        if (!child) {
            execve("/proc/self/exe", arguments, environment);
            _exit(9);
        }
        sum = sum * 10 + WEXITSTATUS(status_of(child));
    }
    return sum;
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

static void *short_thread(void *unused)
{
    event();
    return unused;
}

static int waves_of_threads(void)
{
    int sum = 0;
    for (int wave = 0; wave < 4; wave++) {
        pthread_t threads[130];
        int count = 0;
        for (int i = 0; i < 130; i++)
            count += !pthread_create(&threads[count], NULL, short_thread, NULL);
        for (int i = 0; i < count; i++)
            pthread_join(threads[i], NULL);
        sum += count;
    }
    return sum;
}

static pthread_key_t key;
static void at_end_of_thread(void *round)
{
    event();
    if ((uintptr_t)round < 4) pthread_setspecific(key, (void *)((uintptr_t)round + 1));
}

static void *with_destructor(void *unused)
{
    pthread_setspecific(key, (void *)1);
    event();
    return unused;
}

static int destructors(void)
{
    pthread_t thread;
    if (pthread_key_create(&key, at_end_of_thread)) return -1;
    for (int i = 0; i < 100; i++)
        if (start(&thread, with_destructor, NULL)) pthread_join(thread, NULL);
    return 0;
}

static void *until_cancelled(void *unused)
{
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    for (unsigned i = 0;; i += 77)
        path(i, 12);
    return unused;
}

static int cancels(void)
{
    pthread_t thread;
    make_busy();
    for (int i = 0; i < 40; i++) {
        if (!start(&thread, until_cancelled, NULL)) return -1;
        usleep((useconds_t)(300 + i * 13));
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    end_busy();
    return 0;
}

static int at_exit(void)
{
    atexit(event);
    event();
    return 0;
}

__attribute__((destructor)) static void last_of_all(void)
{
    if (pool) event();
}

/* ---- stacks ----------------------------------------------------------------------------------------------------- */

static char stacks[2][65536];
static volatile int swaps;

static void swap_stacks(int unused)
{
    int saved = errno;
    (void)unused;
    event();
    stack_t next = {.ss_sp = stacks[swaps++ & 1], .ss_size = sizeof *stacks};
    sigaltstack(&next, NULL);
    event();
    errno = saved;
}

/* The handler that runs on the alternate stack installs another alternate stack. */
static int alternate_stacks(void)
{
    const unsigned disarmed_in_handlers = 1U << 31;
    stack_t own = {.ss_sp = stacks[0], .ss_size = sizeof *stacks, .ss_flags = (int)disarmed_in_handlers};
    if (sigaltstack(&own, NULL)) return -1;
    handle(SIGALRM, swap_stacks, SA_ONSTACK | SA_RESTART);
    alarms(150);
    int sum = paths(0, 20000);
    alarms(0);
    return sum;
}

/* Green threads that a timer pre-empts at any moment; each continues later. */
enum { GREEN = 6 };
static ucontext_t green[GREEN], green_main;
static char green_stacks[GREEN][1 << 18];
static volatile int running, ended;
static long sums[GREEN];

static void preempt(int unused)
{
    (void)unused;
    int from = running;
    for (int i = 1; i < GREEN; i++) {
        int next = (from + i) % GREEN;
        if (ended >> next & 1) continue;
        running = next;
        swapcontext(&green[from], &green[next]);
        return;
    }
}

static void run_green(int number)
{
    mask_alarms(SIG_UNBLOCK); /* only here: during a switch an alarm would confuse the two threads */
    for (unsigned i = 0; i < 3000; i++)
        sums[number] += path((i * GREEN + (unsigned)number) * 2654435761U >> 8, 12);
    mask_alarms(SIG_BLOCK);
    ended |= 1 << number;
    for (int i = 0; i < GREEN; i++) {
        if (ended >> i & 1) continue;
        running = i;
        setcontext(&green[i]);
    }
    setcontext(&green_main);
}

static int green_threads(void)
{
    long sum = 0;
    mask_alarms(SIG_BLOCK);
    handle(SIGALRM, preempt, SA_RESTART);
    for (int i = 0; i < GREEN; i++) {
        getcontext(&green[i]);
        green[i].uc_stack.ss_sp = green_stacks[i];
        green[i].uc_stack.ss_size = sizeof *green_stacks;
        makecontext(&green[i], (void (*)(void))run_green, 1, i);
    }
    alarms(400);
    swapcontext(&green_main, &green[0]);
    alarms(0);
    for (int i = 0; i < GREEN; i++)
        sum += sums[i];
    return (int)(sum & 0xffffff);
}

/* Code that is unloaded while it is on the stack (rough_plugin.c). */
static sigjmp_buf back;
static void unload_caller(void *library)
{
    for (int i = 0; i < 50; i++)
        event();
    dlclose(library);
    paths(0, 200);
    siglongjmp(back, 1);
}

static int unloaded_code(void)
{
    void *library = dlopen(argument, RTLD_NOW);
    int (*call_back)(void (*)(void *), void *);
    void *found = library ? dlsym(library, "call_back") : NULL;
    if (!found) return -1;
    memcpy(&call_back, &found, sizeof call_back);
    return sigsetjmp(back, 1) ? 0 : call_back(unload_caller, library);
}

/* Code without frame rules that uses the frame pointer for something else. The value in it looks like a frame of a
 * library that another thread loads and unloads. */
static _Atomic uintptr_t stale;

static void *unload_again_and_again(void *unused)
{
    for (int i = 0; i < 3000; i++) {
        void *library = dlopen(argument, RTLD_NOW);
        void *found = library ? dlsym(library, "call_back") : NULL;
        if (!found) exit(8);
        stale = (uintptr_t)found + 1;
        dlclose(library);
    }
    stop = true;
    return unused;
}

static int stale_frames(void)
{
#if defined(__x86_64__)
    /* push %rbp; mov %rsi,%rbp; call *%rdi; pop %rbp; ret */
    static const unsigned char bytes[] = {0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x5d, 0xc3};
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return -1;
    memcpy(page, bytes, sizeof bytes);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    void (*call)(void (*)(void), void *);
    memcpy(&call, &page, sizeof page);
    pthread_t other;
    event();
    if (!start(&other, unload_again_and_again, NULL)) return -1;
    while (!stop) {
        uintptr_t frame[2] = {0, stale};
        call(event, frame);
    }
    pthread_join(other, NULL);
#endif
    return 0;
}

/* ---- what belongs to the process ------------------------------------------------------------------------------ */

static int closed_files(void)
{
    event();
    syscall(SYS_close_range, 3U, ~0U, 0U);
    paths(0, 2000);
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int not_dumpable(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    int sum = paths(0, 2000);
    pid_t child = fork();
    if (!child) {
        event();
        _exit(4);
    }
    return sum + status_of(child);
}

static int no_large_files(void)
{
    struct rlimit none = {0, 0};
    event();
    setrlimit(RLIMIT_FSIZE, &none);
    paths(0, 5000);
    return 0;
}

static int folder_that_is_gone(void)
{
    char folder[] = "/tmp/memprof-rough-XXXXXX";
    event();
    if (!mkdtemp(folder) || chdir(folder) || rmdir(folder)) return -1;
    int sum = paths(0, 2000);
    memprof_snapshot("in-it.mp");
    return sum;
}

static const struct {
    const char *name;
    int (*run)(void);
} modes[] = {{"vforks", vforks},
             {"clones", clones},
             {"forks-under-load", forks_under_load},
             {"deep-forks", deep_forks},
             {"execs", execs},
             {"empty-environments", empty_environments},
             {"waves-of-threads", waves_of_threads},
             {"destructors", destructors},
             {"cancels", cancels},
             {"at-exit", at_exit},
             {"alternate-stacks", alternate_stacks},
             {"green-threads", green_threads},
             {"unloaded-code", unloaded_code},
             {"stale-frames", stale_frames},
             {"closed-files", closed_files},
             {"not-dumpable", not_dumpable},
             {"no-large-files", no_large_files},
             {"folder-that-is-gone", folder_that_is_gone}};

int main(int argc, char **argv)
{
    pool = memprof_pool("rough", -1);
    if (argc < 2) return 7;
    argument = argv[2];
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i].name, argv[1]) != 0) continue;
        printf("%s: %d\n", argv[1], modes[i].run());
        return 0;
    }
    return 2;
}
