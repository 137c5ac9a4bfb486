/* Reading an interpreter's memory at byte offsets. Never allocates; any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline const char *mp_load_pointer(const char *base, size_t offset)
{
    const char *value;
    memcpy(&value, base + offset, sizeof value);
    return value;
}

static inline uint32_t mp_load_u32(const char *base, size_t offset)
{
    uint32_t value;
    memcpy(&value, base + offset, sizeof value);
    return value;
}

static inline int64_t mp_load_i64(const char *base, size_t offset)
{
    int64_t value;
    memcpy(&value, base + offset, sizeof value);
    return value;
}
