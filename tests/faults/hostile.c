/*
 * Programs that do what a profiler does not expect, one mode each: `hostile MODE [NUMBER...]`. Each does the same
 * whether it is recorded or not. At the end it prints "calls N", the least number of events that it made, and "begun
 * N", the most. Exit status 0 if everything went as without a recorder.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <memprof.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "faults/hostile.h"

static long numbers[4];

/* ---- handlers ------------------------------------------------------------------------------------------------- */

static void mark_in_handler(int unused)
{
    (void)unused;
    begun++;
    memprof_mark("tick");
    calls++;
}

/* The first event attaches; handlers make events meanwhile. */
static int attach_under_alarms(void)
{
    memprof_api_();
    handle(SIGALRM, mark_in_handler, SA_RESTART);
    alarms(100);
    for (int i = 0; i < 40; i++)
        mark_in_handler(0), rest(2000000);
    alarms(0);
    return 0;
}

static void event_in_handler(int unused)
{
    (void)unused;
    event();
}

/* Handlers on the thread's alternate stack, at a higher or lower address than the thread's own stack. */
static int events_under_alarms(void)
{
    stack_t own = {.ss_size = 65536};
    own.ss_sp = numbers[0] ? malloc(own.ss_size) : alloca(own.ss_size);
    if (sigaltstack(&own, NULL)) return 1;
    handle(SIGALRM, event_in_handler, SA_RESTART | SA_ONSTACK);
    alarms(100);
    for (unsigned i = 0; i < 20000; i++)
        path(i * 2654435761U >> 8, 12);
    alarms(0);
    return 0;
}

/* ---- hooks that are left by a jump ---------------------------------------------------------------------------- */

static sigjmp_buf back;
static volatile sig_atomic_t armed;
static volatile long jumps;

static void jump(int unused)
{
    (void)unused;
    if (!armed) return;
    armed = 0;
    jumps++;
    siglongjmp(back, 1);
}

