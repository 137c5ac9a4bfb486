/*
 * The functions of PyTorch's libc10 through which its allocators report, by their mangled names. The recorder defines
 * functions of these names, which are called first. `attach` probes the originals. `doctor` checks whether an installed
 * libc10 has them.
 */
#pragma once

#include <stdint.h>

#define MP_C10_USAGE_UNSIGNED         "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE" /* 2.x */
#define MP_C10_USAGE_SIGNED           "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE" /* 1.10 to 1.13 */
#define MP_C10_USAGE_OLD              "_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE"   /* 1.9 */
#define MP_C10_OUT_OF_MEMORY_UNSIGNED "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"
#define MP_C10_OUT_OF_MEMORY_SIGNED   "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE"

/* c10::Device: two bytes, passed in one register. */
struct mp_c10_device {
    int8_t type, index;
};
