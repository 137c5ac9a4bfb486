/*
 * Public names: of Python, PyTorch, CUDA, the C and C++ libraries, and of memprof's own sentences. A name is public
 * because it is on a list, made from known builds by tools/public-names, and never because of how it begins. Pure; any
 * thread.
 */
#ifndef MP_EXCHANGE_PUBLIC_NAMES_H
#define MP_EXCHANGE_PUBLIC_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* The public end of a source file's path ("/site-packages/torch/nn/functional.py"); a name in angle brackets is public
 * as a whole. NULL: the file is private. */
const char *mp_public_path(const char *path);
/* The file name of a known library's or interpreter's shared object; NULL: private. */
const char *mp_public_library(const char *path);
/* Whether a native function's name is public: exported by a C library; or one of PyTorch's or the C++ library's whose
 * words, those of its types included, are all theirs. */
bool mp_public_function(const char *name);
/* Whether a Python function's name is public, given that its file is; also for functions without a name. */
bool mp_public_python(const char *name);
/* Whether a thread's name is that of a library's thread. */
bool mp_public_thread(const char *name);
/* Whether a text is memprof's own: all its words occur in memprof's sentences, and the rest is numbers. */
bool mp_public_words(const char *text);
/* Whether a setting's key in a recording's configuration (`length` bytes) has a number as its value. */
bool mp_public_setting(const char *key, size_t length);
/* Whether the part of a process in its job has a name that memprof or a launcher gives ("loader worker", "trainer"), or
 * none. */
bool mp_public_role(const char *role);
/* Whether the name is a device's ("cuda:0"), or its maker's name of it ("NVIDIA H200"). */
bool mp_public_device(const char *name);
bool mp_public_model(const char *name);

/* Whether a part of a module's or tensor's path (`length` bytes) is one that PyTorch's own modules and optimizers use:
 * "weight", "bias". */
bool mp_public_tensor(const char *name, size_t length);

#endif
