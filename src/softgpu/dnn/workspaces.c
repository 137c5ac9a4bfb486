/*
 * Convolutions and normalisations through cuDNN's older functions. Only cuDNN knows which algorithm it would choose,
 * and thus the workspace. The stand-in's algorithm takes none, and the recording says so.
 */
#include "softgpu/dnn/workspaces.h"
#include "softgpu/dnn/dnn.h"

#include <memprof.h>

/* cudnnConvolutionFwdAlgoPerf_t. The types for backward have the same layout. */
struct algorithm {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
};

int softdnn_workspace(size_t *bytes)
{
    static int marked;
    if (!__atomic_exchange_n(&marked, 1, __ATOMIC_RELAXED)) memprof_mark("plan: cudnn");
    *bytes = 0;
    return 0;
}

static int one_way(int wanted, int *found, struct algorithm *results)
{
    size_t bytes;
    softdnn_workspace(&bytes);
    *found = wanted > 0;
    if (*found) *results = (struct algorithm){.algorithm = 1, .memory = bytes, .determinism = 1};
    return 0;
}

#define ALGORITHM(name)                                                                                                \
    EXPORTED int name(void *handle, void *a, void *b, void *convolution, void *c, int wanted, int *found,              \
                      struct algorithm *results)                                                                       \
    {                                                                                                                  \
        return one_way(wanted, found, results);                                                                        \
    }
ALGORITHM(cudnnGetConvolutionForwardAlgorithm_v7)
ALGORITHM(cudnnGetConvolutionBackwardDataAlgorithm_v7)
ALGORITHM(cudnnGetConvolutionBackwardFilterAlgorithm_v7)

#define FIND(name)                                                                                                     \
    EXPORTED int name(void *handle, void *a, void *at_a, void *b, void *at_b, void *convolution, void *c, void *at_c,  \
                      int wanted, int *found, struct algorithm *results, void *workspace, size_t bytes)                \
    {                                                                                                                  \
        return one_way(wanted, found, results);                                                                        \
    }
FIND(cudnnFindConvolutionForwardAlgorithmEx)
FIND(cudnnFindConvolutionBackwardDataAlgorithmEx)
FIND(cudnnFindConvolutionBackwardFilterAlgorithmEx)

#define CONVOLUTION_BYTES(name)                                                                                        \
    EXPORTED int name(void *handle, void *a, void *b, void *convolution, void *c, int algorithm, size_t *bytes)        \
    {                                                                                                                  \
        return softdnn_workspace(bytes);                                                                               \
    }
CONVOLUTION_BYTES(cudnnGetConvolutionForwardWorkspaceSize)
CONVOLUTION_BYTES(cudnnGetConvolutionBackwardDataWorkspaceSize)
CONVOLUTION_BYTES(cudnnGetConvolutionBackwardFilterWorkspaceSize)

EXPORTED int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int operations, void *x,
                                                                      void *z, void *y, void *scale, void *activation,
                                                                      size_t *bytes)
{
    return softdnn_workspace(bytes);
}

EXPORTED int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int operations,
                                                                  void *activation, void *x, size_t *bytes)
{
    return softdnn_workspace(bytes);
}

EXPORTED int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operations, void *x, void *y,
                                                               void *dy, void *dz, void *dx, void *scale,
                                                               void *activation, size_t *bytes)
{
    return softdnn_workspace(bytes);
}
