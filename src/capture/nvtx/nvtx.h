/* The front end for NVTX ranges, marks and names of memory (docs/ARCHITECTURE.md, "NVTX ranges"). */
#pragma once

#include "capture/core/front.h"

extern const struct mp_front mp_nvtx_front;
