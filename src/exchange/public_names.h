/* Names that everybody knows: of Python, PyTorch, CUDA, the C and C++ libraries. Pure; any thread. */
#ifndef MP_EXCHANGE_PUBLIC_NAMES_H
#define MP_EXCHANGE_PUBLIC_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* The part of a source file's path that begins where the public part does ("/site-packages/torch/nn/functional.py"); a
 * name in angle brackets is public as a whole. NULL: the file is somebody's own. */
const char *mp_public_path(const char *path);
/* The name of a shared object without its folders; NULL: somebody's own. */
const char *mp_public_library(const char *path);
/* A function by its name alone: a native one of those libraries, all types in it included; one that has no name. */
bool mp_public_function(const char *name);
/* A thread, by its name: those that libraries start. */
bool mp_public_thread(const char *name);

/* A part of a module's or tensor's path (`length` bytes): "weight", "bias", what PyTorch's own modules and optimizers
 * call theirs. */
bool mp_public_tensor(const char *name, size_t length);

#endif
