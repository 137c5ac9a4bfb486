/* A program to attach to: a service without steps. The arguments are its rounds, their number per second, and its work.
 * It works, and its rounds begin when its standard input has a line or its end. At the end it prints what it did in
 * them, and whether anything was disturbed.
 *
 *     service LIBRARY c10 ROUNDS RATE    takes and frees blocks on two threads by c10's functions of that library, and
 *                                        keeps one of each ten
 *     service LIBRARY many ROUNDS RATE   the same on 150 threads
 *     service LIBRARY cuda ROUNDS RATE   takes blocks of CUDA's driver, and forgets to free one of each five */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long rounds, rate;
static void *(*take)(size_t), *(*report)(void *, void *, size_t);
static void (*give)(void *);
static int (*cuda_take)(uint64_t *, size_t), (*cuda_give)(uint64_t);
static _Atomic long takes, gives;
static _Atomic uint64_t sum;
static __thread struct {
    long takes, gives;
    uint64_t sum;
} own;

static bool may_begin(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

static void pace(const struct timespec *begun, long round)
{
    struct timespec at = *begun;
    at.tv_sec += round / rate;
    at.tv_nsec += round % rate * (1000000000 / rate);
    if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static __attribute__((noinline)) void keep_request(long round)
{
    size_t bytes = 1000 + (size_t)round % 7;
    memset(report(&sum, take(bytes), bytes), 1, 1000), own.takes++;
}

static __attribute__((noinline)) void answer_request(long round)
{
    size_t bytes = 64 + (size_t)round % 5;
    unsigned char *block = report(&sum, take(bytes), bytes);
    own.takes++;
    memset(block, (int)round, 64);
    own.sum += block[round % 64];
    give(block), own.gives++;
}

static void work(const struct timespec *begun, long round)
{
    pace(begun, round);
    answer_request(round);
    if (round % 10 == 0) keep_request(round);
}

static void *serve(void *unused)
{
    struct timespec begun;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (long i = 0; i % 10 || !may_begin(); i++)
        work(&begun, i);
    memset(&own, 0, sizeof own);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (long i = 0; i < rounds; i++)
        work(&begun, i);
    takes += own.takes, gives += own.gives, sum += own.sum;
    return unused;
}

static __attribute__((noinline)) uint64_t forget_buffer(void)
{
    uint64_t buffer = 0;
    cuda_take(&buffer, 3 << 20); /* the leak */
    return buffer;
}

static void serve_cuda(void)
{
    struct timespec begun;
    while (!may_begin())
        usleep(1000);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (long i = 0; i < rounds; i++) {
        uint64_t buffer = 0;
        pace(&begun, i);
        if (cuda_take(&buffer, 1 << 20) || cuda_give(buffer)) abort();
        takes++, gives++;
        if (i % 5 == 0) sum += !!forget_buffer(), takes++;
    }
}

static void begin_cuda(void *library)
{
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(library, "cuDevicePrimaryCtxRetain");
    int (*make_current)(void *) = (int (*)(void *))dlsym(library, "cuCtxSetCurrent");
    void *context;
    cuda_take = (int (*)(uint64_t *, size_t))dlsym(library, "cuMemAlloc_v2");
    cuda_give = (int (*)(uint64_t))dlsym(library, "cuMemFree_v2");
    if (init(0) || retain(&context, 0) || make_current(context)) abort();
}

int main(int count, char **words)
{
    void *library = count == 5 ? dlopen(words[1], RTLD_NOW) : NULL;
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 2;
    rounds = atol(words[3]);
    rate = atol(words[4]);
    if (!strcmp(words[2], "cuda")) begin_cuda(library);
    take = (void *(*)(size_t))dlsym(library, "_ZN3c109alloc_cpuEm");
    report = (void *(*)(void *, void *, size_t))dlsym(library, "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm");
    give = (void (*)(void *))dlsym(library, "_ZN3c108free_cpuEPv");
    printf("ready\n");
    fflush(stdout);
    if (!strcmp(words[2], "cuda")) {
        serve_cuda();
    } else {
        pthread_t others[149];
        int threads = strcmp(words[2], "many") ? 1 : 149;
        for (int i = 0; i < threads; i++)
            pthread_create(&others[i], NULL, serve, NULL);
        serve(NULL);
        for (int i = 0; i < threads; i++)
            pthread_join(others[i], NULL);
    }
    printf("%ld taken, %ld freed, sum %llu\n", takes, gives, (unsigned long long)sum);
    return 0;
}
