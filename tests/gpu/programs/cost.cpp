/*
 * `cost ROUNDS`: nanoseconds of one stream-ordered allocation and its free from a warm pool, and how much device memory
 * is free when only the context is there. Run bare and recorded, in turns: the differences are what recording takes.
 */
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? std::atoi(argv[1]) : 100000, devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
        std::fprintf(stderr, "cost: no GPU\n");
        return 77;
    }
    cudaMemPool_t pool;
    unsigned long long keep = ~0ull;
    size_t free_bytes, total;
    void *at;
    if (cudaFree(nullptr) || cudaMemGetInfo(&free_bytes, &total) || cudaDeviceGetDefaultMemPool(&pool, 0) ||
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep))
        return 1;
    for (int i = 0; i < 1000; i++)
        if (cudaMallocAsync(&at, 1 << 20, nullptr) || cudaFreeAsync(at, nullptr)) return 1;
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; i++)
        if (cudaMallocAsync(&at, 1 << 20, nullptr) || cudaFreeAsync(at, nullptr)) return 1;
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    std::printf("{\"pair_ns\": %.1f, \"free_bytes\": %zu}\n", took.count() / rounds, free_bytes);
    return 0;
}
