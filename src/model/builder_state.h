/* The builder's data, shared by its files: builder.c has tables and lifetimes, builder_events.c events and bases.
 * Private. */
#pragma once

#include "base/map.h"
#include "model/builder.h"

struct mp_builder_level {
    uint64_t bytes, blocks; /* live now */
};

/* A label as the file has it. The events of its block may come later. */
struct mp_builder_label {
    uint64_t number;
    uint64_t time_ns; /* UINT64_MAX: not used if `event` gives the moment */
    uint32_t event, role, name;
};

struct mp_builder {
    struct mp_model *model;
    size_t event_room, block_room;
    MP_VEC(uint32_t)
    string_ids;                  /* from the file's string ids to the model's, which differ if a file repeats a
                                  * string */
    MP_VEC(uint32_t) device_ids; /* from the file's devices to the model's: devices of one name become one device */
    MP_VEC(uint16_t) depths;     /* by stack: the number of nodes above it */
    MP_VEC(uint32_t) by_number;  /* by block number: 1 + the index in blocks; 0: not seen */
    struct mp_map far_numbers;   /* by number + 1: likewise, for numbers that lie too far ahead for by_number */
    uint64_t near_limit;         /* by_number has the numbers below this limit, up to which the chunks so far may have
                                  * gone */
    MP_VEC(struct mp_builder_level) levels;  /* by track */
    MP_VEC(struct mp_base_block) base_parts; /* the parts so far of a base that comes in several chunks */
    struct mp_map devices;                   /* string id of a device's name to its index */
    struct mp_map job_tracks;                /* set of (process + 1, string id of the track); with id 0: number of the
                                              * process's tracks */
    struct mp_map resized;                   /* 1 + the index of a resized block, to its current size */
    MP_VEC(struct mp_builder_label) labels;
    MP_VEC(struct mp_block_holder) holders;
    MP_VEC(struct mp_block_metadata) metadata;
    MP_VEC(struct mp_block_use) uses;
    MP_VEC(struct mp_block_request) requests; /* as read */
    uint64_t first_block;                     /* the first block number of the file */
    bool any_blocks;
    uint64_t last_ns;
    uint64_t next_sequence; /* number of the next chunk, if none is lost */
    uint64_t gap_chunks;    /* chunks that were lost right before the present one */
    bool any_chunk;
    size_t live_blocks;
};

enum mp_status mp_builder_add_events(struct mp_builder *builder, const struct mp_chunk *chunk, struct mp_error *error);
enum mp_status mp_builder_add_base(struct mp_builder *builder, const struct mp_chunk *chunk, struct mp_error *error);
/* Takes the parts of a base if its other parts never came. */
void mp_builder_end_base(struct mp_builder *builder);
/* The index of the block with that number, or MP_NONE if it was never seen. */
uint32_t mp_builder_block(const struct mp_builder *builder, uint64_t number);
/* Functions for the time before the file's events (builder_past.c). */
void mp_builder_add_past(struct mp_builder *builder, const struct mp_chunk *chunk);
void mp_builder_add_past_peaks(struct mp_builder *builder, const struct mp_chunk *chunk);
void mp_builder_add_past_sites(struct mp_builder *builder, const struct mp_chunk *chunk);
/* Called if a later base shows that a block has lived since before the file: adds the block to the peaks of that
 * time. */
void mp_builder_was_in_past(struct mp_builder *builder, uint16_t track, uint8_t kind, uint64_t bytes);
void mp_builder_end_past(struct mp_builder *builder);
void mp_builder_add_labels(struct mp_builder *builder, const struct mp_chunk *chunk);
void mp_builder_add_holders(struct mp_builder *builder, const struct mp_chunk *chunk);
void mp_builder_end_holders(struct mp_builder *builder);
void mp_builder_add_metadata(struct mp_builder *builder, const struct mp_chunk *chunk);
void mp_builder_end_metadata(struct mp_builder *builder);
void mp_builder_add_uses(struct mp_builder *builder, const struct mp_chunk *chunk);
void mp_builder_end_uses(struct mp_builder *builder);
void mp_builder_add_requests(struct mp_builder *builder, const struct mp_chunk *chunk);
/* Takes the labels and requests that a base's blocks carry. */
void mp_builder_base_labels(struct mp_builder *builder, const struct mp_base_block *base, size_t count);
/* Make the model's labels and requests from all rows that were read. Call them when all chunks were added. */
void mp_builder_end_labels(struct mp_builder *builder);
void mp_builder_end_requests(struct mp_builder *builder);
/* The model's id for a string of the file; 0 for a missing one. */
uint32_t mp_builder_string(const struct mp_builder *builder, uint32_t id);

/* Rows of a job, of kinds from MP_CHUNK_JOB_PROCESSES on: add them; true if all ids in them exist. */
void mp_builder_add_job(struct mp_builder *builder, const struct mp_chunk *chunk);
bool mp_builder_knows_job(struct mp_builder *builder, const struct mp_chunk *chunk);
