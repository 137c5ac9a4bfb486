/*
 * Finds the chunks of a file by their bytes, and skips damage. Reads with pread(), not mmap(): if the file shrinks
 * meanwhile, it counts as cut, and no SIGBUS is raised. One thread at a time.
 */
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "format/layout.h"

struct mp_scan {
    int fd;
    uint64_t at;          /* where the next chunk should begin */
    uint64_t end;         /* offset where chunks end: at the clean-end mark, else at the end of the file */
    bool has_end;         /* clean-end mark found */
    bool shrank;          /* the file became shorter while it was read */
    uint32_t chunk_total; /* the number of chunks according to the clean-end mark */
    uint64_t lost_bytes;
    uint64_t effort;             /* bytes that may still be read in vain: bounds the time that false sync marks cost */
    MP_VEC(unsigned char) bytes; /* of the current chunk */
};

/* Looks for the clean-end mark of a file. `size`: the file's size; `start`: where its chunks begin. */
enum mp_status mp_scan_open(struct mp_scan *scan, int fd, uint64_t start, uint64_t size, struct mp_error *error);
/* Finds the chunk at scan->at or the next whole chunk after it. Its bytes are then in scan->bytes, its offset in
 * scan->at. MP_NOT_FOUND if no chunk is left. */
enum mp_status mp_scan_chunk(struct mp_scan *scan, struct mp_error *error);
/* Moves past the current chunk. */
void mp_scan_advance(struct mp_scan *scan);
void mp_scan_close(struct mp_scan *scan); /* leaves fd open */

/* Reads up to size bytes at offset; fewer only at the end of the file. -1: see errno. */
ssize_t mp_read_at(int fd, void *to, size_t size, uint64_t offset);
