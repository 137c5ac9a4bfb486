/*
 * Reads a snapshot file chunk by chunk in bounded memory, even a cut or damaged one. It trusts nothing in the file. The
 * file's size bounds every length, and each table's size bounds the ids of its entries. An event or node with an id
 * beyond that is damage. One thread at a time.
 */
#pragma once

#include "base/error.h"
#include "format/chunk.h"

struct mp_reader;

/* The damage found in a file; all zero for a whole file. */
struct mp_damage {
    bool cut;             /* no clean-end mark */
    uint64_t lost_bytes;  /* bytes that belong to no readable chunk */
    uint64_t lost_chunks; /* gaps in the chunk sequence */
};

static inline bool mp_damage_any(const struct mp_damage *damage)
{
    return damage->cut || damage->lost_bytes || damage->lost_chunks;
}

/* Opens a recording even if its first object is cut or damaged. Its start then has zeroes and empty texts, except for
 * starts_late, and the damage includes that object. Fails with MP_NOT_A_RECORDING, MP_TOO_NEW, MP_IO or MP_NO_MEMORY;
 * the sentence names `path`. */
enum mp_status mp_reader_open(const char *path, struct mp_reader **reader, struct mp_error *error);
const struct mp_recording_start *mp_reader_start(const struct mp_reader *reader);
uint64_t mp_reader_file_bytes(const struct mp_reader *reader);

/* Reads the next readable chunk in file order: MP_OK, or MP_NOT_FOUND at the end of the file. Passes over damaged
 * chunks and counts them. Never returns the index or chunks of unknown kinds. Any other status is about memory or
 * I/O. */
enum mp_status mp_reader_next(struct mp_reader *reader, struct mp_chunk *chunk, struct mp_error *error);

/* The damage found so far; complete once mp_reader_next() has returned MP_NOT_FOUND. */
const struct mp_damage *mp_reader_damage(const struct mp_reader *reader);
void mp_reader_close(struct mp_reader *reader);
