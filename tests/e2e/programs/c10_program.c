/*
 * A program on the stand-in of libc10 (c10_stand_in.c): allocates on two CUDA devices and the CPU and prints what the
 * profiler behind the recorder saw.
 *
 *     c10_program LIBRARY SIGNATURE WRONG_TOTALS
 *
 * Device 0: 100 blocks of 1 MiB in 2 segments of 64 MiB, every second one freed, then an out-of-memory for 1 GiB.
 * Device 1: one block of 5 MiB that stays. CPU: one block before the first CUDA block, which is freed at the end, one
 * after it. WRONG_TOTALS 1: the allocator's totals drift from what it reports.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((int64_t)1 << 20)

static void *look_up(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) exit(3);
    return found;
}

#define BIND(library, function)                                                                                        \
    do {                                                                                                               \
        void *found_ = look_up(library, #function);                                                                    \
        memcpy(&function, &found_, sizeof found_);                                                                     \
    } while (0)

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return 3;
    int signature = atoi(argv[2]);
    size_t drift = (size_t)atoi(argv[3]);
    void (*stand_in_report)(int, void *, int64_t, size_t, size_t, int, int);
    void (*stand_in_out_of_memory)(int64_t, size_t, size_t, int);
    _Bool (*stand_in_cpu_is_reported)(void);
    uint64_t (*stand_in_seen_by_profiler)(void);
    BIND(library, stand_in_report);
    BIND(library, stand_in_out_of_memory);
    BIND(library, stand_in_cpu_is_reported);
    BIND(library, stand_in_seen_by_profiler);

    unsigned reports = 0;
    if (stand_in_cpu_is_reported()) stand_in_report(signature, (void *)0x1000, 4096, 4096, 0, 0, -1), reports++;
    size_t allocated = 0;
    for (uintptr_t i = 0; i < 100; i++, reports++) {
        allocated += MIB + (i > 10 ? drift : 0);
        stand_in_report(signature, (void *)(0x700000000000 + i * MIB), MIB, allocated, (i < 64 ? 64 : 128) * MIB, 1, 0);
    }
    if (stand_in_cpu_is_reported()) stand_in_report(signature, (void *)0x2000, 8192, 12288, 0, 0, -1), reports++;
    for (uintptr_t i = 0; i < 100; i += 2, reports++) {
        allocated -= MIB;
        stand_in_report(signature, (void *)(0x700000000000 + i * MIB), -MIB, allocated, 128 * MIB, 1, 0);
    }
    stand_in_report(signature, (void *)0x7f0000000000, 5 * MIB, 5 * MIB, 20 * MIB, 1, 1), reports++;
    stand_in_out_of_memory(1024 * MIB, allocated, 128 * MIB, 0), reports++;
    if (stand_in_cpu_is_reported()) {
        stand_in_report(signature, (void *)0x2000, -8192, 4096, 0, 0, -1), reports++;
        stand_in_report(signature, (void *)0x1000, -4096, 0, 0, 0, -1), reports++;
    }
    printf("%u %llu\n", reports, (unsigned long long)stand_in_seen_by_profiler());
    return 0;
}
