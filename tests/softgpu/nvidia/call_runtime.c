/*
 * Calls NVIDIA's own CUDA runtime until it has asked the driver for all that it wants:
 *
 *     call_runtime LIBCUDART          or linked with libcudart_static.a, with RUNTIME_IS_STATIC
 *
 * It then finds that the stand-in is not NVIDIA's driver, and fails: status 0.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifdef RUNTIME_IS_STATIC
int cudaMalloc(void **to, size_t bytes);
#else
static int (*cudaMalloc)(void **to, size_t bytes);
#endif

int main(int argc, char **argv)
{
    void *memory;
#ifndef RUNTIME_IS_STATIC
    void *runtime = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void *found = runtime ? dlsym(runtime, "cudaMalloc") : NULL;
    if (!found) return 2;
    memcpy(&cudaMalloc, &found, sizeof found);
#else
    (void)argc, (void)argv;
#endif
    printf("cudaMalloc: %d\n", cudaMalloc(&memory, 1000));
    return 0;
}
