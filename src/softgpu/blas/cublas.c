/* The stand-in of cuBLAS: handles, their settings, and products that compute nothing. It allocates no memory of its
 * own: PyTorch gives each handle and stream a workspace. Each handle is different, so that PyTorch can distinguish
 * them. */
#include "softgpu/blas/cublas.h"
#include "softgpu/blas/blas.h"

#include <stddef.h>
#include <stdlib.h>

struct cublasContext {
    int math_mode, pointer_mode, atomics_mode;
    void *stream;
};
typedef struct cublasContext *cublasHandle_t;

/* Called by stubs of functions that compute (stub.h). */
int soft_launched(void *handle);
int soft_launched(void *handle)
{
    return handle ? softblas_launch(((cublasHandle_t)handle)->stream) : CUBLAS_STATUS_NOT_INITIALIZED;
}

EXPORTED cublasStatus_t cublasCreate_v2(cublasHandle_t *to)
{
    *to = calloc(1, sizeof **to);
    return *to ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

EXPORTED cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORTED cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
    (void)handle;
    *version = SOFTBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

/* libraryPropertyType: major, minor, patch */
EXPORTED cublasStatus_t cublasGetProperty(int which, int *value)
{
    *value = which == 0 ? SOFTBLAS_VERSION / 10000 : which == 1 ? SOFTBLAS_VERSION / 100 % 100 : SOFTBLAS_VERSION % 100;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORTED size_t cublasGetCudartVersion(void)
{
    return SOFTBLAS_VERSION / 10000 * 1000;
}

/* F(setter, getter, type, member) */
#define SETTINGS(F)                                                                                                    \
    F(cublasSetStream_v2, cublasGetStream_v2, void *, stream)                                                          \
    F(cublasSetMathMode, cublasGetMathMode, int, math_mode)                                                            \
    F(cublasSetPointerMode_v2, cublasGetPointerMode_v2, int, pointer_mode)                                             \
    F(cublasSetAtomicsMode, cublasGetAtomicsMode, int, atomics_mode)
#define SETTING(setter, getter, type, member)                                                                          \
    EXPORTED cublasStatus_t setter(cublasHandle_t handle, type value)                                                  \
    {                                                                                                                  \
        if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;                                                             \
        handle->member = value;                                                                                        \
        return CUBLAS_STATUS_SUCCESS;                                                                                  \
    }                                                                                                                  \
    EXPORTED cublasStatus_t getter(cublasHandle_t handle, type *value)                                                 \
    {                                                                                                                  \
        if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;                                                             \
        *value = handle->member;                                                                                       \
        return CUBLAS_STATUS_SUCCESS;                                                                                  \
    }
SETTINGS(SETTING)

/* Functions that return *info, a result about their arguments, at once on the host. Results about each matrix stay on
 * the device. */
#define TOLD(name, parameters)                                                                                         \
    EXPORTED cublasStatus_t cublasS##name parameters                                                                   \
    {                                                                                                                  \
        *info = 0;                                                                                                     \
        return soft_launched(handle);                                                                                  \
    }                                                                                                                  \
    EXPORTED cublasStatus_t cublasD##name parameters __attribute__((alias("cublasS" #name)));                          \
    EXPORTED cublasStatus_t cublasC##name parameters __attribute__((alias("cublasS" #name)));                          \
    EXPORTED cublasStatus_t cublasZ##name parameters __attribute__((alias("cublasS" #name)));
TOLD(geqrfBatched, (void *handle, int m, int n, void *a, int lda, void *tau, int *info, int batch))
TOLD(getrsBatched,
     (void *handle, int op, int n, int columns, void *a, int lda, void *pivots, void *b, int ldb, int *info, int batch))
TOLD(gelsBatched, (void *handle, int op, int m, int n, int columns, void *a, int lda, void *c, int ldc, int *info,
                   void *of_each, int batch))
