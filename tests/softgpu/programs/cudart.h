/* The few functions of the CUDA runtime that the tests need, by their names in cuda_runtime_api.h. */
#pragma once

#include <stddef.h>

typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);
cudaError_t cudaMalloc(void **to, size_t bytes);
cudaError_t cudaMallocPitch(void **to, size_t *pitch, size_t width, size_t height);
cudaError_t cudaMallocManaged(void **to, size_t bytes, unsigned flags);
cudaError_t cudaFree(void *address);
cudaError_t cudaMallocHost(void **to, size_t bytes);
cudaError_t cudaFreeHost(void *address);
cudaError_t cudaHostRegister(void *address, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *address);
cudaError_t cudaMallocAsync(void **to, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *address, cudaStream_t stream);
cudaError_t cudaStreamCreate(cudaStream_t *to);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaEventCreate(cudaEvent_t *to);
cudaError_t cudaEventDestroy(cudaEvent_t event);
