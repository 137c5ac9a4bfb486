/*
 * The file that $SOFTGPU_STATE names: the memory that each process with the stand-in driver holds on each device. The
 * drivers write it; the stand-in of NVML reads it, and counts its readings. A file of zeroes is an empty state.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#define SOFT_DEVICES   8
#define SOFT_PROCESSES 64

struct soft_state {
    struct {
        int32_t pid; /* 0: free */
        int32_t padding;
        uint64_t used[SOFT_DEVICES]; /* by the device's physical ordinal; includes contexts */
    } processes[SOFT_PROCESSES];
    uint64_t readings[SOFT_DEVICES]; /* how often a program began to read the used memory of each device */
};

/* The 16 bytes of a device's UUID, and NVML's text for it ("GPU-50f7a9d0-..."). */
static inline void soft_uuid(int physical, unsigned char uuid[16])
{
    for (int i = 0; i < 16; i++)
        uuid[i] = (unsigned char)(0x50 + 7 * i + 16 * physical);
}

static inline void soft_uuid_text(const char *prefix, const unsigned char uuid[16], char text[64])
{
    snprintf(text, 64, "%s%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", prefix, uuid[0],
             uuid[1], uuid[2], uuid[3], uuid[4], uuid[5], uuid[6], uuid[7], uuid[8], uuid[9], uuid[10], uuid[11],
             uuid[12], uuid[13], uuid[14], uuid[15]);
}
