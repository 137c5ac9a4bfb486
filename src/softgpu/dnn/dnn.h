/* Shared by the files of the stand-in of cuDNN. */
#pragma once

#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

/* Sets the bytes of a workspace to 0, since its size is not known, and makes a mark about this in the recording, once.
 * Returns 0, cuDNN's success. */
int softdnn_workspace(size_t *bytes);

/* Called by functions that compute, also by stubs (stub.h): the driver counts a kernel on the handle's stream. */
int soft_launched(void *handle);
struct handle;
