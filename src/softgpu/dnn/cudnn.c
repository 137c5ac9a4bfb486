/* The stand-in of cuDNN: its version and handles. */
#include <stddef.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

/* $SOFTGPU_CUDNN, as 92600 for 9.26.0: PyTorch wants the version that it was built with, or a newer one. */
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

EXPORTED int cudnnCreate(void **to)
{
    *to = calloc(1, 1);
    return *to ? 0 : 2;
}

EXPORTED int cudnnDestroy(void *handle)
{
    free(handle);
    return 0;
}

EXPORTED int cudnnSetStream(void *handle, void *stream)
{
    (void)handle, (void)stream;
    return 0;
}
