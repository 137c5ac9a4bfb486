/* Makes and runs nodes of autograd_stand_in.so in C. The size of a block tells which node allocated it.
 *
 *     autograd_program STAND_IN.SO LAYOUT
 */
#include <memprof.h>

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void (*make)(char *, int);
static void (*set_number)(char *, int, uint64_t);
static void (*run)(char *, void (*)(void));
static int layout;
static uint32_t pool;
static char one[128], two[128], three[128], four[128], unnumbered[128], unknown[128], of_a_thread[128];
static jmp_buf out;

#define KEEP_APART __asm__ volatile("" ::: "memory")
#define CALLED     __attribute__((noinline, noclone))

static void allocate(size_t bytes)
{
    static char memory[1 << 12];
    memprof_alloc(pool, memory + bytes % 1000, bytes);
    KEEP_APART;
}

CALLED void forward_one(void);
CALLED void forward_two(void);
CALLED void forward_three(void);
void forward_one(void)
{
    make(one, layout);
    KEEP_APART;
}
void forward_two(void)
{
    make(two, layout);
    KEEP_APART;
}
void forward_three(void)
{
    make(three, layout);
    make(four, layout);
    KEEP_APART;
}

CALLED void *forward_of_a_thread(void *unused);
void *forward_of_a_thread(void *unused)
{
    make(of_a_thread, layout);
    KEEP_APART;
    return unused;
}

#define NODE(name, bytes)                                                                                              \
    static void name(void)                                                                                             \
    {                                                                                                                  \
        allocate(bytes);                                                                                               \
    }
NODE(run_one, 1001)
NODE(run_two, 1002)
NODE(run_inside, 1004)
NODE(run_again, 1007)
NODE(run_unnumbered, 1008)
NODE(run_of_a_thread, 1009)
NODE(run_unknown, 1010)

static void run_three(void)
{
    run(one, run_inside);
    allocate(1005);
}

static void run_out(void)
{
    allocate(1006);
    longjmp(out, 1);
}

static void run_to_the_end_of_the_thread(void)
{
    pthread_exit(NULL);
}

static void *run_in_a_thread(void *unused)
{
    run(two, run_to_the_end_of_the_thread);
    return unused;
}

static void in_a_thread(void *(*function)(void *))
{
    pthread_t thread;
    pthread_create(&thread, NULL, function, NULL);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) return 2;
    *(void **)&make = dlsym(library, "stand_in_make");
    *(void **)&set_number = dlsym(library, "stand_in_number");
    *(void **)&run = dlsym(library, "stand_in_run");
    layout = atoi(argv[2]);
    pool = memprof_pool("nodes", MEMPROF_HOST);
    forward_one();
    forward_two();
    forward_three();
    in_a_thread(forward_of_a_thread);
    for (int i = 0; i < 5000; i++)
        run(two, run_two);
    run(one, run_one);
    set_number(unnumbered, layout, UINT64_MAX);
    run(unnumbered, run_unnumbered);
    allocate(1003);
    run(three, run_three);
    for (int i = 0; i < 100; i++)
        if (!setjmp(out)) run(four, run_out);
    run(one, run_again);
    in_a_thread(run_in_a_thread);
    run(of_a_thread, run_of_a_thread);
    make(unknown, layout);
    set_number(unknown, layout, 1000000);
    run(unknown, run_unknown);
    return 0;
}