static void jump_for(double seconds)
{
    struct timespec begin, now;
    volatile unsigned i = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    handle(SIGALRM, jump, SA_NODEFER);
    alarms(1000);
    do {
        if (!sigsetjmp(back, 1)) {
            armed = 1;
            for (int round = 0; round < 512; round++)
                path(i++, 12);
            armed = 0;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
    armed = 0;
    alarms(0);
}

/* For 1.5 s, or that many seconds. Meanwhile NUMBER other threads make new paths. */
static int jumps_out(void)
{
    pthread_t threads[8];
    for (long i = 0; i < numbers[0]; i++)
        if (!start(&threads[i], others, NULL)) return 1;
    jump_for(numbers[1] ? (double)numbers[1] : 1.5);
    stop = true;
    for (long i = 0; i < numbers[0]; i++)
        pthread_join(threads[i], NULL);
    return jumps == 0;
}

/* Recording continues after a jump out of a hook: in deeper calls, in a child, and in later threads. */
static int jumps_out_and_goes_on(void)
{
    int status = 0;
    jump_for(0.5);
    pid_t child = fork();
    if (!child) {
        for (unsigned i = 0; i < 100; i++)
            path(i, 14);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || status) return 1;
    pthread_t thread;
    stop = false;
    if (!start(&thread, others, NULL)) return 1;
    rest(100000000);
    stop = true;
    pthread_join(thread, NULL);
    return 0;
}

/* Threads jump out of hooks and never call one again, while others go on. */
static __thread sigjmp_buf own_back;
static __thread volatile sig_atomic_t own_armed;
static pthread_barrier_t all_out;
static _Atomic int out;

static void own_jump(int unused)
{
    (void)unused;
    if (own_armed) siglongjmp(own_back, 1);
}

static void *jump_once(void *number)
{
    volatile unsigned i = (unsigned)(uintptr_t)number * 1000003;
    if (!sigsetjmp(own_back, 1)) {
        own_armed = 1;
        for (;;)
            path(i++, 12);
    }
    own_armed = 0;
    out++;
    pthread_barrier_wait(&all_out);
    pthread_barrier_wait(&all_out);
    return NULL;
}

static int jumps_out_for_ever(void)
{
    enum { LEAVING = 40 };
    pthread_t leaving[LEAVING], thread;
    handle(SIGUSR1, own_jump, 0);
    pthread_barrier_init(&all_out, NULL, LEAVING + 1);
    for (uintptr_t i = 0; i < LEAVING; i++) {
        if (pthread_create(&leaving[i], NULL, jump_once, (void *)i)) return 1;
        rest(1500000 + (long)(i * 7919 % 1000000));
        pthread_kill(leaving[i], SIGUSR1);
    }
    /* try again with a thread that was not ready yet */
    for (int i = 0; out < LEAVING; i = (i + 1) % LEAVING) {
        rest(1000000);
        pthread_kill(leaving[i], SIGUSR1);
    }
    pthread_barrier_wait(&all_out);
    if (!start(&thread, others, NULL)) return 1;
    rest(300000000);
    stop = true;
    pthread_join(thread, NULL);
    pthread_barrier_wait(&all_out);
    for (int i = 0; i < LEAVING; i++)
        pthread_join(leaving[i], NULL);
    return 0;
}

static void exit_thread(int unused)
{
    (void)unused;
    pthread_exit(NULL);
}

static void *victim(void *number)
{
    int old;
    if (!numbers[0]) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    for (unsigned i = (unsigned)(uintptr_t)number * 1000003; !stop;)
        path(i += 7, 12);
    return NULL;
}

/* Threads end inside of a hook: cancelled, or by pthread_exit() in a handler. */
static int ends_threads(void)
{
    pthread_t other;
    handle(SIGUSR1, exit_thread, 0);
    if (!start(&other, others, NULL)) return 1;
    for (long i = 0; i < 150; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, victim, (void *)i)) return 1;
        rest(1500000 + i * 7919 % 1000000);
        if (numbers[0])
            pthread_kill(thread, SIGUSR1);
        else
            pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    stop = true;
    pthread_join(other, NULL);
    return 0;
}

#include "faults/overflow.h" /* uses `back` and `stop` */

/* A stack overflow, recovered by a handler on an alternate stack, ten times. */
static void *overflow(void *unused)
{
    (void)unused;
    handle_overflow();
    for (volatile int k = 0; k < 10; k++)
        if (!sigsetjmp(back, 1)) deep(0, k * 37);
    return NULL;
}

static int overflows_stack(void)
{
    pthread_t thread, other;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    if (!start(&other, others, NULL) || pthread_create(&thread, &small, overflow, NULL)) return 1;
    pthread_join(thread, NULL);
    stop = true;
    pthread_join(other, NULL);
    return overflows != 10;
}

/* Asks for statistics, and leaves the call by a jump. */
static void *ask(void *unused)
{
    (void)unused;
    struct memprof_stats stats;
    while (!stop)
        memprof_stats(NULL, &stats);
    return NULL;
}

static int jumps_out_of_questions(void)
{
    pthread_t other;
    struct memprof_stats stats;
    if (!start(&other, ask, NULL)) return 1;
    handle(SIGALRM, jump, SA_NODEFER);
    alarms(1000);
    for (volatile int i = 0; i < 200; i++) {
        if (!sigsetjmp(back, 1)) {
            armed = 1;
            for (;;)
                memprof_stats(NULL, &stats);
        }
    }
    alarms(0);
    stop = true;
    pthread_join(other, NULL);
    event();
    return 0;
}

/* ---- the loader ----------------------------------------------------------------------------------------------- */

void hostile_event(void);
void hostile_event(void)
{
    event();
}

/* With NUMBER the plug-in's thread makes the very first events. */
static int loads_plugin(const char *path)
{
    if (!numbers[0]) event();
    return !dlopen(path, RTLD_NOW);
}

/* dlerror()'s text after the program's own call failed must be the program's. */
static int asks_for_errors(void)
{
    int lost = 0;
    for (int i = 0; i < 3000; i++) {
        if (dlopen("libdoes-not-exist.so", RTLD_NOW)) return 1;
        path((unsigned)i, 12);
        atomic_fetch_add(&begun, 1);
        memprof_mark("between");
        atomic_fetch_add(&calls, 1);
        lost += !dlerror();
    }
    return lost;
}

/* ---- stacks --------------------------------------------------------------------------------------------------- */

static ucontext_t main_context, coroutine;

static void run_deep(int depth)
{
    volatile char frame[2000] = {0};
    if (depth)
        run_deep(depth - 1);
    else
        event();
    (void)frame;
}

/* Coroutines whose stacks have the same addresses: first a large one that is unmapped, then a small one. */
static int stacks_that_shrink(void)
{
    const size_t large = 1 << 20, small = 64 << 10;
    char *place = mmap(NULL, large, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 40; i++) {
        size_t bytes = i % 2 ? small : large;
        mmap(place, large, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        getcontext(&coroutine);
        coroutine.uc_stack.ss_sp = place;
        coroutine.uc_stack.ss_size = bytes;
        coroutine.uc_link = &main_context;
        makecontext(&coroutine, (void (*)(void))run_deep, 1, i % 2 ? 3 : 400);
        swapcontext(&main_context, &coroutine);
    }
    return 0;
}

#if defined(__x86_64__)
/* The same with stacks made by hand, as in many runtimes. The entry's return address is the start of a function, and no
 * frame rule is right there. */
static void *main_stack, *coroutine_stack;
void hostile_switch(void **save, void *to);
__asm__(".text\n"
        ".globl hostile_switch\n"
        ".type hostile_switch,@function\n"
        "hostile_switch:\n"
        " push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        " mov %rsp,(%rdi)\n mov %rsi,%rsp\n"
        " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
        ".size hostile_switch,.-hostile_switch\n");

NOINLINE __attribute__((used)) static void after_entry(void)
{
    void *unused;
    hostile_switch(&unused, main_stack);
}

static int depth;
static void entry(void)
{
    run_deep(depth);
    hostile_switch(&coroutine_stack, main_stack);
}

static void *run_on(void *top)
{
    void **stack = top;
    *--stack = numbers[0] ? (char *)(void *)run_deep + 20 : (char *)(void *)after_entry;
    *--stack = (void *)entry;
    stack -= 6;
    memset(stack, 0, 6 * sizeof *stack);
    hostile_switch(&main_stack, stack);
    return NULL;
}

static int stacks_by_hand(void)
{
    const size_t large = 1 << 20, small = 256 << 10;
    char *place = mmap(NULL, large, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 20; i++) {
        mmap(place, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        depth = 400;
        run_on(place + large - 8192);
        mmap(place, large, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        mmap(place, small, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        depth = 2;
        run_on(place + small);
    }
    return 0;
}
#else
static int stacks_by_hand(void)
{
    return 0;
}
#endif

/* A handler on an alternate stack of NUMBER bytes with an unmapped page below. The handler may make the event that
 * attaches. */
static int small_alternate_stack(void)
{
    size_t bytes = (size_t)numbers[0];
    char *place = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *end = place + (1 << 20);
    stack_t own = {.ss_sp = end - bytes, .ss_size = bytes};
    if (mprotect(own.ss_sp, bytes, PROT_READ | PROT_WRITE) || sigaltstack(&own, NULL)) return 1;
    handle(SIGUSR1, numbers[1] ? mark_in_handler : event_in_handler, SA_ONSTACK);
    for (int i = 0; i < 100; i++)
        raise(SIGUSR1);
    return 0;
}

/* NUMBER regions, each with a unique long name. */
static int many_names(void)
{
    char name[256];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (long i = 0; i < numbers[0]; i++) {
        name[snprintf(name, sizeof name, "%ld", i)] = 'y';
        memprof_region_push(name);
        event();
        memprof_region_pop();
    }
    return 0;
}

/* ---- limits --------------------------------------------------------------------------------------------------- */

/* Prints the kernel's memory figures of this process, in KiB. */
static void print_memory(void)
{
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "VmSize", 6) || !strncmp(line, "VmRSS", 5) || !strncmp(line, "RssShmem", 8))
            fputs(line, stdout);
    if (status) fclose(status);
}

/* NUMBER 0: no event, memory not locked. 1: all memory is locked. 2: it is locked after an event. */
static int memory(void)
{
    if (numbers[0] == 2) mark_in_handler(0);
    if (numbers[0] && mlockall(MCL_CURRENT | MCL_FUTURE)) return 77;
    print_memory();
    return 0;
}

static pthread_barrier_t holding;

static void *hold(void *unused)
{
    event();
    pthread_barrier_wait(&holding);
    pthread_barrier_wait(&holding);
    return unused;
}

static void *short_thread(void *unused)
{
    event();
    return unused;
}

/* More threads at once than rings, then further threads one after the other. */
static int many_threads(void)
{
    enum { HELD = 120, SHORT = 100 };
    pthread_t held[HELD], thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&holding, NULL, HELD + 1);
    for (int i = 0; i < HELD; i++)
        if (pthread_create(&held[i], &small, hold, NULL)) return 1;
    pthread_barrier_wait(&holding);
    for (int i = 0; i < SHORT; i++) {
        if (pthread_create(&thread, &small, short_thread, NULL)) return 1;
        pthread_join(thread, NULL);
    }
    pthread_barrier_wait(&holding);
    for (int i = 0; i < HELD; i++)
        pthread_join(held[i], NULL);
    return 0;
}

/* A sandbox that refuses all calls that a plain program does not need (with errno NUMBER). Then each event has a new
 * path.
 */
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static int sandbox(void)
{
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   ALLOW(read),
                                   ALLOW(write),
                                   ALLOW(exit_group),
                                   ALLOW(exit),
                                   ALLOW(brk),
                                   ALLOW(munmap),
                                   ALLOW(newfstatat),
                                   ALLOW(fstat),
                                   ALLOW(rt_sigreturn),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)numbers[0])};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 77;
    for (unsigned i = 0; i < 40000; i++)
        path(i * 2654435761U >> 8, 12);
    return 0;
}

