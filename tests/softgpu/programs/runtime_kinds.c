/*
 * Calls the driver through the CUDA runtime, as programs do. The runtime is a shared library, or compiled in. Needs
 * SOFTGPU_DEVICES=2.
 */
#include <stdio.h>
#include <stdlib.h>

#include "softgpu/programs/cudart.h"

#define CHECK(call) check((call), 0, __LINE__)

static void check(cudaError_t result, cudaError_t right, int line)
{
    if (result == right) return;
    fprintf(stderr, "runtime_kinds.c:%d: CUDA error %d, not %d\n", line, result, right);
    exit(4);
}

int main(void)
{
    static char own[4096];
    void *block[10];
    size_t pitch;
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaMalloc(&block[0], 1111));
    CHECK(cudaMalloc(&block[1], 2222222));
    CHECK(cudaFree(block[0]));
    CHECK(cudaFree(NULL));
    CHECK(cudaMallocPitch(&block[2], &pitch, 700, 11));
    CHECK(cudaMallocManaged(&block[3], 33333, 1));
    CHECK(cudaMallocHost(&block[4], 44444));
    CHECK(cudaMallocHost(&block[5], 55555));
    CHECK(cudaFreeHost(block[4]));
    CHECK(cudaHostRegister(own, sizeof own, 0));
    CHECK(cudaHostUnregister(own));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMallocAsync(&block[6], 666666, stream));
    CHECK(cudaMallocAsync(&block[7], 777777, stream));
    CHECK(cudaFreeAsync(block[6], stream));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventDestroy(event));
    check(cudaMalloc(&block[8], (size_t)1 << 40), 2, __LINE__);
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&block[8], 8888));
    CHECK(cudaDeviceReset());
    CHECK(cudaMalloc(&block[9], 9999));
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(block[2]));
    return 0;
}
