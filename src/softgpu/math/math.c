/*
 * The stand-in of cuFFT, cuSOLVER, cuSPARSE and cuSPARSELt, as far as PyTorch 2.7 to 2.15 calls them: handles and
 * sizes. Other functions only compute (names/math). One library serves all versions: it is preloaded, and its symbols
 * have no version, so they are found before NVIDIA's. NVIDIA's libraries stay loaded and are never called.
 *
 * Only NVIDIA knows how large the workspaces are. The stand-in makes a workspace as large as the operand, and the
 * recording says so.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <memprof.h>

#include "softgpu/blas/cublas.h"
#include "softgpu/driver_function.h"

#define EXPORTED __attribute__((visibility("default")))
#define MOST     20 /* arguments; a function reads only those that it has */
#define ARGUMENTS                                                                                                      \
    uintptr_t a0, uintptr_t a1, uintptr_t a2, uintptr_t a3, uintptr_t a4, uintptr_t a5, uintptr_t a6, uintptr_t a7,    \
        uintptr_t a8, uintptr_t a9, uintptr_t a10, uintptr_t a11, uintptr_t a12, uintptr_t a13, uintptr_t a14,         \
        uintptr_t a15, uintptr_t a16, uintptr_t a17, uintptr_t a18, uintptr_t a19
#define ALL                                                                                                            \
    (const uintptr_t[MOST])                                                                                            \
    {                                                                                                                  \
        a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19                       \
    }

/* Called by functions that compute, also by stubs (stub.h). */
int soft_launched(void *handle);
int soft_launched(void *handle)
{
    soft_library_launch(NULL);
    return 0;
}

static void mark(void)
{
    static int marked;
    if (!__atomic_exchange_n(&marked, 1, __ATOMIC_RELAXED)) memprof_mark("plan: workspaces");
}

/* Number of elements of a matrix. `rows`, `columns`: positions of these arguments, which may have 32 bits. */
static uint64_t elements(const uintptr_t *of, int rows, int columns)
{
    mark();
    return (uint64_t)(uint32_t)of[rows] * (uint32_t)of[columns];
}

/* cuSOLVER's older functions return an int of elements, and have names for four types. `at`: position of the result;
 * `rows`, `columns`: positions of the matrix's size. */
#define COUNT(name, at, rows, columns)                                                                                 \
    EXPORTED int name(ARGUMENTS)                                                                                       \
    {                                                                                                                  \
        uint64_t count = elements(ALL, rows, columns);                                                                 \
        *(int *)ALL[at] = count < INT32_MAX ? (int)count : INT32_MAX;                                                  \
        return 0;                                                                                                      \
    }
