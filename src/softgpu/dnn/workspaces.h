/* Working memory that cuDNN asks for. */
#pragma once

#include <stddef.h>

/* Sets the bytes of a workspace to 0, since its size is not known, and makes a mark about this in the recording, once.
 * Returns 0, cuDNN's success. */
int softdnn_workspace(size_t *bytes);
