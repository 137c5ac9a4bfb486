/* A process that disturbs memprof while it is attached. Each kind takes and frees blocks of c10 for 2 s, and prints at
 * the end what it did. Being watched must not change that.
 *
 *     guest late C10 DRIVER       loads the driver after 0.5 s
 *     guest close C10 DRIVER      closes the driver after 0.5 s
 *     guest again C10 DRIVER      loads and closes the driver four times
 *     guest first C10             its first thread ends at once
 *     guest firsts C10            its first thread ends after 0.5 s
 *     guest cut C10 FILE          maps FILE, cuts it after 0.5 s, and has frames in it
 *     guest pipe C10 FOLDER       maps a file whose name, as /proc writes it, is that of a pipe
 *     guest swap FILE OTHER       maps FILE, and puts a link to OTHER in its place as soon as somebody opens FILE
 *     guest plant C10 FOLDER FILE KIND  its child makes FOLDER/k.PID.mp a link to FILE, or a KIND of something else
 *     guest flap C10 FILE         maps FILE, and a thread cuts it and writes it again and again
 *     guest dark C10 FILE         maps /dev/zero, too, and is not dumpable after 0.5 s
 *     guest spawn C10 FILE        children of vfork() and of a raw fork come and go after 0.5 s
 *     guest threads C10           starts a thread each 10 ms, whose starter has ended
 *     guest many C10 FOLDER N     loads the N libraries of FOLDER
 *     guest user C10              gives up its rights after 0.5 s
 *     guest children C10 N        forks N children, which work, too
 *     guest die C10               kills itself after 0.5 s
 *     guest memfd C10             loads C10 from a file that has no name
 *     guest gone C10 FOLDER       loads a copy of C10, and removes it
 *     guest traced C10            a child of its traces it
 *     guest filter C10            a filter of seccomp kills it for what it does not use itself
 *     guest renew C10             maps C10's code again at its place after 0.5 s
 *     guest crowd C10 N           N more threads wait
 *     guest root C10 FOLDER       makes FOLDER its root after 0.5 s
 *     guest space C10 FOLDER      hides FOLDER below an empty one in a mount namespace of its own after 0.5 s
 *     guest exec C10              runs itself again after 0.5 s, for the other rounds
 *     guest heir C10              a child does the other rounds after 0.5 s
 *     guest sharer C10            a child that shares its memory does them, and it waits */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 200, PAUSE_US = 10000 };
static char **word;
static void *library, *driver;
static void *(*take)(size_t), *(*report)(void *, void *, size_t);
static void (*give)(void *);
static unsigned char *mapped;
static int file = -1;

static int is(const char *mode)
{
    return !strcmp(word[1], mode);
}

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void *load(const char *path)
{
    void *loaded = dlopen(path, RTLD_NOW);
    if (!loaded) die(dlerror());
    return loaded;
}

/* Calls report() from a frame whose caller seems to be in the mapped file. */
static __attribute__((noinline)) void report_from(void *block, uint64_t caller)
{
    volatile uint64_t frame[2] = {0, caller};
    __asm__ volatile("sub $128, %%rsp\n push %%rbp\n mov %0, %%rbp\n sub $8, %%rsp\n call *%1\n"
                     "add $8, %%rsp\n pop %%rbp\n add $128, %%rsp\n"
                     :
                     : "r"(frame), "r"(report), "D"(&take), "S"(block), "d"(100L)
                     : "memory", "rax", "rcx", "r8", "r9", "r10", "r11");
}

static void one(int round)
{
    void *block = take(100);
    if (mapped && round > 50)
        report_from(block, (uint64_t)mapped + 0x800 + (unsigned)round * 16);
    else
        report(&library, block, 100);
    usleep(PAUSE_US);
    give(block);
}

static void *one_thread(void *starts)
{
    pthread_t next;
    one(0);
    long left = (long)starts;
    if (left) pthread_create(&next, NULL, one_thread, (void *)(left - 1));
    if (left) pthread_detach(next);
    return NULL;
}

