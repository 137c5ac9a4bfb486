/*
 * The agreement between writer and reader of a snapshot file, apart from the columns: constants, bounds, and the facts
 * in a chunk's meta map. docs/FORMAT.md describes it for other programs.
 */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "format/chunk.h"

#define MP_FORMAT_VERSION     2 /* the version that this program writes, and the newest that it reads */
#define MP_FORMAT_MIN_READER  1 /* readers older than this version do not understand our files */
#define MP_FORMAT_STARTS_LATE 2 /* the least reader for files with mp_recording_start.starts_late */

/*
 * A chunk is a msgpack array of seven. All up to `kind` has fixed widths, so that a chunk's head has MP_HEAD_BYTES:
 *   97                 array of 7
 *   c4 08 <8 bytes>    sync mark
 *   ce <4 bytes>       sequence
 *   ce <4 bytes>       length: bytes after `kind` to the end of the chunk
 *   ce <4 bytes>       checksum: CRC-32 of everything from `sequence` on, without this object
 *   <1 byte>           kind
 *   map                meta
 *   bin                payload: one zstd frame, or empty
 */
#define MP_SYNC_BYTES 11
#define MP_SYNC       "\x97\xc4\x08\xd5\x1c\xe9\x86\xb7\x4d\xf2\x3b"
#define MP_HEAD_BYTES 27
enum { MP_AT_SEQUENCE = 11, MP_AT_LENGTH = 16, MP_AT_CHECKSUM = 21, MP_AT_KIND = 26 };

/*
 * The clean-end mark is a msgpack array of four, the last bytes of a finished file:
 *   94                 array of 4
 *   c4 08 <8 bytes>    end mark
 *   cf <8 bytes>       offset of the first index chunk
 *   ce <4 bytes>       number of chunks in the file, index included
 *   ce <4 bytes>       checksum: CRC-32 of all before this object
 */
#define MP_END       "\x94\xc4\x08\x6e\xa3\x0d\xf8\x91\x57\xbc\xe4"
#define MP_END_BYTES 30
enum { MP_END_AT_INDEX = 11, MP_END_AT_COUNT = 20, MP_END_AT_CHECKSUM = 25 };

/* Bounds. A reader treats anything beyond them as damage; a writer splits its data, or returns MP_LIMIT. */
#define MP_CHUNK_ENTRIES 65536       /* entries of a chunk, and of any column but text columns */
#define MP_CHUNK_TEXT    (1u << 20)  /* a strings chunk is closed when it has this much text */
#define MP_STRING_BYTES  (8u << 20)  /* bytes of one string */
#define MP_CHUNK_BYTES   (64u << 20) /* the highest `length` of a chunk */
#define MP_START_BYTES   (16u << 20) /* bytes of the first object */
#define MP_COLUMNS       32          /* columns of one chunk */
#define MP_TEXT_BYTES    (1u << 30)  /* bytes of all strings together */

/* The meta map. docs/FORMAT.md says which keys each kind of chunk has; absent keys are 0. */
struct mp_chunk_meta {
    size_t count;
    uint64_t tables[MP_CHUNK_STACKS]; /* how many strings, devices, ... stacks came before this chunk */
    uint64_t time_ns, end_ns;         /* times of the first and the last event or sample; for a base, both are its
                                       * time */
    uint64_t next_block;              /* events, base: the number that the next new block gets */
    uint64_t total, part_first;       /* base: blocks of the whole base; blocks in its parts before this one */
    const uint64_t *live_bytes;
    size_t live_bytes_count;
    const struct mp_ring_mark *marks;
    size_t mark_count;
};

static inline void mp_put_be32(unsigned char *to, uint32_t value)
{
    value = htobe32(value);
    memcpy(to, &value, 4);
}

static inline uint32_t mp_get_be32(const unsigned char *from)
{
    uint32_t value;
    memcpy(&value, from, 4);
    return be32toh(value);
}

static inline void mp_put_be64(unsigned char *to, uint64_t value)
{
    value = htobe64(value);
    memcpy(to, &value, 8);
}
