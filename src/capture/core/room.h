/*
 * The recorder's own memory, mapped only when and as far as it is needed. A process without events maps none: the
 * program needs address space and locked memory, too. After mlockall(MCL_FUTURE) the kernel fills every new mapping
 * with memory. So the recorder maps memory without access, unlocks it, and then opens it. Never allocates otherwise;
 * any thread, in hooks.
 */
#pragma once

#include <stddef.h>
#include <sys/mman.h>

#include "base/kernel.h"

/* Maps zeroed memory that core dumps leave out. NULL: there is no memory. */
static inline void *mp_room_map(size_t bytes)
{
    void *at = mp_mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return NULL;
    mp_munlock(at, bytes);
    if (mp_mprotect(at, bytes, PROT_READ | PROT_WRITE)) {
        mp_munmap(at, bytes);
        return NULL;
    }
    mp_madvise(at, bytes, MADV_DONTDUMP);
    return at;
}

#define MP_ROOM_PIECE ((size_t)1 << 16) /* a multiple of the page size on any machine */

/* Gives whole pieces of memory back to the kernel but keeps the mapping: a late reader finds zeros. */
static inline void mp_room_empty(void *at, size_t bytes)
{
    mp_munlock(at, bytes);
    mp_madvise(at, bytes, MADV_DONTNEED);
}

static inline void mp_room_unmap(void *at, size_t bytes)
{
    if (at) mp_munmap(at, bytes);
}