/* Cuts the mapped file and restores it, again and again. No code of the file runs meanwhile. */
static void *flap(void *unused)
{
    static char text[1 << 16];
    (void)unused;
    ssize_t size = pread(file, text, sizeof text, 0);
    for (;;) {
        if (ftruncate(file, 0) || usleep(300) || pwrite(file, text, (size_t)size, 0) != size) die("flap");
        usleep(300);
    }
    return NULL;
}

static void spawn(void)
{
    for (int i = 0; i < 20; i++) {
        pid_t child = i % 2 ? vfork() : (pid_t)syscall(SYS_fork);
        if (!child) _exit(0);
        waitpid(child, NULL, 0);
    }
}

static void map_again(void)
{
    char line[4352], perms[8], path[4097];
    unsigned long from, to, at;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %4096s", &from, &to, perms, &at, path) != 5) continue;
        if (perms[2] != 'x' || !strstr(path, "libc10.so")) continue;
        int code = open(path, O_RDONLY);
        if (mmap((void *)from, to - from, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, code, (long)at) == MAP_FAILED)
            die("mmap");
        close(code);
    }
    if (maps) fclose(maps);
}

static void hide(const char *folder)
{
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", folder, "tmpfs", 0, NULL))
        die("mount");
}

static void change(int round)
{
    if (is("renew") && round == 50) map_again();
    if (is("root") && round == 50 && chroot(word[3])) die("chroot");
    if (is("space") && round == 50) hide(word[3]);
    if (is("heir") && round == 50 && fork()) wait(NULL), exit(0);
    if (is("sharer") && round == 50) {
        pid_t child = vfork();
        if (child) waitpid(child, NULL, 0), exit(0);
    }
    if (is("exec") && round == 50) execl(word[0], word[0], "rest", word[2], NULL);
    if (is("late") && round == 50) driver = load(word[3]);
    if (is("close") && round == 50) dlclose(driver);
    if (is("again") && round % 40 == 0) driver = load(word[3]);
    if (is("again") && round % 40 == 20) dlclose(driver);
    if (is("cut") && round == 50 && ftruncate(file, 0)) die("ftruncate");
    if (is("user") && round == 50 && (setgid(65534) || setuid(65534))) die("setuid");
    if (is("die") && round == 50) raise(SIGKILL);
    if (is("dark") && round == 50 && prctl(PR_SET_DUMPABLE, 0)) die("prctl");
    if (is("spawn") && round == 50) spawn();
}

static void *work(void *unused)
{
    (void)unused;
    for (int round = is("rest") ? 50 : 0; round < ROUNDS; round++) {
        change(round);
        one(round);
    }
    printf("%d blocks\n", ROUNDS);
    fflush(stdout);
    if (is("first") || is("firsts")) exit(0);
    if (is("sharer")) _exit(0);
    return NULL;
}

static void *wait_and_work(void *unused)
{
    getchar();
    return work(unused);
}

static void map(const char *path, int how)
{
    file = open(path, how, 0755);
    struct stat facts;
    if (file < 0 || (how & O_CREAT && ftruncate(file, 4096)) || fstat(file, &facts)) die(path);
    mapped = mmap(NULL, facts.st_size ? (size_t)facts.st_size : 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED) die("mmap");
}

static void swap(void)
{
    char old[4096], event[4096];
    snprintf(old, sizeof old, "%s.old", word[2]);
    map(word[2], O_RDONLY);
    int watch = inotify_init1(IN_CLOEXEC);
    inotify_add_watch(watch, word[2], IN_OPEN);
    puts("ready");
    fflush(stdout);
    if (read(watch, event, sizeof event) < 0 || usleep(1000) || rename(word[2], old) || symlink(word[3], word[2]))
        die("swap");
    pause();
}

static void prepare(void)
{
    char path[8192];
    if (is("pipe")) {
        snprintf(path, sizeof path, "%s/x\ny", word[3]);
        map(path, O_RDWR | O_CREAT);
        mapped = NULL;
        snprintf(path, sizeof path, "%s/x\\012y", word[3]);
        if (mkfifo(path, 0600)) die(path);
    }
    pthread_t thread;
    if (is("cut") || is("flap")) map(word[3], O_RDWR);
    if (is("flap")) mapped = NULL, pthread_create(&thread, NULL, flap, NULL);
    if (is("dark")) map("/dev/zero", O_RDWR), mapped = NULL;
    if (is("close")) driver = load(word[3]);
    for (int i = 0; is("many") && i < atoi(word[4]); i++) {
        snprintf(path, sizeof path, "%s/%d.so", word[3], i);
        load(path);
    }
}

