/*
 * Allocates from a pool of its own, and writes a file about its live blocks:
 *
 *     held FILE STEPS PAUSE_US LEAKING [CHILDREN]
 *
 * Each step allocates and frees one block. One site fills a cache in the first ten steps, and with LEAKING 1 another
 * leaks 4096 bytes per step. After STEPS steps it waits until it is killed. CHILDREN do the same, with FILE.1, FILE.2,
 * ...
 */
#include <fcntl.h>
#include <memprof.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

struct reported {
    volatile uint64_t pid, steps, bytes, blocks;
};

static struct reported *reported;
static uint32_t pool;
static uintptr_t next = 4096;

static void *place(size_t bytes)
{
    void *block = (void *)next;
    next += bytes;
    reported->bytes += bytes;
    reported->blocks++;
    return block;
}

static __attribute__((noinline)) void leak_here(void)
{
    memprof_alloc(pool, place(4096), 4096);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void fill_here(void)
{
    memprof_alloc(pool, place(8192), 8192);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void steady_here(void)
{
    memprof_alloc(pool, place(1 << 20), 1 << 20);
    __asm__ volatile("" ::: "memory");
}

static void work(const char *path, unsigned long steps, unsigned long pause_us, int leaking)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *reported)) exit(1);
    reported = mmap(NULL, sizeof *reported, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (reported == MAP_FAILED) exit(1);
    pool = memprof_pool("held", MEMPROF_HOST);
    reported->pid = (uint64_t)getpid();
    steady_here();
    for (unsigned long i = 0; i < steps; i++) {
        memprof_step();
        void *passing = place(65536);
        memprof_alloc(pool, passing, 65536);
        memprof_free(pool, passing);
        reported->bytes -= 65536;
        reported->blocks--;
        if (leaking) leak_here();
        if (i < 10) fill_here();
        reported->steps = i + 1;
        usleep((useconds_t)pause_us);
    }
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc < 5) return 2;
    long children = argc > 5 ? strtol(argv[5], NULL, 10) : 0;
    unsigned long steps = strtoul(argv[2], NULL, 10), pause_us = strtoul(argv[3], NULL, 10);
    for (long i = 1; i <= children; i++) {
        if (fork()) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        snprintf(path, sizeof path, "%s.%ld", argv[1], i);
        work(path, steps, pause_us, 0);
    }
    work(argv[1], steps, pause_us, argv[4][0] == '1');
}
