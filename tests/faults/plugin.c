/* A plug-in whose constructor, under the loader's lock, starts a thread that makes events, and waits for it. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The function that PyTorch's allocators ask. It is defined only if the program is recorded. */
bool profiling_enabled(void) __asm__("_ZN3c1022memoryProfilingEnabledEv") __attribute__((weak));
void report_usage(void *address, int64_t bytes, size_t allocated, size_t reserved,
                  uint16_t device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")
    __attribute__((weak));

void hostile_event(void); /* of the program */

static void *work(void *unused)
{
    static char block[64];
    for (int i = 0; i < 20; i++)
        hostile_event();
    if (profiling_enabled && profiling_enabled()) {
        report_usage(block, sizeof block, sizeof block, sizeof block, 0xff00);
        report_usage(block, -(int64_t)sizeof block, 0, 0, 0xff00);
    }
    return unused;
}

__attribute__((constructor)) static void start(void)
{
    pthread_t thread;
    if (!pthread_create(&thread, NULL, work, NULL)) pthread_join(thread, NULL);
}
