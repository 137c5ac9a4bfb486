/*
 * A program that uses devices of the stand-in of NVML (softgpu/state.h) and reports tensors on them through the
 * stand-in of libc10 (c10_stand_in.c). The phases on each DEVICE:
 *
 * 1. a context of 300 MiB
 * 2. 64 MiB reserved, 40 of them in tensors
 * 3. 128 MiB reserved, 100 of them in tensors
 * 4. only the context
 *
 * From the first tensors on, each phase lasts until the devices were read in it.
 *
 *     gpu_user C10_STAND_IN STATE DEVICE=ORDINAL...     the physical device that the program calls cuda:ORDINAL
 *
 * GPU_USER_UNREAD=1: nobody reads them.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/state.h"

#define MIB     ((int64_t)1 << 20)
#define CONTEXT (300 * MIB)

static struct soft_state *map_state(const char *path)
{
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0 || ftruncate(descriptor, sizeof(struct soft_state))) return NULL;
    void *at = mmap(NULL, sizeof(struct soft_state), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    return at == MAP_FAILED ? NULL : at;
}

/* A reading that begins now is over when the one after it begins. Each asks every instance of a device. */
static void wait_for_a_reading(const struct soft_state *state, int physical)
{
    const volatile uint64_t *readings = &state->readings[physical];
    const char *instances = getenv("SOFTNVML_MIG");
    uint64_t before = *readings, more = 2 * (instances ? strtoull(instances, NULL, 10) : 1);
    while (!getenv("GPU_USER_UNREAD") && *readings < before + more)
        usleep(1000);
}

int main(int argc, char **argv)
{
    static const struct {
        int64_t reserved, allocated;
    } phases[] = {{0, 0}, {64, 40}, {128, 100}, {0, 0}};
    if (argc < 4) return 2;
    struct soft_state *state = map_state(argv[2]);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "stand_in_report") : NULL;
    void (*report)(int, void *, int64_t, size_t, size_t, int, int);
    memcpy(&report, &symbol, sizeof report);
    if (!state || !report) return 3;
    state->processes[0].pid = getpid();
    alarm(60);
    for (size_t phase = 0; phase < sizeof phases / sizeof *phases; phase++) {
        int64_t allocated = phases[phase].allocated * MIB, reserved = phases[phase].reserved * MIB;
        for (int i = 3; i < argc; i++) {
            int physical, ordinal;
            if (sscanf(argv[i], "%d=%d", &physical, &ordinal) != 2) return 2;
            int64_t before = phase ? phases[phase - 1].allocated * MIB : 0;
            bool grows = allocated >= before; /* of two steps, a reading between them must not see the most */
            uint64_t used = (uint64_t)(CONTEXT + reserved);
            void *block = (void *)(uintptr_t)(0x700000000000 + physical * 0x100000000);
            if (!grows) state->processes[0].used[physical] = used;
            if (before) report(0, block, -before, 0, 0, 1, ordinal);
            if (allocated) report(0, block, allocated, (size_t)allocated, (size_t)reserved, 1, ordinal);
            if (grows) state->processes[0].used[physical] = used;
        }
        for (int i = 3; phase && i < argc; i++) /* before it has tensors, nobody knows that it uses a device */
            wait_for_a_reading(state, atoi(argv[i]));
    }
    return 0;
}
