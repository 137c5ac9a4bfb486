/*
 * cuDNN's graph interface, which PyTorch uses for convolutions and attention. Descriptors store the attributes that are
 * set. Every graph has one engine, and running the engine's plan does nothing. Only cuDNN knows the workspace of the
 * engine that it would choose. The stand-in's engine takes what the profile's key `cudnn` says, or none, and the
 * recording says that it is not known.
 */
#include "softgpu/blas/cublas.h"
#include "softgpu/dnn/dnn.h"

#include <memprof.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, BAD_PARAM = 2000, OUT_OF_HOST_MEMORY = 1002 };

/* Sets the bytes of a workspace to 0, since its size is not known, and makes a mark about this in the recording, once.
 * Returns cuDNN's success. */
static int unknown_workspace(size_t *bytes)
{
    static int marked;
    if (!__atomic_exchange_n(&marked, 1, __ATOMIC_RELAXED)) memprof_mark("plan: cudnn");
    *bytes = 0;
    return 0;
}

/* Likewise for a graph or a convolution, of which $SOFTGPU_PROFILE may say the bytes. */
static int engine_workspace(size_t *bytes)
{
    const char *profile = getenv("SOFTGPU_PROFILE"), *at = profile ? strstr(profile, ";cudnn=") : NULL;
    unknown_workspace(bytes);
    if (at) *bytes = strtoull(at + strlen(";cudnn="), NULL, 10);
    return 0;
}

/* cudnnBackendAttributeName_t */
enum {
    HEURISTIC_RESULTS = 202,
    CONFIG_ENGINE = 300,
    CONFIG_WORKSPACE = 303,
    CONFIG_SHARED_MEMORY = 304, /* has 32 bits, the other numbers 64 */
    PLAN_WORKSPACE = 402,
    PLAN_JSON = 405,
    GRAPH_ENGINES = 802,
    ENGINE_INDEX = 1301
};

struct attribute {
    struct attribute *next;
    int name, type;
    int64_t count;
    unsigned char data[];
};

struct descriptor {
    struct attribute *attributes;
};

/* Bytes of an element of a cudnnBackendAttributeType_t; types without a case are enumerations. */
static size_t bytes_of(int type)
{
    static const unsigned char sizes[] = {[0] = 8, [2] = 1, [3] = 8, [5] = 8, [6] = 8, [15] = 8, [24] = 1, [26] = 16};
    return type >= 0 && type < (int)sizeof sizes && sizes[type] ? sizes[type] : 4;
}

static struct attribute *find_attribute(const struct descriptor *of, int name)
{
    struct attribute *at = of->attributes;
    while (at && at->name != name)
        at = at->next;
    return at;
}

EXPORTED int cudnnBackendCreateDescriptor(int type, struct descriptor **to)
{
    (void)type;
    *to = calloc(1, sizeof **to);
    return *to ? SUCCESS : OUT_OF_HOST_MEMORY;
}

EXPORTED int cudnnBackendDestroyDescriptor(struct descriptor *of)
{
    while (of && of->attributes) {
        struct attribute *gone = of->attributes;
        of->attributes = gone->next;
        free(gone);
    }
    free(of);
    return SUCCESS;
}

EXPORTED int cudnnBackendSetAttribute(struct descriptor *of, int name, int type, int64_t count, const void *from)
{
    if (!of || count < 0 || (count && !from)) return BAD_PARAM;
    struct attribute *set = malloc(sizeof *set + (size_t)count * bytes_of(type));
    if (!set) return OUT_OF_HOST_MEMORY;
    *set = (struct attribute){of->attributes, name, type, count};
    if (count) memcpy(set->data, from, (size_t)count * bytes_of(type));
    of->attributes = set;
    return SUCCESS;
}

EXPORTED int cudnnBackendFinalize(struct descriptor *of)
{
    return of ? SUCCESS : BAD_PARAM;
}

/* The value of an attribute that the program did not set. Engines and configurations are descriptors that the caller
 * made, of which one counts as filled in. */
static int64_t answer(int name, int64_t room, void *to)
{
    static const char json[] = "{}";
    size_t workspace;
    int64_t number = name == GRAPH_ENGINES;
    switch (name) {
    case HEURISTIC_RESULTS:
    case CONFIG_ENGINE:
        return 1;
    case PLAN_JSON:
        if (to) memcpy(to, json, room < (int64_t)sizeof json ? (size_t)room : sizeof json);
        return sizeof json;
    case PLAN_WORKSPACE:
    case CONFIG_WORKSPACE:
        engine_workspace(&workspace);
        number = (int64_t)workspace;
        /* fall through */
    case GRAPH_ENGINES:
    case ENGINE_INDEX:
    case CONFIG_SHARED_MEMORY:
        if (to && room > 0) memcpy(to, &number, name == CONFIG_SHARED_MEMORY ? 4 : 8);
        return 1;
    default:
        return 0;
    }
}

EXPORTED int cudnnBackendGetAttribute(const struct descriptor *of, int name, int type, int64_t room, int64_t *count,
                                      void *to)
{
    if (!of) return BAD_PARAM;
    const struct attribute *set = find_attribute(of, name);
    int64_t found = set ? set->count : answer(name, room, to);
    if (set && to) memcpy(to, set->data, (size_t)(room < found ? room : found) * bytes_of(type));
    if (count) *count = found;
    return SUCCESS;
}

EXPORTED int cudnnBackendExecute(struct handle *handle, struct descriptor *plan, struct descriptor *variants)
{
    return handle && plan && variants ? soft_launched(handle) : BAD_PARAM;
}

/* ---- convolutions and normalisations through cuDNN's older functions ---- */

/* cudnnConvolutionFwdAlgoPerf_t. The types for backward have the same layout. */
struct algorithm {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
};

static int one_way(int wanted, int *found, struct algorithm *results)
{
    size_t bytes;
    engine_workspace(&bytes);
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
        return engine_workspace(bytes);                                                                                \
    }
CONVOLUTION_BYTES(cudnnGetConvolutionForwardWorkspaceSize)
CONVOLUTION_BYTES(cudnnGetConvolutionBackwardDataWorkspaceSize)
CONVOLUTION_BYTES(cudnnGetConvolutionBackwardFilterWorkspaceSize)

EXPORTED int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int operations, void *x,
                                                                      void *z, void *y, void *scale, void *activation,
                                                                      size_t *bytes)
{
    return unknown_workspace(bytes);
}

EXPORTED int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int operations,
                                                                  void *activation, void *x, size_t *bytes)
{
    return unknown_workspace(bytes);
}

EXPORTED int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operations, void *x, void *y,
                                                               void *dy, void *dz, void *dx, void *scale,
                                                               void *activation, size_t *bytes)
{
    return unknown_workspace(bytes);
}
