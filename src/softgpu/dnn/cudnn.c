/* The stand-in of cuDNN: its version and handles. */
#include <stddef.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

#ifndef SOFTDNN_VERSION
#    define SOFTDNN_VERSION 90100
#endif

EXPORTED size_t cudnnGetVersion(void)
{
    return SOFTDNN_VERSION;
}

EXPORTED size_t cudnnGetCudartVersion(void)
{
    return 12040;
}

EXPORTED int cudnnGetProperty(int which, int *value)
{
    *value = which == 0 ? SOFTDNN_VERSION / 10000 : which == 1 ? SOFTDNN_VERSION / 100 % 100 : SOFTDNN_VERSION % 100;
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
