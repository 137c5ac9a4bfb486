/* What the two halves of reading a part share: part.c (which chunks) and part_start.c (what was before). Private. */
#ifndef MP_MODEL_PART_STATE_H
#define MP_MODEL_PART_STATE_H

#include "base/vec.h"
#include "model/builder.h"
#include "model/part.h"

struct mp_part {
    const struct mp_part_query *ask;
    struct mp_reader *reader;
    const struct mp_index_entry *index; /* the reader's; a chunk's sequence number is its place */
    size_t count;
    struct mp_builder *builder;
    uint64_t added; /* chunks given to the builder */
    /* learnt by the first reading, which leaves the events out */
    MP_VEC(struct mp_chunk_peak) peaks;
    MP_VEC(struct mp_boundary) boundaries;
    MP_VEC(uint64_t) at_start; /* by track: bytes of the base that the recording begins with */
    uint64_t first_number;     /* of the first block that is not of that base */
    uint64_t events;           /* of the recording */
    uint64_t duration_ns;
    MP_VEC(uint64_t) peak_bytes;   /* by track: the highest level of all */
    MP_VEC(uint64_t) track_chunks; /* by track: chunks with events of it */
    uint16_t track;
    /* what is read the second time: events from `from` to `to`, none where from > to */
    size_t from, to;
    size_t base, base_end; /* the base that it begins with; none where they are equal */
    uint64_t events_before, events_to;
    MP_VEC(struct mp_base_block) live; /* at that base */
    uint64_t next_block;               /* the number that the next new block got there */
    MP_VEC(struct mp_open_span) open;
};

/* Gives the builder what happened before the base at hand, as far as it can be told. */
enum mp_status mp_part_begin(struct mp_part *part, struct mp_error *error);
/* Gives the builder the boundaries of events [from, to). */
enum mp_status mp_part_put_boundaries(struct mp_part *part, uint64_t from, uint64_t to, struct mp_error *error);

#endif
