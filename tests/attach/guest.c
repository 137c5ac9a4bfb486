/* A process that does what memprof does not expect of a process that it is attached to. Each takes and frees blocks of
 * c10 for 2 s, and prints at the end what it did: no way of being watched may change that.
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
 *     guest die C10               kills itself after 0.5 s */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

/* What a library looks like meanwhile is all the same: nothing runs in it. */
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

static void change(int round)
{
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
    for (int round = 0; round < ROUNDS; round++) {
        change(round);
        one(round);
    }
    printf("%d blocks\n", ROUNDS);
    fflush(stdout);
    if (is("first") || is("firsts")) exit(0);
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
    library = load(word[2]);
    take = (void *(*)(size_t))dlsym(library, "_ZN3c109alloc_cpuEm");
    report = (void *(*)(void *, void *, size_t))dlsym(library, "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm");
    give = (void (*)(void *))dlsym(library, "_ZN3c108free_cpuEPv");
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
    while (wait(NULL) > 0) {
    }
    return 0;
}
