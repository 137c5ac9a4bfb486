/* Shared by the stand-ins of cuBLAS and cuBLASLt, each of which is built for several versions. */
#pragma once

#include "softgpu/driver_function.h"
#include "softgpu/softgpu.h"

#define EXPORTED __attribute__((visibility("default")))

#ifndef SOFTBLAS_VERSION
#    define SOFTBLAS_VERSION 120405
#endif

typedef int cublasStatus_t;
enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_INTERNAL_ERROR = 14
};

/* Called by a function that computes: makes the driver count a kernel. Some programs use the library without a
 * driver. */
static inline cublasStatus_t softblas_launch(void *stream)
{
    static __typeof__(softgpu_cublas_launch) *launch;
    if (!launch) SOFT_DRIVER_FUNCTION(launch, "softgpu_cublas_launch");
    return launch && launch(stream) ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}
