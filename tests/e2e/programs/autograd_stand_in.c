/*
 * A stand-in for PyTorch's autograd. It exports the functions that number nodes and run them, and calls them through
 * its PLT. It stores a node's number and thread at the offsets of PyTorch's releases, or elsewhere. Loaded by
 * autograd_program.c with local scope, as Python loads torch.
 */
#include <memprof.h>

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define EXPORTED(name) __asm__(name) __attribute__((visibility("default"), noinline))

static __thread uint64_t next_number, own_thread;
static _Atomic uint64_t threads;

uint64_t get_and_increment(void) EXPORTED("_ZN2at15sequence_number17get_and_incrementEv");
uint64_t get_and_increment(void)
{
    return next_number++;
}

uint64_t current_thread(void) EXPORTED("_ZN2at14RecordFunction15currentThreadIdEv");
uint64_t current_thread(void)
{
    if (!own_thread) own_thread = ++threads;
    return own_thread;
}

void evaluate(void *engine, void **task, void *node, void (*run)(void), void *queue) EXPORTED(
    "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_"
    "INS0_10ReadyQueueEE");
void evaluate(void *engine, void **task, void *node, void (*run)(void), void *queue)
{
    (void)engine, (void)task, (void)node, (void)queue;
    run();
}

/* Offsets of number and thread in a node: in 1.13 and 2.6, in 2.14, and in no release. */
static const unsigned offsets[][2] = {{24, 48}, {16, 40}, {72, 88}};

__attribute__((visibility("default"))) void stand_in_make(char *node, int layout);
void stand_in_make(char *node, int layout)
{
    uint64_t number = get_and_increment(), thread = current_thread();
    memcpy(node + offsets[layout][0], &number, sizeof number);
    memcpy(node + offsets[layout][1], &thread, sizeof thread);
}

/* Overwrites a node's number by `number`. */
__attribute__((visibility("default"))) void stand_in_number(char *node, int layout, uint64_t number);
void stand_in_number(char *node, int layout, uint64_t number)
{
    memcpy(node + offsets[layout][0], &number, sizeof number);
}

__attribute__((visibility("default"))) void stand_in_run(char *node, void (*run)(void));
void stand_in_run(char *node, void (*run)(void))
{
    static int graph;
    void *task = &graph;
    evaluate(NULL, &task, node, run, NULL);
    __asm__ volatile("" ::: "memory");
}

static void allocate(void)
{
    memprof_alloc(memprof_pool("nodes", MEMPROF_HOST), next_number ? NULL : &next_number, 1011);
    __asm__ volatile("" ::: "memory");
}

static void *run_a_stranger(void *unused)
{
    char node[128] = {1};
    stand_in_run(node, allocate);
    return unused;
}

/* Runs a node with an unknown maker on a thread without Python, like autograd's threads. */
__attribute__((visibility("default"))) void stand_in_thread(void);
void stand_in_thread(void)
{
    pthread_t thread;
    if (!pthread_create(&thread, NULL, run_a_stranger, NULL)) pthread_join(thread, NULL);
}
