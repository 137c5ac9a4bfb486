/*
 * Public names: of Python, PyTorch, CUDA, the C and C++ libraries, and of memprof's own sentences. A name is public
 * only if one of the short lists has it, never because of its beginning. Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The public end of a Python file's path ("/site-packages/torch/nn/functional.py"); a name in angle brackets is public
 * as a whole. NULL: the file is private. */
const char *mp_public_path(const char *path);
/* The file name of a known library's or interpreter's shared object; NULL: private. All functions in it are public. */
const char *mp_public_library(const char *path);
/* True if the name of a Python function in a public file is public; also for functions without a name. */
bool mp_public_python(const char *name);
/* True if a thread's name is that of a library's thread. */
bool mp_public_thread(const char *name);
/* True if a text is memprof's own: all its words occur in memprof's sentences, and the rest is numbers. */
bool mp_public_words(const char *text);
/* True if a setting's key in a recording's configuration (`length` bytes) has a number as its value. */
bool mp_public_setting(const char *key, size_t length);
/* True if an operator's name is public. True if a text is the type and the sizes of a tensor. */
bool mp_public_operator(const char *name);
bool mp_public_shape(const char *text);
/* True if `role`, the part of a process in its job, is empty or a name that memprof or a launcher gives ("loader
 * worker", "trainer"). */
bool mp_public_role(const char *role);
/* True if the name is a device ("cuda:0") or a maker's product ("NVIDIA H200"). */
bool mp_public_device(const char *name);
bool mp_public_model(const char *name);

/* True if a part of a module's or tensor's path (`length` bytes) is one that PyTorch's own modules and optimizers use:
 * "weight", "bias". */
bool mp_public_tensor(const char *name, size_t length);
