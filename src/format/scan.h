/*
 * Finds the chunks of a file by their bytes alone, passing over damage. Reads with pread(), so that a file that shrinks
 * meanwhile is a cut file and not a SIGBUS. One thread at a time.
 */
#ifndef MP_FORMAT_SCAN_H
#define MP_FORMAT_SCAN_H

#include "base/error.h"
#include "base/vec.h"
#include "format/layout.h"

struct mp_scan {
    int fd;
    uint64_t at;          /* where the next chunk should begin */
    uint64_t end;         /* where chunks end: at the clean-end mark, else at the end of the file */
    bool has_end;         /* clean-end mark found */
    bool shrank;          /* the file became shorter while it was read */
    uint32_t chunk_total; /* the number of chunks according to that mark */
    uint64_t lost_bytes;
    uint64_t effort; /* bytes that may still be read in vain: many false sync marks must not cost quadratic time */
    MP_VEC(unsigned char) bytes; /* of the current chunk */
};

/* Looks for the clean-end mark of the file with `size` bytes whose chunks begin at `start`. */
enum mp_status mp_scan_open(struct mp_scan *scan, int fd, uint64_t start, uint64_t size, struct mp_error *error);
/* Finds the chunk at scan->at or the next whole one after it: its bytes are in scan->bytes, its offset in scan->at.
 * MP_NOT_FOUND where there is none. */
enum mp_status mp_scan_chunk(struct mp_scan *scan, struct mp_error *error);
/* Moves past the current chunk. */
void mp_scan_advance(struct mp_scan *scan);
void mp_scan_close(struct mp_scan *scan); /* leaves fd open */

/* Reads up to size bytes at offset; fewer only at the end of the file. -1: see errno. */
ssize_t mp_read_at(int fd, void *to, size_t size, uint64_t offset);

#endif
