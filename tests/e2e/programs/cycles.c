/*
 * Twenty steps for the tests of a schedule, after 1000 blocks of 4 bytes. Each step keeps 256 bytes. Until its end it
 * has 1024 times its number, and meanwhile 77 bytes in a region.
 */
#include <memprof.h>

static char memory[1 << 20];

int main(void)
{
    char *next = memory;
    uint32_t pool = memprof_pool("scratch", -1);
    for (int i = 0; i < 1000; i++)
        memprof_alloc(pool, next++, 4);
    for (size_t step = 1; step <= 20; step++) {
        memprof_step();
        memprof_alloc(pool, next++, 256);
        void *work = next++, *part = next++;
        memprof_alloc(pool, work, 1024 * step);
        memprof_region_push("train");
        memprof_alloc(pool, part, 77);
        memprof_free(pool, part);
        memprof_region_pop();
        memprof_free(pool, work);
    }
    return 0;
}
