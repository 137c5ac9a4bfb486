/* Blocks of the C allocator, for `snapshot --host`. Each function of the malloc() family keeps KEPT bytes, from its own
 * line, and frees as many more. The same with threads, where another thread frees, and with a forked child. `sizes`
 * keeps blocks of many sizes in each of 60 steps.
 *
 *     heap family | threads | fork | sizes
 *
 * Prints the bytes that stay live. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memprof.h"

#define EACH   ((size_t)4096)
#define BLOCKS ((size_t)4096)
#define KEPT   (EACH * BLOCKS)

static void *volatile blocks[2 * BLOCKS];

/* Makes more allocations than a process makes before its recording begins. */
static void warm_up(void)
{
    for (int i = 0; i < 64; i++) {
        void *volatile block = malloc(1 << 20);
        free(block);
    }
}

#define MAKER(name, ...)                                                                                               \
    static __attribute__((noinline)) void *from_##name(void)                                                           \
    {                                                                                                                  \
        void *volatile block = NULL;                                                                                   \
        __VA_ARGS__;                                                                                                   \
        return block;                                                                                                  \
    }
MAKER(malloc, block = malloc(EACH))
MAKER(calloc, block = calloc(EACH / 8, 8))
MAKER(realloc, block = malloc(64); block = realloc(block, EACH))
MAKER(reallocarray, block = reallocarray(NULL, EACH / 8, 8))
MAKER(posix_memalign, void *made; if (!posix_memalign(&made, 64, EACH)) block = made)
MAKER(aligned_alloc, block = aligned_alloc(64, EACH))
MAKER(memalign, block = memalign(64, EACH))
MAKER(valloc, block = valloc(EACH))

void *operator_new(size_t bytes) __asm__("_Znwm");
void *operator_new_aligned(size_t bytes, size_t alignment) __asm__("_ZnamSt11align_val_t");
void operator_delete(void *block) __asm__("_ZdlPv");
MAKER(new, block = operator_new(EACH))
MAKER(new_aligned, block = operator_new_aligned(EACH, 64))

static void *(*const makers[])(void) = {
    from_malloc,        from_calloc,   from_realloc, from_reallocarray, from_posix_memalign,
    from_aligned_alloc, from_memalign, from_valloc,  from_new,          from_new_aligned};
#define OPERATORS (MAKERS - 2)
#define MAKERS    (sizeof makers / sizeof *makers)

static size_t family(void)
{
    for (size_t k = 0; k < MAKERS; k++) {
        for (size_t i = 0; i < 2 * BLOCKS; i++)
            blocks[i] = makers[k]();
        for (size_t i = 0; i < 2 * BLOCKS; i += 2)
            k < OPERATORS ? free(blocks[i]) : operator_delete(blocks[i]);
    }
    return MAKERS * KEPT;
}

static void *make_from(void *from)
{
    for (size_t i = 0; i < BLOCKS / 2; i++)
        blocks[(uintptr_t)from + i] = from_malloc();
    return NULL;
}

static size_t threads(void)
{
    pthread_t made[4];
    for (uintptr_t k = 0; k < 4; k++)
        pthread_create(&made[k], NULL, make_from, (void *)(k * BLOCKS / 2)); /* NOLINT(performance-no-int-to-ptr) */
    for (int k = 0; k < 4; k++)
        pthread_join(made[k], NULL);
    for (size_t i = 0; i < 2 * BLOCKS; i += 2)
        free(blocks[i]);
    return KEPT;
}

/* The child frees a block of its parent, which is not in the child's recording. */
static size_t forked(void)
{
    size_t kept = threads();
    pid_t child = fork();
    if (!child) {
        for (size_t i = 1; i < 2 * BLOCKS; i += 2)
            free(blocks[i]);
        threads();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return kept;
}

static size_t sizes(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < 60 * 40; i++) {
        size_t bytes = 20000 + 37 * (i * 7919 % 1000);
        if (i % 40 == 0) memprof_step();
        blocks[i] = malloc(bytes);
        free(malloc(8 * bytes));
        kept += bytes;
    }
    return kept;
}

int main(int count, char **arguments)
{
    if (count != 2) return 2;
    warm_up();
    size_t kept = !strcmp(arguments[1], "family")    ? family()
                  : !strcmp(arguments[1], "threads") ? threads()
                  : !strcmp(arguments[1], "sizes")   ? sizes()
                                                     : forked();
    printf("%zu\n", kept);
    return 0;
}