/* In this sandbox every other call kills: allowed are the calls that the arguments name, for hooks, and those of the
 * program itself. */
static const struct {
    const char *name;
    unsigned number;
} calls_known[] = {
#define CALL(name)                                                                                                     \
    {                                                                                                                  \
#        name, SYS_##name                                                                                              \
    }
    CALL(rmdir),   CALL(futex),      CALL(rt_sigprocmask), CALL(sigaltstack),      CALL(mmap),       CALL(mprotect),
    CALL(mremap),  CALL(munlock),    CALL(munmap),         CALL(madvise),          CALL(getpid),     CALL(gettid),
    CALL(tgkill),  CALL(prctl),      CALL(socket),         CALL(setsockopt),       CALL(connect),    CALL(sendto),
    CALL(recvmsg), CALL(close),      CALL(mkdir),          CALL(process_vm_readv), CALL(getsockopt), CALL(geteuid),
    CALL(fstat),   CALL(newfstatat), CALL(fcntl)
#undef CALL
};

static void *calls_of_thread(void *unused)
{
    for (unsigned i = 0; i < 3000; i++)
        path(i * 40503U << 4, 12);
    return unused;
}

static int only_these_calls(int count, char **names)
{
    static const unsigned own[] = {SYS_write,           SYS_exit_group, SYS_exit,       SYS_rt_sigreturn,
                                   SYS_rt_sigaction,    SYS_clone3,     SYS_clone,      SYS_rseq,
                                   SYS_set_robust_list, SYS_setitimer,  SYS_newfstatat, SYS_brk};
    static struct sock_filter filter[256];
    unsigned short used = 0;
    filter[used++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < (size_t)count + sizeof own / sizeof *own; i++) {
        unsigned number = i >= (size_t)count ? own[i - (size_t)count] : UINT32_MAX;
        for (size_t known = 0; i < (size_t)count && known < sizeof calls_known / sizeof *calls_known; known++)
            if (!strcmp(names[i], calls_known[known].name)) number = calls_known[known].number;
        if (number == UINT32_MAX) return 2;
        filter[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
        filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {used, filter};
    stack_t alternate = {.ss_size = 65536, .ss_sp = malloc(65536)};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 77;
    sigaltstack(&alternate, NULL);
    if (!pool) pool = memprof_pool("hostile", -1);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (!start(&threads[i], calls_of_thread, NULL)) return 1;
    handle(SIGALRM, event_in_handler, SA_RESTART | SA_ONSTACK);
    alarms(300);
    for (unsigned i = 0; i < 30000; i++)
        path(i * 2654435761U >> 8, 12);
    alarms(0);
    jump_for(0.3);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("calls %ld begun %ld\n", calls, begun);
    return 0;
}

/* The kernel ends a thread that reads the processor's counter now. */
static int without_counter(void)
{
    for (int i = 0; i < 200; i++) {
        if (i == 100 && prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) return 1;
        event();
    }
    return 0;
}

/* Only read(), write(), sigreturn() and exit() are left to this thread. */
static void *restrained(void *unused)
{
    (void)unused;
    for (int i = 0; i < 200; i++) {
        if (i == 100 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) break;
        event();
    }
    __asm__ volatile("syscall" : : "a"(SYS_exit), "D"(0) : "rcx", "r11", "memory");
    return unused;
}

static int strict_thread(void)
{
    pthread_t thread;
    if (!start(&thread, restrained, NULL)) return 1;
    pthread_join(thread, NULL);
    event();
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
    bool attaches_itself;
} modes[] = {
    {"attach-under-alarms", attach_under_alarms, true},
    {"events-under-alarms", events_under_alarms, false},
    {"jumps-out", jumps_out, false},
    {"jumps-out-and-goes-on", jumps_out_and_goes_on, false},
    {"jumps-out-for-ever", jumps_out_for_ever, false},
    {"jumps-out-of-questions", jumps_out_of_questions, false},
    {"ends-threads", ends_threads, false},
    {"overflows-stack", overflows_stack, false},
    {"memory", memory, true},
    {"many-names", many_names, false},
    {"many-threads", many_threads, false},
    {"sandbox", sandbox, false},
    {"sandbox-before", sandbox, true},
    {"asks-for-errors", asks_for_errors, false},
    {"without-counter", without_counter, false},
    {"strict-thread", strict_thread, false},
    {"stacks-that-shrink", stacks_that_shrink, false},
    {"stacks-by-hand", stacks_by_hand, false},
    {"small-alternate-stack", small_alternate_stack, false},
    {"attach-on-alternate-stack", small_alternate_stack, true},
};

int main(int argc, char **argv)
{
    for (int i = 2; i < argc && i < 6; i++)
        numbers[i - 2] = atol(argv[i]);
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i].name, argv[1]) != 0) continue;
        if (!modes[i].attaches_itself) pool = memprof_pool("hostile", -1);
        int failed = modes[i].run();
        printf("calls %ld begun %ld\n", calls, begun);
        return failed;
    }
    if (argc > 3 && !strcmp(argv[1], "only-these-calls")) {
        if (atol(argv[2])) pool = memprof_pool("hostile", -1);
        return only_these_calls(argc - 3, argv + 3);
    }
    if (argc == 4 && !strcmp(argv[1], "loads-plugin")) {
        numbers[0] = atol(argv[2]);
        pool = memprof_pool("hostile", -1);
        int failed = loads_plugin(argv[3]);
        printf("calls %ld begun %ld\n", calls, begun);
        return failed;
    }
    fprintf(stderr, "hostile: no such mode\n");
    return 2;
}
