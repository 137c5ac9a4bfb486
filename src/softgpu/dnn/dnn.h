/* Shared by the files of the stand-in of cuDNN. */
#pragma once

#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

struct handle;
