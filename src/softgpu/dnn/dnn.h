/* Shared by the files of the stand-in of cuDNN. */
#pragma once

#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

/* Sets the bytes of a workspace to 0, since its size is not known, and makes a mark about this in the recording, once.
 * Returns 0, cuDNN's success. */
int softdnn_workspace(size_t *bytes);

struct handle;
EXPORTED int cudnnGetStream(struct handle *handle, void **to);
