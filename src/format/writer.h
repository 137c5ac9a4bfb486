/*
 * Writes a snapshot file chunk by chunk. When a call that writes a chunk returns, the chunk is whole on disk (in the
 * page cache): after a kill a reader finds everything up to the last such call. One thread at a time.
 *
 * Tables (strings, frames, stacks, modules, devices, tracks, threads) only grow: each call appends entries, whose ids
 * follow on. A table entry must be written before, or in the same call order as, the first event that names it; the
 * writer never reorders. Entry 0 of strings, stacks and modules is written like the others; its id is valid even before
 * that. The writer refuses chunks that a reader would take for damage: ids not yet written, time that runs backwards,
 * block numbers far out of order. It returns MP_INVALID and writes nothing of that chunk.
 *
 * After a failed write the file is truncated to its last whole chunk, and every later call fails with the same error
 * (MP_IO; the sentence does not know the file's name).
 */
#ifndef MP_FORMAT_WRITER_H
#define MP_FORMAT_WRITER_H

#include "base/error.h"
#include "format/reader.h"
#include "format/recording.h"

struct mp_writer;

struct mp_string {
    const char *text;
    size_t length;
};

/* Takes over fd, an empty file, and writes the first object. Finish and abandon close fd; so does a failure here. */
enum mp_status mp_writer_open(int fd, const struct mp_recording_start *start, struct mp_writer **writer,
                              struct mp_error *error);

enum mp_status mp_writer_strings(struct mp_writer *writer, const struct mp_string *strings, size_t count,
                                 struct mp_error *error);
enum mp_status mp_writer_devices(struct mp_writer *writer, const struct mp_device *devices, size_t count,
                                 struct mp_error *error);
enum mp_status mp_writer_tracks(struct mp_writer *writer, const struct mp_track *tracks, size_t count,
                                struct mp_error *error);
enum mp_status mp_writer_threads(struct mp_writer *writer, const struct mp_thread_info *threads, size_t count,
                                 struct mp_error *error);
enum mp_status mp_writer_modules(struct mp_writer *writer, const struct mp_module *modules, size_t count,
                                 struct mp_error *error);
enum mp_status mp_writer_frames(struct mp_writer *writer, const struct mp_frame *frames, size_t count,
                                struct mp_error *error);
enum mp_status mp_writer_stacks(struct mp_writer *writer, const struct mp_stack_node *nodes, size_t count,
                                struct mp_error *error);
enum mp_status mp_writer_symbols(struct mp_writer *writer, const struct mp_symbol *symbols, size_t count,
                                 struct mp_error *error);
enum mp_status mp_writer_samples(struct mp_writer *writer, const struct mp_sample *samples, size_t count,
                                 struct mp_error *error);

enum mp_status mp_writer_segments(struct mp_writer *writer, const struct mp_segment *segments, size_t count,
                                  struct mp_error *error);
enum mp_status mp_writer_parts(struct mp_writer *writer, const struct mp_segment_part *parts, size_t count,
                               struct mp_error *error);
enum mp_status mp_writer_calls(struct mp_writer *writer, const struct mp_allocator_call *calls, size_t count,
                               struct mp_error *error);
enum mp_status mp_writer_asides(struct mp_writer *writer, const struct mp_aside *asides, size_t count,
                                struct mp_error *error);

/* Labels of blocks. They may be written before the events of those blocks. */
enum mp_status mp_writer_labels(struct mp_writer *writer, const struct mp_label *labels, size_t count,
                                struct mp_error *error);

/* Holders of blocks, likewise. */
enum mp_status mp_writer_holders(struct mp_writer *writer, const struct mp_block_holder *holders, size_t count,
                                 struct mp_error *error);

/* Metadata of blocks, likewise. */
enum mp_status mp_writer_metadata(struct mp_writer *writer, const struct mp_block_metadata *metadata, size_t count,
                                  struct mp_error *error);

/* Requests for blocks, likewise. */
enum mp_status mp_writer_requests(struct mp_writer *writer, const struct mp_block_request *requests, size_t count,
                                  struct mp_error *error);

/* The time before the first event; must be written before that event. */
enum mp_status mp_writer_past(struct mp_writer *writer, const struct mp_past *past, struct mp_error *error);
enum mp_status mp_writer_past_peaks(struct mp_writer *writer, const struct mp_past_peak *peaks, size_t count,
                                    struct mp_error *error);
enum mp_status mp_writer_past_sites(struct mp_writer *writer, const struct mp_past_site *sites, size_t count,
                                    struct mp_error *error);
/* Rows of any kind above, as returned by a reader. */
enum mp_status mp_writer_rows(struct mp_writer *writer, enum mp_chunk_kind kind, const void *rows, size_t count,
                              struct mp_error *error);

/* At most MP_CHUNK_EVENTS events, in order of time; `live_bytes` per track at the first of them (track_count entries).
 * `marks`: how far each ring had been read. Members that an event's type does not have (see struct mp_event; a stack
 * also on resize) are not kept. */
enum mp_status mp_writer_events(struct mp_writer *writer, const struct mp_event *events, size_t count,
                                const uint64_t *live_bytes, size_t track_count, const struct mp_ring_mark *marks,
                                size_t mark_count, struct mp_error *error);

/* The blocks live at time_ns; new ones (at the beginning of a recording) in order of their numbers. */
enum mp_status mp_writer_base(struct mp_writer *writer, uint64_t time_ns, const struct mp_base_block *blocks,
                              size_t count, struct mp_error *error);

enum mp_status mp_writer_coverage(struct mp_writer *writer, const struct mp_coverage *coverage, struct mp_error *error);
enum mp_status mp_writer_exit(struct mp_writer *writer, const struct mp_exit *how, struct mp_error *error);

/* For a file made from one that lost something: records that `chunks` are missing here, so that a reader counts them as
 * lost, too. `next_block`, where it exceeds the writer's own: the number that the next new block gets; with it, and
 * without lost chunks, numbers begin late in a file whose start says so. */
void mp_writer_lost(struct mp_writer *writer, uint64_t chunks, uint64_t next_block);

uint64_t mp_writer_bytes(const struct mp_writer *writer);  /* written so far */
uint64_t mp_writer_memory(const struct mp_writer *writer); /* bytes of memory in use */

/* Copies everything written so far to `fd`, an empty file (taken over, also on failure), and continues there. The old
 * file is closed unchanged; another process may go on writing to it, since offsets are not shared. */
enum mp_status mp_writer_redirect(struct mp_writer *writer, int fd, struct mp_error *error);

/* The contents of a writer so far. Another writer may copy them while this one goes on; it must not end meanwhile. */
struct mp_written {
    int fd; /* the writer's own */
    uint64_t bytes, next_block;
    uint64_t tables[MP_CHUNK_STACKS + 1]; /* entries, by kind */
    struct mp_index_entry *chunks;        /* freed by the caller */
    size_t count;
};
enum mp_status mp_writer_written(const struct mp_writer *writer, struct mp_written *written, struct mp_error *error);
/* Appends those chunks of `from` that begin at `offset` or later, unchanged. Everything before them must have been
 * written to `writer`, too, with the same ids and block numbers. */
enum mp_status mp_writer_copy(struct mp_writer *writer, const struct mp_written *from, uint64_t offset,
                              struct mp_error *error);

/* Writes the index and the clean-end mark, closes the file and frees the writer, whatever the result. */
enum mp_status mp_writer_finish(struct mp_writer *writer, struct mp_error *error);
/* Closes the file without finishing it (a cut file) and frees the writer. Ignores NULL. */
void mp_writer_abandon(struct mp_writer *writer);

#endif
