/* Internals of the stand-in of cuDNN. */
#ifndef SOFTGPU_DNN_DNN_H
#define SOFTGPU_DNN_DNN_H

#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

/* Bytes of a workspace, which are not known: none. Says so in the recording, once. Returns 0, cuDNN's success. */
int softdnn_workspace(size_t *bytes);

#endif
