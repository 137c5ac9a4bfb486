/* A program with its own clocks, as under libfaketime: 57 years ahead, and running backwards. */
#include <memprof.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static long calls;
    (void)clock;
    *now = (struct timespec){.tv_sec = 1800000000 - ++calls * 3600};
    return 0;
}

int main(void)
{
    uint32_t pool = memprof_pool("hostile", -1);
    for (int i = 0; i < 100; i++)
        memprof_alloc(pool, (const void *)(0x1000UL + 64UL * (unsigned)i), 64);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec >= 1800000000;
}
