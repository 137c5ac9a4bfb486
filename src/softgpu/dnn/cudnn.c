/* The stand-in of cuDNN: its version and handles. */
#include "softgpu/blas/cublas.h"
#include "softgpu/dnn/dnn.h"

#include <stdlib.h>

#include "softgpu/driver_function.h"

/* $SOFTGPU_CUDNN, 92600 for 9.26.0. PyTorch needs the version that it was built with, or a newer one. */
static size_t version(void)
{
    const char *text = getenv("SOFTGPU_CUDNN");
    size_t found = text ? strtoul(text, NULL, 10) : 0;
    return found ? found : 90100;
}

EXPORTED size_t cudnnGetVersion(void)
{
    return version();
}

EXPORTED size_t cudnnGetCudartVersion(void)
{
    return 12040;
}

EXPORTED int cudnnGetProperty(int which, int *value)
{
    *value = (int)(which == 0 ? version() / 10000 : which == 1 ? version() / 100 % 100 : version() % 100);
    return 0;
}

EXPORTED const char *cudnnGetErrorString(int error)
{
    return error ? "not imitated by the stand-in of cuDNN" : "CUDNN_STATUS_SUCCESS";
}

EXPORTED void cudnnGetLastErrorString(char *to, size_t room)
{
    if (room) *to = 0;
}

struct handle {
    void *stream;
};

EXPORTED int cudnnCreate(struct handle **to)
{
    *to = calloc(1, sizeof **to);
    return *to ? 0 : 2;
}

EXPORTED int cudnnDestroy(struct handle *handle)
{
    free(handle);
    return 0;
}

EXPORTED int cudnnSetStream(struct handle *handle, void *stream)
{
    handle->stream = stream;
    return 0;
}

EXPORTED int cudnnGetStream(struct handle *handle, void **to)
{
    *to = handle->stream;
    return 0;
}

int soft_launched(void *handle)
{
    soft_library_launch(((struct handle *)handle)->stream);
    return 0;
}
