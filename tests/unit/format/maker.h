/*
 * Recordings made up for the tests of the file format: everything written is also kept as plain arrays, to compare with
 * what is read.
 */
#pragma once

#include "base/vec.h"
#include "format/reader.h"
#include "format/writer.h"

/* One chunk as it was written. */
struct made_chunk {
    enum mp_chunk_kind kind;
    size_t count;
    void *rows; /* copies, in the structures of recording.h; strings as struct mp_string; NULL for none */
    uint64_t time_ns;
    uint64_t live_bytes[3];
    size_t live_bytes_count;
    struct mp_ring_mark marks[2];
    size_t mark_count;
    uint64_t bytes_before, bytes_after; /* of the file */
};

struct maker {
    struct mp_writer *writer;
    MP_VEC(struct made_chunk) chunks;
    uint64_t random;
    uint64_t now, next_block;
    size_t strings, devices, tracks, threads, modules, frames, stacks;
    bool paths;                   /* blocks have the paths of modules, and roles: every other round */
    MP_VEC(struct mp_event) live; /* the latest alloc or resize of each live block */
};

extern const struct mp_recording_start made_start;

uint64_t made_random(struct maker *maker);
/* Makes a recording with a chunk of each kind and random events of every type. It has `rounds` event chunks with up to
 * `events` events each. The file is finished, or left cut. All calls must succeed. */
void make_recording(struct maker *maker, int fd, size_t rounds, size_t events, bool finish);
void free_made(struct maker *maker);
/* True if the chunk equals the written one; compares in both directions. */
bool same_as_made(const struct mp_chunk *chunk, const struct made_chunk *made);