static void plant(const char *path)
{
    const char *kind = word[5];
    int failed = !strcmp(kind, "pipe")     ? mkfifo(path, 0666)
                 : !strcmp(kind, "folder") ? mkdir(path, 0777)
                 : !strcmp(kind, "twin")   ? link(word[4], path)
                                           : symlink(word[4], path);
    if (failed) die(path);
}

static void allow_own(void)
{
    static const int own[] = {SYS_clock_nanosleep, SYS_write, SYS_exit_group, SYS_wait4,  SYS_brk,  SYS_newfstatat,
                              SYS_fstat,           SYS_read,  SYS_mmap,       SYS_munmap, SYS_futex};
    struct sock_filter code[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short count = 1;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        code[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)own[i], 0, 1);
        code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {count, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) die("seccomp");
}

static void trace(void)
{
    pid_t traced = getpid();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (fork()) return;
    if (ptrace(PTRACE_SEIZE, traced, NULL, NULL)) _exit(3);
    for (int status; waitpid(traced, &status, __WALL) == traced && WIFSTOPPED(status);)
        ptrace(PTRACE_CONT, traced, NULL, (long)(WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status)));
    _exit(0);
}

static void *wait_for_ever(void *unused)
{
    (void)unused;
    pause();
    return NULL;
}

/* The name of a copy of C10. */
static const char *copy(void)
{
    static char path[4096], bytes[1 << 20];
    int from = open(word[2], O_RDONLY);
    ssize_t size = read(from, bytes, sizeof bytes);
    snprintf(path, sizeof path, "%s/libc10.so", is("gone") ? word[3] : "");
    int to = is("gone") ? open(path, O_RDWR | O_CREAT, 0755) : memfd_create("libc10.so", 0);
    if (size < 0 || write(to, bytes, (size_t)size) != size) die("copy");
    if (is("memfd")) snprintf(path, sizeof path, "/proc/self/fd/%d", to);
    return path;
}

static void begin_children(void)
{
    char path[4096];
    int number = is("children") ? atoi(word[3]) : is("plant");
    for (int i = 0; i < number; i++) {
        if (fork()) continue;
        snprintf(path, sizeof path, "%s/k.%d.mp", word[3], (int)getpid());
        if (is("plant")) plant(path);
        work(NULL);
        _exit(0);
    }
}

int main(int count, char **words)
{
    pthread_t thread;
    word = words;
    if (count < 3) return 2;
    if (is("swap")) swap();
    prepare();
    if (is("traced")) trace();
    library = load(is("memfd") || is("gone") ? copy() : word[2]);
    if (is("gone")) unlink(copy());
    take = (void *(*)(size_t))dlsym(library, "_ZN3c109alloc_cpuEm");
    report = (void *(*)(void *, void *, size_t))dlsym(library, "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm");
    give = (void (*)(void *))dlsym(library, "_ZN3c108free_cpuEPv");
    for (int i = 0; is("crowd") && i < atoi(word[3]); i++)
        pthread_create(&thread, NULL, wait_for_ever, NULL);
    if (is("rest")) return work(NULL) != NULL;
    if (is("filter")) allow_own();
    printf("ready\n");
    fflush(stdout);
    if (is("first")) pthread_create(&thread, NULL, wait_and_work, NULL), pthread_exit(NULL);
    getchar();
    if (is("firsts")) pthread_create(&thread, NULL, work, NULL), usleep(500000), pthread_exit(NULL);
    begin_children();
    if (is("threads")) {
        pthread_create(&thread, NULL, one_thread, (void *)(long)ROUNDS);
        pthread_join(thread, NULL);
    }
    work(NULL);
    while (!is("traced") && wait(NULL) > 0) {
    }
    return 0;
}
