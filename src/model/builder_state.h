/* Shared by the two halves of the builder, builder.c (tables, life) and builder_events.c (events, base). Private. */
#ifndef MP_MODEL_BUILDER_STATE_H
#define MP_MODEL_BUILDER_STATE_H

#include "base/map.h"
#include "model/builder.h"

struct mp_builder_level {
    uint64_t bytes, blocks; /* live now */
};

/* A label as read; the events of its block may come later. */
struct mp_builder_label {
    uint64_t number;
    uint64_t time_ns; /* UINT64_MAX: `event` is known instead */
    uint32_t event, role, name;
};

struct mp_builder {
    struct mp_model *model;
    size_t event_room, block_room;
    MP_VEC(uint32_t) string_ids; /* from the file's id to the model's: they differ only where a file repeats a string */
    MP_VEC(uint32_t) device_ids; /* likewise: a device that is named again is the same one, with more facts */
    MP_VEC(uint16_t) depths;     /* of stacks: the number of nodes above each */
    MP_VEC(uint32_t) by_number;  /* block number to index in blocks + 1; 0: not seen */
    struct mp_map far_numbers;   /* the same for numbers beyond holes larger than lost chunks explain, by number + 1 */
    uint64_t near_limit; /* numbers below it go to by_number: the chunks read so far could have made that many */
    MP_VEC(struct mp_builder_level) levels;  /* per track */
    MP_VEC(struct mp_base_block) base_parts; /* of a base that comes in several chunks, until it is whole */
    struct mp_map devices;                   /* string id of the name to index */
    struct mp_map job_tracks;                /* process + 1 and string id of the track; with 0 their number */
    struct mp_map resized;                   /* block index + 1 to its present size, for blocks that were resized */
    MP_VEC(struct mp_builder_label) labels;
    MP_VEC(struct mp_block_holder) holders;
    MP_VEC(struct mp_block_metadata) metadata;
    MP_VEC(struct mp_block_request) requests; /* as read */
    uint64_t first_block;                     /* where the file's numbers begin */
    bool any_blocks;
    uint64_t last_ns;
    uint64_t next_sequence; /* of the next chunk, if none was lost */
    uint64_t gap_chunks;    /* lost before the present chunk */
    bool any_chunk;
    size_t live_blocks;
};

enum mp_status mp_builder_add_events(struct mp_builder *builder, const struct mp_chunk *chunk, struct mp_error *error);
enum mp_status mp_builder_add_base(struct mp_builder *builder, const struct mp_chunk *chunk, struct mp_error *error);
/* Takes the parts of a base whose other parts never came. */
void mp_builder_end_base(struct mp_builder *builder);
/* The index of a block number, or MP_NONE where it was never seen. */
uint32_t mp_builder_block(const struct mp_builder *builder, uint64_t number);
/* The time before the file's events (builder_past.c). */
void mp_builder_add_past(struct mp_builder *builder, const struct mp_chunk *chunk);
void mp_builder_add_past_peaks(struct mp_builder *builder, const struct mp_chunk *chunk);
void mp_builder_add_past_sites(struct mp_builder *builder, const struct mp_chunk *chunk);
/* Notes that a block turns out to have lived through all that time. */
void mp_builder_was_in_past(struct mp_builder *builder, uint16_t track, uint8_t kind, uint64_t bytes);
void mp_builder_end_past(struct mp_builder *builder);
void mp_builder_add_labels(struct mp_builder *builder, const struct mp_chunk *chunk);
void mp_builder_add_holders(struct mp_builder *builder, const struct mp_chunk *chunk);
void mp_builder_end_holders(struct mp_builder *builder);
void mp_builder_add_metadata(struct mp_builder *builder, const struct mp_chunk *chunk);
void mp_builder_end_metadata(struct mp_builder *builder);
void mp_builder_add_requests(struct mp_builder *builder, const struct mp_chunk *chunk);
/* Takes over the labels and requests that a base has for its blocks. */
void mp_builder_base_labels(struct mp_builder *builder, const struct mp_base_block *base, size_t count);
/* Make the model's labels and requests from all that were read. */
void mp_builder_end_labels(struct mp_builder *builder);
void mp_builder_end_requests(struct mp_builder *builder);
/* The model's id for a string of the file; 0 for a missing one. */
uint32_t mp_builder_string(const struct mp_builder *builder, uint32_t id);

/* Rows of a job, of kinds MP_CHUNK_JOB_PROCESSES on; whether all that they name is there. */
void mp_builder_add_job(struct mp_builder *builder, const struct mp_chunk *chunk);
bool mp_builder_knows_job(struct mp_builder *builder, const struct mp_chunk *chunk);

#endif
