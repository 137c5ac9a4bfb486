/*
 * Writes a snapshot file chunk by chunk. When a call that writes a chunk returns, the chunk is whole in the page cache.
 * After a kill, a reader finds everything up to the last such call. One thread at a time.
 *
 * Tables (strings, frames, stacks, modules, devices, tracks, threads) only grow. Each call appends entries, whose ids
 * follow the earlier ones. The caller must write a table entry before the first event that names it, since the writer
 * never reorders. Entry 0 of strings, stacks and modules is written like any other; its id is valid even before that.
 *
 * The writer refuses chunks that a reader would take for damage: ids not yet written, time that runs backwards, block
 * numbers far out of order. It returns MP_INVALID and writes nothing of that chunk.
 *
 * After a failed write the file is truncated to its last whole chunk, and every later call fails with the same error
 * (MP_IO; its sentence does not name the file).
 */
#pragma once

#include "base/error.h"
#include "format/reader.h"
#include "format/recording.h"

struct mp_writer;

struct mp_string {
    const char *text;
    size_t length;
};

/* Takes over `fd`, an empty file, and writes the first object. mp_writer_finish() and mp_writer_abandon() close `fd`;
 * so does a failure of this function. */
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

/* Uses of blocks by operators. They may be written before the events of those blocks. */
enum mp_status mp_writer_uses(struct mp_writer *writer, const struct mp_block_use *uses, size_t count,
                              struct mp_error *error);
/* Holders of blocks. They may be written before the events of those blocks. */
enum mp_status mp_writer_holders(struct mp_writer *writer, const struct mp_block_holder *holders, size_t count,
                                 struct mp_error *error);

/* Metadata of blocks. They may be written before the events of those blocks. */
enum mp_status mp_writer_metadata(struct mp_writer *writer, const struct mp_block_metadata *metadata, size_t count,
                                  struct mp_error *error);

/* Requests for blocks. They may be written before the events of those blocks. */
enum mp_status mp_writer_requests(struct mp_writer *writer, const struct mp_block_request *requests, size_t count,
                                  struct mp_error *error);

/* The time before the file's first event. Must be written before that event. */
enum mp_status mp_writer_past(struct mp_writer *writer, const struct mp_past *past, struct mp_error *error);
enum mp_status mp_writer_past_peaks(struct mp_writer *writer, const struct mp_past_peak *peaks, size_t count,
                                    struct mp_error *error);
enum mp_status mp_writer_past_sites(struct mp_writer *writer, const struct mp_past_site *sites, size_t count,
                                    struct mp_error *error);
/* Writes rows of any kind above, as a reader returns them. */
enum mp_status mp_writer_rows(struct mp_writer *writer, enum mp_chunk_kind kind, const void *rows, size_t count,
                              struct mp_error *error);

/* Writes at most MP_CHUNK_EVENTS events, in order of time. `live_bytes`: the live bytes of each track at the first
 * event (track_count entries). `marks`: how far each ring had been read. Members that the event's type does not have
 * (see MP_EVENT_FIELDS; also the stack of a resize) are not kept. */
enum mp_status mp_writer_events(struct mp_writer *writer, const struct mp_event *events, size_t count,
                                const uint64_t *live_bytes, size_t track_count, const struct mp_ring_mark *marks,
                                size_t mark_count, struct mp_error *error);

/* Writes the blocks that live at time_ns. Blocks that have no number yet, at a recording's begin, must be in the order
 * of their numbers. */
enum mp_status mp_writer_base(struct mp_writer *writer, uint64_t time_ns, const struct mp_base_block *blocks,
                              size_t count, struct mp_error *error);

enum mp_status mp_writer_coverage(struct mp_writer *writer, const struct mp_coverage *coverage, struct mp_error *error);
enum mp_status mp_writer_exit(struct mp_writer *writer, const struct mp_exit *how, struct mp_error *error);

/* For a copy of a file with losses: records that `chunks` chunks are missing here, so that readers count them as lost,
 * too. If `next_block` exceeds the writer's own, the next new block gets that number. With `chunks` 0, this makes block
 * numbers begin above 0, in a file whose start says so (starts_late). */
void mp_writer_lost(struct mp_writer *writer, uint64_t chunks, uint64_t next_block);

uint64_t mp_writer_bytes(const struct mp_writer *writer); /* written so far */
/* True if another file is at `path` than the writer's; false if none is there. */
bool mp_writer_is_replaced(const struct mp_writer *writer, const char *path);
uint64_t mp_writer_memory(const struct mp_writer *writer); /* bytes of memory in use */

/* Copies everything written so far to `fd`, an empty file, and continues there. Takes `fd` over, also on failure. The
 * old file is closed unchanged. Another process may go on writing to the old file, since the two share no file
 * offset. */
enum mp_status mp_writer_redirect(struct mp_writer *writer, int fd, struct mp_error *error);

/* A view of what a writer has written so far. Another writer may copy these chunks while this writer goes on, but not
 * after this writer has ended. */
struct mp_written {
    int fd; /* the writer's own descriptor */
    uint64_t bytes, next_block;
    uint64_t tables[MP_CHUNK_STACKS + 1]; /* entries written, by chunk kind */
    struct mp_index_entry *chunks;        /* freed by the caller */
    size_t count;
};
enum mp_status mp_writer_written(const struct mp_writer *writer, struct mp_written *written, struct mp_error *error);
/* Appends the chunks of `from` that begin at `offset` or later, unchanged. The caller must have written all earlier
 * contents to `writer`, too, with the same ids and block numbers. */
enum mp_status mp_writer_copy(struct mp_writer *writer, const struct mp_written *from, uint64_t offset,
                              struct mp_error *error);

/* Writes the index and the clean-end mark, closes the file and frees the writer, whatever the result. */
enum mp_status mp_writer_finish(struct mp_writer *writer, struct mp_error *error);
/* Closes the file without finishing it (a cut file) and frees the writer. Ignores NULL. */
void mp_writer_abandon(struct mp_writer *writer);
