/*
 * A random hostile program: `soak SEED ACTS PLUGIN`. The output depends only on the seed, which decides acts, order and
 * sizes, so it must be the same recorded or not.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <memprof.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "faults/hostile.h"

static uint64_t state;
static const char *plugin;

static unsigned chance(unsigned below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % below;
}

void hostile_event(void);
void hostile_event(void)
{
    event();
}

/* ---- acts: each a number that only the seed decides ----------------------------------------------------------------
 */

static int plain(void)
{
    return paths(chance(1 << 20), chance(400));
}

static int marks(void)
{
    char name[32];
    for (unsigned i = chance(30); i > 0; i--) {
        snprintf(name, sizeof name, "region %u", chance(10));
        memprof_region_push(name);
        memprof_step();
        memprof_mark(name);
        event();
        memprof_region_pop();
    }
    return 0;
}

static void event_in_handler(int unused)
{
    int saved = errno;
    (void)unused;
    event();
    errno = saved;
}

static int handlers(void)
{
    handle(SIGALRM, event_in_handler, SA_RESTART | (chance(2) ? SA_NODEFER : 0));
    alarms(100 + chance(400));
    int sum = paths(chance(1 << 20), chance(600));
    alarms(0);
    return sum;
}

static int alternate_stacks(void)
{
    size_t bytes = 8192 + chance(8) * 4096;
    char *place = mmap(NULL, 1 << 17, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *end = place + (1 << 17);
    stack_t own = {.ss_sp = end - bytes, .ss_size = bytes}, none = {.ss_flags = SS_DISABLE};
    if (mprotect(own.ss_sp, bytes, PROT_READ | PROT_WRITE) || sigaltstack(&own, NULL)) return -1;
    handle(SIGUSR1, event_in_handler, SA_ONSTACK);
    for (unsigned i = chance(20); i > 0; i--)
        raise(SIGUSR1);
    handle(SIGALRM, event_in_handler, SA_ONSTACK | SA_RESTART);
    alarms(200);
    int sum = paths(chance(1 << 20), chance(300));
    alarms(0);
    sigaltstack(&none, NULL);
    munmap(place, 1 << 17);
    return sum;
}

static sigjmp_buf back;
static volatile sig_atomic_t armed;

static void jump(int unused)
{
    (void)unused;
    if (!armed) return;
    armed = 0;
    siglongjmp(back, 1);
}

static int jumps(void)
{
    volatile unsigned from = chance(1 << 20), rounds = 1 + chance(20);
    handle(SIGALRM, jump, SA_NODEFER);
    alarms(200 + chance(500));
    for (volatile unsigned i = 0; i < rounds; i++) {
        if (!sigsetjmp(back, 1)) {
            armed = 1;
            for (;;)
                paths(from += 16, 16);
        }
    }
    armed = 0;
    alarms(0);
    return (int)rounds;
}

static void *others_from(void *from)
{
    for (unsigned i = (unsigned)(uintptr_t)from; !stop; i += 8)
        paths(i, 8);
    return NULL;
}

static void *victim(void *from)
{
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    return others_from(from);
}

static void exit_thread(int unused)
{
    (void)unused;
    pthread_exit(NULL);
}

static int ends(void)
{
    unsigned by_exit = chance(2), count = 1 + chance(6);
    pthread_t other, thread;
    stop = false;
    handle(SIGUSR2, exit_thread, 0);
    if (!start(&other, others_from, (void *)(uintptr_t)chance(1 << 20))) return -1;
    for (unsigned i = 0; i < count; i++) {
        if (!start(&thread, by_exit ? others_from : victim, (void *)(uintptr_t)chance(1 << 20))) return -1;
        rest(1000L * (300 + chance(700)));
        if (by_exit)
            pthread_kill(thread, SIGUSR2);
        else
            pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    stop = true;
    pthread_join(other, NULL);
    return (int)count;
}

static void *short_thread(void *from)
{
    return (void *)(intptr_t)paths((unsigned)(uintptr_t)from, 4);
}

static int short_threads(void)
{
    int sum = 0;
    for (unsigned i = chance(20); i > 0; i--) {
        pthread_t thread;
        void *result = NULL;
        if (!start(&thread, short_thread, (void *)(uintptr_t)chance(1 << 20))) return -1;
        pthread_join(thread, &result);
        sum += (int)(intptr_t)result;
    }
    return sum;
}

/* A thread on the program's own stack, which is unmapped afterwards. */
static int own_stack_thread(void)
{
    size_t bytes = (size_t)(32 + chance(8) * 16) << 10;
    void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *result = NULL;
    pthread_attr_t own;
    pthread_t thread;
    pthread_attr_init(&own);
    if (pthread_attr_setstack(&own, place, bytes)) return -1;
    mask_alarms(SIG_BLOCK);
    int failed = pthread_create(&thread, &own, short_thread, (void *)(uintptr_t)chance(1 << 20));
    mask_alarms(SIG_UNBLOCK);
    if (!failed) pthread_join(thread, &result);
    munmap(place, bytes);
    return (int)(intptr_t)result;
}

static int forks(void)
{
    unsigned from = chance(1 << 20), how = chance(4);
    stop = false;
    pthread_t other;
    if (!start(&other, others_from, (void *)(uintptr_t)from)) return -1;
    pid_t child = how == 3 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
    if (!child) {
        paths(from, 20);
        if (how == 1 && !fork()) _exit(paths(from, 5) & 1);
        if (how == 1) wait(NULL);
        if (how == 2) execl("/bin/true", "true", (char *)NULL);
        _exit((int)(from & 63));
    }
    int status = status_of(child);
    stop = true;
    pthread_join(other, NULL);
    return status;
}

static int spawns(void)
{
    pid_t child = vfork();
    if (!child) {
        execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        _exit(1);
    }
    return status_of(child);
}

/* A fork in a handler that may have interrupted any code of memprof. */
static volatile sig_atomic_t forked_badly;
static void fork_in_handler(int unused)
{
    int saved = errno;
    (void)unused;
    pid_t child = (pid_t)syscall(SYS_fork);
    if (!child) {
        event();
        syscall(SYS_exit_group, 5);
    }
    if (status_of(child) != 5 << 8) forked_badly = 1;
    errno = saved;
}

static int forks_in_handlers(void)
{
    handle(SIGALRM, fork_in_handler, SA_RESTART);
    alarms(2000);
    int sum = paths(chance(1 << 20), 200);
    alarms(0);
    return sum + 1000000 * forked_badly;
}

static int loads(void)
{
    void *library = dlopen(plugin, RTLD_NOW);
    int result = library != NULL;
    if (library) dlclose(library);
    dlopen("libdoes-not-exist.so", RTLD_NOW);
    paths(chance(1 << 20), 10);
    return result * 2 + (dlerror() != NULL);
}

static ucontext_t main_context, coroutine;

static void run_deep(int depth)
{
    volatile char frame[1000] = {0};
    if (depth)
        run_deep(depth - 1);
    else
        event();
    (void)frame;
}

static int coroutines(void)
{
    const size_t most = 1 << 20;
    char *place = mmap(NULL, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned count = chance(12);
    for (unsigned i = 0; i < count; i++) {
        size_t bytes = (size_t)(32 << chance(6)) << 10;
        mmap(place, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        getcontext(&coroutine);
        coroutine.uc_stack.ss_sp = place;
        coroutine.uc_stack.ss_size = bytes;
        coroutine.uc_link = &main_context;
        makecontext(&coroutine, (void (*)(void))run_deep, 1, (int)chance((unsigned)(bytes - 20480) / 1100));
        swapcontext(&main_context, &coroutine);
    }
    munmap(place, most);
    return (int)count;
}

#include "faults/overflow.h" /* uses `back` and `stop` */

static void *overflow(void *pad)
{
    handle_overflow();
    if (!sigsetjmp(back, 1)) deep(0, (int)(intptr_t)pad);
    event();
    return NULL;
}

static int overflows_stack(void)
{
    pthread_t thread;
    pthread_attr_t small;
    stop = false;
    overflows = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    mask_alarms(SIG_BLOCK);
    int failed = pthread_create(&thread, &small, overflow, (void *)(intptr_t)chance(1000));
    mask_alarms(SIG_UNBLOCK);
    if (!failed) pthread_join(thread, NULL);
    signal(SIGSEGV, SIG_DFL);
    return (int)overflows;
}

static int limits(void)
{
    static const int which[] = {RLIMIT_NOFILE, RLIMIT_STACK, RLIMIT_MEMLOCK};
    int what = which[chance(3)];
    struct rlimit before, low;
    getrlimit((__rlimit_resource_t)what, &before);
    low = before;
    low.rlim_cur = what == RLIMIT_NOFILE ? 3 : 65536;
    setrlimit((__rlimit_resource_t)what, &low);
    int sum = paths(chance(1 << 20), chance(100));
    setrlimit((__rlimit_resource_t)what, &before);
    return sum;
}

static int locks_memory(void)
{
    bool locked = !mlockall(MCL_CURRENT | (chance(2) ? MCL_FUTURE : 0));
    int sum = paths(chance(1 << 20), chance(100));
    munlockall();
    return sum + (locked << 20);
}

static int closes_all(void)
{
    syscall(SYS_close_range, 3U, 1000U, 0U);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    paths(chance(1 << 20), 10);
    if (fd >= 0) close(fd);
    return fd;
}

/* A child in a sandbox that refuses one or two system calls. */
static int sandboxes(void)
{
    static const int refused[] = {SYS_futex,   SYS_mmap,   SYS_mprotect, SYS_rt_sigprocmask, SYS_madvise,
                                  SYS_munlock, SYS_socket, SYS_gettid,   SYS_tgkill,         SYS_process_vm_readv,
                                  SYS_getpid,  SYS_prctl,  SYS_munmap,   SYS_sigaltstack,    SYS_connect,
                                  SYS_recvmsg, SYS_sendto, SYS_mkdir,    SYS_clock_gettime,  SYS_setsockopt};
    unsigned first = (unsigned)refused[chance(sizeof refused / sizeof *refused)];
    unsigned second = (unsigned)refused[chance(sizeof refused / sizeof *refused)];
    unsigned refusal = SECCOMP_RET_ERRNO | (chance(2) ? EPERM : ENOSYS), before = chance(2), from = chance(1 << 20);
    pid_t child = fork();
    if (!child) {
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, refusal), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
        if (before) event();
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(77);
        paths(from, 2000);
        _exit(3);
    }
    return status_of(child);
}

static int asks(void)
{
    struct memprof_stats stats;
    for (unsigned i = chance(5); i > 0; i--)
        memprof_stats(NULL, &stats);
    event();
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} acts[] = {{"plain", plain},
            {"marks", marks},
            {"handlers", handlers},
            {"alternate stacks", alternate_stacks},
            {"jumps", jumps},
            {"ends", ends},
            {"short threads", short_threads},
            {"own stack", own_stack_thread},
            {"forks", forks},
            {"spawns", spawns},
            {"forks in handlers", forks_in_handlers},
            {"loads", loads},
            {"coroutines", coroutines},
            {"overflows", overflows_stack},
            {"limits", limits},
            {"locks memory", locks_memory},
            {"closes all", closes_all},
            {"sandboxes", sandboxes},
            {"asks", asks}};

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    state = strtoull(argv[1], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    chance(1);
    plugin = argv[3];
    setvbuf(stdout, NULL, _IOLBF, 0);
    pool = memprof_pool("soak", -1);
    for (int i = atoi(argv[2]); i > 0; i--) {
        unsigned act = chance(sizeof acts / sizeof *acts);
        printf("%s: %d\n", acts[act].name, acts[act].run());
    }
    return 0;
}