#define OF_TWO(s, d, name, at, rows, columns)                                                                          \
    COUNT(cusolverDn##s##name##_bufferSize, at, rows, columns)                                                         \
    COUNT(cusolverDn##d##name##_bufferSize, at, rows, columns)
#define OF_FOUR(name, at, rows, columns) OF_TWO(S, D, name, at, rows, columns) OF_TWO(C, Z, name, at, rows, columns)
OF_FOUR(potrf, 5, 2, 2)
OF_FOUR(getrf, 5, 1, 2)
OF_FOUR(geqrf, 5, 1, 2)
OF_FOUR(gesvd, 3, 1, 2)
OF_FOUR(gesvdj, 12, 3, 4)
OF_FOUR(gesvdjBatched, 11, 2, 3)
OF_FOUR(gesvdaStridedBatched, 16, 3, 4)
OF_FOUR(sytrf, 4, 1, 1)
OF_TWO(S, D, orgqr, 7, 1, 2)
OF_TWO(C, Z, ungqr, 7, 1, 2)
OF_TWO(S, D, ormqr, 11, 3, 4)
OF_TWO(C, Z, unmqr, 11, 3, 4)
OF_TWO(S, D, syevd, 7, 3, 3)
OF_TWO(C, Z, heevd, 7, 3, 3)
OF_TWO(S, D, syevj, 7, 3, 3)
OF_TWO(C, Z, heevj, 7, 3, 3)
OF_TWO(S, D, syevjBatched, 7, 3, 3)
OF_TWO(C, Z, heevjBatched, 7, 3, 3)

/* Newer functions return bytes on the device and on the host. `type`: position of the type, a cudaDataType. */
#define BYTES(name, at, rows, columns, type)                                                                           \
    EXPORTED int cusolverDnX##name##_bufferSize(ARGUMENTS)                                                             \
    {                                                                                                                  \
        static const uint8_t widths[] = {4, 8, 2, 1, 8, 16};                                                           \
        uint32_t of = (uint32_t)ALL[type];                                                                             \
        *(size_t *)ALL[at] = elements(ALL, rows, columns) * (of < sizeof widths ? widths[of] : 4);                     \
        *(size_t *)ALL[(at) + 1] = 0;                                                                                  \
        return 0;                                                                                                      \
    }
BYTES(potrf, 8, 3, 3, 4)
BYTES(geqrf, 10, 2, 3, 4)
BYTES(syevd, 11, 4, 4, 5)
BYTES(syevBatched, 11, 4, 4, 5)
BYTES(sytrs, 11, 2, 3, 4)
BYTES(geev, 17, 4, 4, 5)

/* A matrix of cuSPARSE. */
struct matrix {
    int64_t rows, columns, nonzero;
};

static int make(struct matrix **to, int64_t rows, int64_t columns, int64_t nonzero)
{
    *to = malloc(sizeof **to);
    /* The count may have been read from the device, so it may be anything. */
    bool known = nonzero >= 0 && (!columns || nonzero / columns <= rows);
    if (*to) **to = (struct matrix){rows, columns, known ? nonzero : 0};
    return *to ? 0 : 2;
}

EXPORTED int cusparseCreateCsr(struct matrix **to, int64_t rows, int64_t columns, int64_t nonzero)
{
    return make(to, rows, columns, nonzero);
}

EXPORTED int cusparseCreateCoo(struct matrix **to, int64_t rows, int64_t columns, int64_t nonzero)
{
    return make(to, rows, columns, nonzero);
}

EXPORTED int cusparseDestroySpMat(struct matrix *matrix)
{
    free(matrix);
    return 0;
}

EXPORTED int cusparseSpMatGetSize(const struct matrix *matrix, int64_t *rows, int64_t *columns, int64_t *nonzero)
{
    *rows = matrix->rows;
    *columns = matrix->columns;
    *nonzero = matrix->nonzero;
    return 0;
}

EXPORTED int cusparseCreateIdentityPermutation(void *handle, int count, int *to)
{
    return 0;
}

EXPORTED const char *cusparseGetErrorString(int error)
{
    return error ? "not imitated by the stand-in of cuSPARSE" : "success";
}

/* Workspaces of eight bytes for each element that is not zero: its value and its position. */
#define OF_MATRIX(name, at, operand)                                                                                   \
    EXPORTED int cusparse##name(ARGUMENTS)                                                                             \
    {                                                                                                                  \
        mark();                                                                                                        \
        *(size_t *)ALL[at] = 8 * (size_t)((const struct matrix *)ALL[operand])->nonzero;                               \
        return 0;                                                                                                      \
    }
OF_MATRIX(SpMM_bufferSize, 10, 4)
OF_MATRIX(SpMV_bufferSize, 9, 3)
OF_MATRIX(SDDMM_bufferSize, 10, 7)
OF_MATRIX(SpSM_bufferSize, 10, 4)
OF_MATRIX(SpSV_bufferSize, 9, 3)
OF_MATRIX(SpGEMM_workEstimation, 11, 4)

/* Estimates the result's elements as if the matrices were random: each element of A meets as many elements of B as a
 * row of B has. */
EXPORTED int cusparseSpGEMM_compute(ARGUMENTS)
{
    const struct matrix *a = (const struct matrix *)a4, *b = (const struct matrix *)a5;
    struct matrix *c = (struct matrix *)a7;
    int64_t most = a->rows * b->columns, some = b->rows ? a->nonzero * b->nonzero / b->rows : 0;
    *c = (struct matrix){a->rows, b->columns, some < most ? some : most};
    mark();
    *(size_t *)a11 = 8 * (size_t)c->nonzero;
    return soft_launched(NULL);
}

#define SIZE(name, type, at, count)                                                                                    \
    EXPORTED int cusparse##name(ARGUMENTS)                                                                             \
    {                                                                                                                  \
        mark();                                                                                                        \
        *(type *)ALL[at] = (type)(count);                                                                              \
        return 0;                                                                                                      \
    }
#define SIZE_OF_FOUR(name, type, at, count)                                                                            \
    SIZE(S##name, type, at, count)                                                                                     \
    SIZE(D##name, type, at, count)                                                                                     \
    SIZE(C##name, type, at, count)                                                                                     \
    SIZE(Z##name, type, at, count)
SIZE(Xcoosort_bufferSizeExt, size_t, 6, 8 * (uint64_t)(uint32_t)a3)
SIZE(Xcsrsort_bufferSizeExt, size_t, 6, 8 * (uint64_t)(uint32_t)a3)
SIZE(Xcsrgeam2Nnz, int, 13, (uint32_t)a4 + (uint32_t)a8)
SIZE_OF_FOUR(csrgeam2_bufferSizeExt, size_t, 19, 8 * ((uint64_t)(uint32_t)a5 + (uint32_t)a11))
SIZE_OF_FOUR(bsrsv2_bufferSize, int, 11, 8 * (uint32_t)a4)
SIZE_OF_FOUR(bsrsm2_bufferSize, int, 13, 8 * (uint32_t)a6)

/* A matrix of cuSPARSELt lies in the caller's memory. Half of its elements are kept, with two bits for each. */
EXPORTED int cusparseLtStructuredDescriptorInit(void *handle, struct matrix *matrix, int64_t rows, int64_t columns,
                                                int64_t leading, uint32_t alignment, int type)
{
    *matrix = (struct matrix){rows, columns, rows * columns / 2 * (type == 0 ? 4 : type == 3 ? 1 : 2)};
    return 0;
}

EXPORTED int cusparseLtSpMMACompressedSize2(void *handle, const struct matrix *matrix, size_t *compressed,
                                            size_t *buffer)
{
    mark();
    *compressed = (size_t)(matrix->nonzero + matrix->rows * matrix->columns / 8);
    *buffer = *compressed;
    return 0;
}

EXPORTED int cusparseLtMatmulGetWorkspace(void *handle, void *plan, size_t *bytes)
{
    mark();
    *bytes = 0;
    return 0;
}

EXPORTED int cusparseLtMatmulAlgGetAttribute(void *handle, void *selection, int attribute, void *to, size_t bytes)
{
    memset(to, 0, bytes);
    return 0;
}

EXPORTED int cufftCreate(int *plan)
{
    static int made;
    *plan = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    return 0;
}

/* The workspace has one complex element, of the executed cudaDataType, for each element of the plan. */
EXPORTED int cufftXtMakePlanMany(int plan, int rank, const long long *n, const long long *in, long long in_stride,
                                 long long in_distance, int input, const long long *out, long long out_stride,
                                 long long out_distance, int output, long long batch, size_t *bytes, int executed)
{
    uint64_t count = (uint64_t)batch;
    for (int i = 0; i < rank; i++)
        count *= (uint64_t)n[i];
    mark();
    *bytes = count * (executed == 5 || executed == 1 ? 16 : executed == 6 || executed == 2 ? 4 : 8);
    return 0;
}
