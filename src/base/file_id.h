/* Identifies a loaded file when its build-id is missing. Never allocates; may be called in the program. */
#pragma once

#include <stdint.h>

#define MP_BUILD_ID_MAX 32 /* bytes; longer ids are cut, which only makes a comparison less strict */

struct mp_file_id {
    uint64_t size, inode;
    int64_t mtime_ns;
    uint8_t build_id_size; /* 0: none */
    uint8_t build_id[MP_BUILD_ID_MAX];
};
