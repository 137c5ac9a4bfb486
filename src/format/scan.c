#include "format/scan.h"

#include <errno.h>
#include <unistd.h>
#include <zlib.h>

#include "format/chunk_in.h"

#define SEARCH_BYTES 4096

ssize_t mp_read_at(int fd, void *to, size_t size, uint64_t offset)
{
    size_t have = 0;
    while (have < size) {
        ssize_t got = pread(fd, (char *)to + have, size - have, (off_t)(offset + have));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (!got) break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

/* Reads exactly `size` bytes at `offset` of the file to index `place` of scan->bytes. MP_NOT_FOUND if the file has
 * shrunk. */
static enum mp_status load(struct mp_scan *scan, size_t place, size_t size, uint64_t offset, struct mp_error *error)
{
    scan->bytes.count = place;
    if (!mp_vec_reserve(&scan->bytes, size))
        return mp_fail(error, MP_NO_MEMORY, "no memory to read a chunk of %zu bytes", size);
    ssize_t got = mp_read_at(scan->fd, scan->bytes.at + place, size, offset);
    if (got < 0) return mp_fail_errno(error, "cannot read the recording at byte %llu", (unsigned long long)offset);
    scan->bytes.count = place + (size_t)got;
    if ((size_t)got == size) return MP_OK;
    scan->shrank = true;
    return MP_NOT_FOUND;
}

enum mp_status mp_scan_open(struct mp_scan *scan, int fd, uint64_t start, uint64_t size, struct mp_error *error)
{
    *scan = (struct mp_scan){.fd = fd, .at = start, .end = size, .effort = 4 * size + (16u << 20)};
    if (size < start + MP_END_BYTES) return MP_OK;
    enum mp_status status = load(scan, 0, MP_END_BYTES, size - MP_END_BYTES, error);
    if (status) return status == MP_NOT_FOUND ? MP_OK : status;
    const unsigned char *end = scan->bytes.at;
    scan->has_end = !memcmp(end, MP_END, MP_SYNC_BYTES) && end[MP_END_AT_CHECKSUM] == 0xce &&
                    mp_get_be32(end + MP_END_AT_CHECKSUM + 1) == (uint32_t)crc32(0, end, MP_END_AT_CHECKSUM);
    if (!scan->has_end) return MP_OK;
    scan->end = size - MP_END_BYTES;
    scan->chunk_total = mp_get_be32(end + MP_END_AT_COUNT + 1);
    return MP_OK;
}

/* MP_OK: a whole chunk begins at `offset` and is now in scan->bytes. MP_NOT_FOUND: no whole chunk begins there. */
static enum mp_status try_chunk(struct mp_scan *scan, uint64_t offset, struct mp_error *error)
{
    uint32_t sequence, length;
    if (scan->end - offset < MP_HEAD_BYTES) return MP_NOT_FOUND;
    enum mp_status status = load(scan, 0, MP_HEAD_BYTES, offset, error);
    if (status) return status;
    if (!mp_chunk_head(scan->bytes.at, &sequence, &length)) return MP_NOT_FOUND;
    if (scan->end - offset - MP_HEAD_BYTES < length) return MP_NOT_FOUND;
    status = load(scan, MP_HEAD_BYTES, length, offset + MP_HEAD_BYTES, error);
    if (status) return status;
    if (mp_chunk_intact(scan->bytes.at, scan->bytes.count)) return MP_OK;
    scan->effort = scan->effort > length ? scan->effort - length : 0;
    return MP_NOT_FOUND;
}

/* Finds the first sync mark at or after *offset. Sets *offset to scan->end if there is none. */
static enum mp_status find_sync(struct mp_scan *scan, uint64_t *offset, struct mp_error *error)
{
    while (*offset < scan->end && scan->effort) {
        size_t want = scan->end - *offset < SEARCH_BYTES ? (size_t)(scan->end - *offset) : SEARCH_BYTES;
        enum mp_status status = load(scan, 0, want, *offset, error);
        if (status && status != MP_NOT_FOUND) return status;
        size_t have = scan->bytes.count;
        scan->effort = scan->effort > have ? scan->effort - have : 0;
        const unsigned char *found = memmem(scan->bytes.at, have, MP_SYNC, MP_SYNC_BYTES);
        if (found) {
            *offset += (uint64_t)(found - scan->bytes.at);
            return MP_OK;
        }
        if (have < SEARCH_BYTES) break;
        *offset += have - (MP_SYNC_BYTES - 1);
    }
    *offset = scan->end;
    return MP_OK;
}

enum mp_status mp_scan_chunk(struct mp_scan *scan, struct mp_error *error)
{
    uint64_t offset = scan->at;
    enum mp_status status = MP_NOT_FOUND;
    while (offset < scan->end) {
        status = try_chunk(scan, offset, error);
        if (status != MP_NOT_FOUND) break;
        offset++;
        enum mp_status searched = find_sync(scan, &offset, error);
        if (searched) return searched;
    }
    if (status && status != MP_NOT_FOUND) return status;
    scan->lost_bytes += offset - scan->at;
    scan->at = offset;
    return status;
}

void mp_scan_advance(struct mp_scan *scan)
{
    scan->at += scan->bytes.count;
}

void mp_scan_close(struct mp_scan *scan)
{
    mp_vec_free(&scan->bytes);
}
