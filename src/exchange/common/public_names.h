/*
 * Names that everybody knows: of Python, PyTorch, CUDA, the C and C++ libraries, and of memprof's own sentences. A name
 * is public because a list has it, made from known builds by tools/public-names, and never by how it begins. Pure; any
 * thread.
 */
#ifndef MP_EXCHANGE_PUBLIC_NAMES_H
#define MP_EXCHANGE_PUBLIC_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* The part of a source file's path that begins where the public part does ("/site-packages/torch/nn/functional.py"); a
 * name in angle brackets is public as a whole. NULL: the file is somebody's own. */
const char *mp_public_path(const char *path);
/* The name of a shared object without its folders, one of a known library's or interpreter's; NULL: somebody's own. */
const char *mp_public_library(const char *path);
/* A native function by its name: one that a C library exports; one of PyTorch's or the C++ library's, where all words
 * of it, those of its types included, are theirs. */
bool mp_public_function(const char *name);
/* A Python function by its name, of a file that is public; one that has no name. */
bool mp_public_python(const char *name);
/* A thread, by its name: those that libraries start. */
bool mp_public_thread(const char *name);
/* A text of memprof's own: all words of it are of its sentences, and besides there are only numbers. */
bool mp_public_words(const char *text);
/* The key of a setting in a recording's configuration (`length` bytes) whose value is a number. */
bool mp_public_setting(const char *key, size_t length);
/* What a device is called ("cuda:0"), and its maker's name of it ("NVIDIA H200"). */
bool mp_public_device(const char *name);
bool mp_public_model(const char *name);

/* A part of a module's or tensor's path (`length` bytes): "weight", "bias", what PyTorch's own modules and optimizers
 * call theirs. */
bool mp_public_tensor(const char *name, size_t length);

#endif
