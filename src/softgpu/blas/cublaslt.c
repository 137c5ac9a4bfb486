/* The stand-in of cuBLASLt. Every product has one algorithm, which needs no workspace beyond the caller's. */
#include "softgpu/blas/blas.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    cublasStatus_t state;
    float waves;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

static char anything; /* all descriptors point to it */

EXPORTED cublasStatus_t cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a, void *a_layout,
                                       const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                                       void *d, void *d_layout, const void *algorithm, void *workspace,
                                       size_t workspace_bytes, void *stream)
{
    (void)handle, (void)operation, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout, (void)beta, (void)c;
    (void)c_layout, (void)d, (void)d_layout, (void)algorithm, (void)workspace, (void)workspace_bytes;
    return softblas_launch(stream);
}

EXPORTED size_t cublasLtGetVersion(void)
{
    return SOFTBLAS_VERSION;
}

EXPORTED size_t cublasLtGetCudartVersion(void)
{
    return SOFTBLAS_VERSION / 10000 * 1000;
}

EXPORTED cublasStatus_t cublasLtCreate(void **to)
{
    *to = &anything;
    return 0;
}

EXPORTED cublasStatus_t cublasLtMatmulDescCreate(void **to, int compute, int scale)
{
    (void)compute, (void)scale;
    *to = &anything;
    return 0;
}

EXPORTED cublasStatus_t cublasLtMatmulPreferenceCreate(void **to)
{
    *to = &anything;
    return 0;
}

/* A matrix's attributes, by number (cublasLtMatrixLayoutAttribute_t). */
enum { TYPE, ORDER, ROWS, COLUMNS, LEADING, BATCHES, ATTRIBUTES = 16 };
struct layout {
    uint64_t attributes[ATTRIBUTES];
};

EXPORTED cublasStatus_t cublasLtMatrixLayoutCreate(void **to, int type, uint64_t rows, uint64_t columns, int64_t stride)
{
    struct layout *layout = calloc(1, sizeof *layout);
    *to = layout;
    if (!layout) return CUBLAS_STATUS_ALLOC_FAILED;
    *layout = (struct layout){
        {[TYPE] = (uint64_t)type, [ROWS] = rows, [COLUMNS] = columns, [LEADING] = (uint64_t)stride, [BATCHES] = 1}};
    return 0;
}

EXPORTED cublasStatus_t cublasLtMatrixLayoutDestroy(void *layout)
{
    free(layout);
    return 0;
}

EXPORTED cublasStatus_t cublasLtMatrixLayoutSetAttribute(struct layout *layout, int which, const void *from,
                                                         size_t bytes)
{
    if (which >= 0 && which < ATTRIBUTES && bytes <= sizeof *layout->attributes)
        memcpy(&layout->attributes[which], from, bytes);
    return 0;
}

EXPORTED cublasStatus_t cublasLtMatrixLayoutGetAttribute(const struct layout *layout, int which, void *to, size_t bytes,
                                                         size_t *written)
{
    if (written) *written = bytes;
    if (which < 0 || which >= ATTRIBUTES || bytes > sizeof *layout->attributes) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, &layout->attributes[which], bytes);
    return 0;
}

EXPORTED cublasStatus_t cublasLtMatrixTransformDescCreate(void **to, int type)
{
    (void)type;
    *to = &anything;
    return 0;
}

EXPORTED cublasStatus_t cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c,
                                                       void *d, void *preference, int wanted,
                                                       cublasLtMatmulHeuristicResult_t *results, int *found)
{
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
    *found = wanted > 0;
    if (*found) memset(results, 0, sizeof *results);
    return 0;
}
