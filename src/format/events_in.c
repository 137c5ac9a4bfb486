#include "format/events.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/varint.h"
#include "format/event_room.h"
#include "format/recent.h"

struct mp_events_in {
    struct mp_event_room events; /* what the caller sees */
    /* columns of the chunk that are not copied straight into `events` */
    uint16_t shape[MP_CHUNK_ENTRIES], other[MP_CHUNK_ENTRIES];
    uint8_t place[MP_CHUNK_ENTRIES];
    uint32_t back[MP_CHUNK_ENTRIES];
    uint64_t fresh[MP_CHUNK_ENTRIES], addresses[MP_CHUNK_ENTRIES];
    struct {
        uint64_t bytes[MP_CHUNK_ENTRIES];
        uint32_t stack[MP_CHUNK_ENTRIES];
        uint16_t track[MP_CHUNK_ENTRIES];
        uint8_t kind[MP_CHUNK_ENTRIES];
    } shapes;
    struct {
        uint64_t block[MP_CHUNK_ENTRIES], address[MP_CHUNK_ENTRIES], bytes[MP_CHUNK_ENTRIES];
        uint16_t track[MP_CHUNK_ENTRIES];
    } far;
    uint64_t column[MP_CHUNK_ENTRIES]; /* one of mp_event_columns */
    /* By the block's number less the first number of the chunk: the latest facts about it in this chunk. Indices + 1;
     * 0: none. */
    struct {
        uint32_t event;   /* the latest event that gave the block's address */
        uint32_t address; /* its index in `addresses`, until the block is freed */
    } placed[MP_CHUNK_ENTRIES];
    struct mp_recent recent;
};

/* The number of values in each column, and how many of them events have used. */
struct cursors {
    size_t allocs, others, frees, fars;
    size_t types[256];
};

struct mp_events_in *mp_events_in_new(void)
{
    return calloc(1, sizeof(struct mp_events_in));
}

void mp_events_in_free(struct mp_events_in *in)
{
    free(in);
}

#define ALL_KNOWN(values, count, counts, kind)                                                                         \
    __extension__({                                                                                                    \
        uint64_t most = 0;                                                                                             \
        for (size_t k = 0; k < (count); k++)                                                                           \
            if ((values)[k] > most) most = (values)[k];                                                                \
        !(count) || mp_id_known(counts, kind, most);                                                                   \
    })

static bool count_types(const struct mp_events_in *in, size_t count, struct cursors *have)
{
    *have = (struct cursors){.allocs = 0};
    for (size_t i = 0; i < count; i++)
        have->types[in->events.type[i]]++;
    have->allocs = have->types[MP_EVENT_ALLOC];
    have->frees = have->types[MP_EVENT_FREE];
    have->fars = have->types[MP_EVENT_RESIZE];
    for (unsigned type = MP_EVENT_TYPES; type < 256; type++)
        if (have->types[type]) return false;
    return !have->types[MP_EVENT_NONE];
}

static bool decode_common(struct mp_events_in *in, const struct mp_chunk_in *chunk,
                          const struct mp_table_counts *counts)
{
    size_t count = chunk->meta.count;
    if (!mp_chunk_in_decode(chunk, "type", count, in->events.type, 8) ||
        !mp_chunk_in_decode(chunk, "time", count, in->events.time_ns, 64) ||
        !mp_chunk_in_decode(chunk, "thread", count, in->events.thread, 32))
        return false;
    uint64_t now = chunk->meta.time_ns;
    for (size_t i = 0; i < count; i++) {
        if (in->events.time_ns[i] > UINT64_MAX - now) return false;
        in->events.time_ns[i] = now += in->events.time_ns[i];
    }
    return ALL_KNOWN(in->events.thread, count, counts, MP_CHUNK_THREADS);
}

static bool all_below(const uint16_t *values, size_t count, size_t bound)
{
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        if (values[i] > most) most = values[i];
    return !count || most < bound;
}

static bool decode_shapes(struct mp_events_in *in, const struct mp_chunk_in *chunk, struct cursors *have,
                          const struct mp_table_counts *counts)
{
    size_t allocs = have->allocs, shapes = mp_chunk_in_count(chunk, "shape.bytes"),
           addresses = mp_chunk_in_count(chunk, "address");
    if (shapes > MP_CHUNK_ENTRIES || addresses > MP_CHUNK_ENTRIES) return false;
    if (!mp_chunk_in_decode(chunk, "shape.bytes", shapes, in->shapes.bytes, 64) ||
        !mp_chunk_in_decode(chunk, "shape.stack", shapes, in->shapes.stack, 32) ||
        !mp_chunk_in_decode(chunk, "shape.track", shapes, in->shapes.track, 16) ||
        !mp_chunk_in_decode(chunk, "shape.kind", shapes, in->shapes.kind, 8) ||
        !mp_chunk_in_decode(chunk, "address", addresses, in->addresses, 64) ||
        !mp_chunk_in_decode(chunk, "alloc.shape", allocs, in->shape, 16) ||
        !mp_chunk_in_decode(chunk, "alloc.place", allocs, in->place, 8) ||
        !mp_chunk_in_decode(chunk, "alloc.block", allocs, in->fresh, 64))
        return false;
    for (size_t i = 0; i < allocs; i++)
        have->others += in->place[i] == MP_RECENT;
    return mp_chunk_in_decode(chunk, "alloc.address", have->others, in->other, 16) &&
           all_below(in->shape, allocs, shapes) && all_below(in->other, have->others, addresses) &&
           ALL_KNOWN(in->shapes.stack, shapes, counts, MP_CHUNK_STACKS) &&
           ALL_KNOWN(in->shapes.track, shapes, counts, MP_CHUNK_TRACKS);
}

static bool decode_rest(struct mp_events_in *in, const struct mp_chunk_in *chunk, struct cursors *have,
                        const struct mp_table_counts *counts)
{
    if (!mp_chunk_in_decode(chunk, "free.back", have->frees, in->back, 32)) return false;
    for (size_t i = 0; i < have->frees; i++)
        have->fars += !in->back[i];
    return mp_chunk_in_decode(chunk, "far.block", have->fars, in->far.block, 64) &&
           mp_chunk_in_decode(chunk, "far.address", have->fars, in->far.address, 64) &&
           mp_chunk_in_decode(chunk, "far.bytes", have->fars, in->far.bytes, 64) &&
           mp_chunk_in_decode(chunk, "far.track", have->fars, in->far.track, 16) &&
           ALL_KNOWN(in->far.track, have->fars, counts, MP_CHUNK_TRACKS);
}

/* Distributes the values of one column to the events of its types. */
#define SPREAD(width)                                                                                                  \
    static void spread_##width(const struct mp_events_in *in, size_t count, unsigned types, void *to)                  \
    {                                                                                                                  \
        uint##width##_t *values = to;                                                                                  \
        const uint64_t *from = in->column;                                                                             \
        for (size_t i = 0; i < count; i++)                                                                             \
            if (types >> in->events.type[i] & 1) values[i] = (uint##width##_t) * from++;                               \
    }
SPREAD(64)
SPREAD(32)
SPREAD(16)
SPREAD(8)

static void *array_of(struct mp_events_in *in, size_t offset)
{
#define ARRAY(field, type)                                                                                             \
    if (offset == offsetof(struct mp_event, field)) return in->events.field;
    MP_EVENT_FIELDS(ARRAY, ARRAY)
#undef ARRAY
    return NULL;
}

/* Call it after the events were joined; until then these members are zero. */
static bool decode_column(struct mp_events_in *in, const struct mp_chunk_in *chunk,
                          const struct mp_event_column *column, const struct cursors *have,
                          const struct mp_table_counts *counts)
{
    size_t values = 0;
    uint64_t most = 0;
    for (unsigned type = 0; type < MP_EVENT_TYPES; type++)
        if (column->types >> type & 1) values += have->types[type];
    if (column->optional && !mp_chunk_in_count(chunk, column->name)) return true;
    if (!mp_chunk_in_decode(chunk, column->name, values, in->column, 64)) return false;
    for (size_t i = 0; i < values; i++)
        if (in->column[i] > most) most = in->column[i];
    unsigned bits = column->width * 8u;
    if (!most) return !values || !column->of || mp_id_known(counts, column->of, 0);
    if ((column->of && !mp_id_known(counts, column->of, most)) || (bits < 64 && most >> bits)) return false;
    void *to = array_of(in, column->offset);
    (bits == 64   ? spread_64
     : bits == 32 ? spread_32
     : bits == 16 ? spread_16
                  : spread_8)(in, chunk->meta.count, column->types, to);
    return true;
}

struct joining {
    struct mp_events_in *in;
    struct cursors at;
    uint64_t first_block, next_block, count;
};

static inline bool take_block(struct joining *join, uint64_t block)
{
    if (block - join->first_block >= join->count && block >= join->first_block) return false;
    if (block >= join->next_block) join->next_block = block + 1;
    return true;
}

static inline void place(struct joining *join, uint64_t block, size_t event, size_t address)
{
    uint64_t local = block - join->first_block;
    if (local >= join->count) return;
    join->in->placed[local].event = (uint32_t)event;
    join->in->placed[local].address = (uint32_t)address;
}

static inline bool join_alloc(struct joining *join, size_t i)
{
    struct mp_events_in *in = join->in;
    size_t at = join->at.allocs++;
    uint32_t shape = in->shape[at], rank = in->place[at], address;
    if (rank == MP_RECENT)
        address = in->other[join->at.others++];
    else if (rank < mp_recent_count(&in->recent))
        address = mp_recent_take(&in->recent, rank);
    else
        return false;
    uint64_t block = join->next_block + (uint64_t)mp_unzigzag(in->fresh[at]);
    in->events.address[i] = in->addresses[address];
    in->events.bytes[i] = in->shapes.bytes[shape];
    in->events.stack[i] = in->shapes.stack[shape];
    in->events.track[i] = in->shapes.track[shape];
    in->events.kind[i] = in->shapes.kind[shape];
    in->events.name[i] = 0;
    in->events.block[i] = block;
    place(join, block, i + 1, address + UINT32_C(1));
    return take_block(join, block);
}

static bool join_far(struct joining *join, size_t i)
{
    struct mp_events_in *in = join->in;
    size_t at = join->at.fars++;
    uint64_t block = join->next_block - (uint64_t)mp_unzigzag(in->far.block[at]);
    in->events.address[i] = in->far.address[at];
    in->events.bytes[i] = in->far.bytes[at];
    in->events.track[i] = in->far.track[at];
    in->events.block[i] = block;
    if (in->events.type[i] == MP_EVENT_RESIZE) place(join, block, i + 1, 0);
    return take_block(join, block);
}

static inline bool join_free(struct joining *join, size_t i)
{
    struct mp_events_in *in = join->in;
    uint32_t back = in->back[join->at.frees++];
    if (!back) return join_far(join, i);
    uint64_t block = join->next_block - back, local = block - join->first_block;
    if (local >= join->count || !in->placed[local].event) return false;
    size_t known = in->placed[local].event - 1;
    in->events.address[i] = in->events.address[known];
    in->events.bytes[i] = in->events.bytes[known];
    in->events.track[i] = in->events.track[known];
    in->events.block[i] = block;
    if (in->placed[local].address) mp_recent_push(&in->recent, (uint16_t)(in->placed[local].address - 1));
    in->placed[local].address = 0;
    return true;
}

static bool join_event(struct joining *join, size_t i)
{
    struct mp_event_room *events = &join->in->events;
    unsigned type = events->type[i];
    if (type == MP_EVENT_ALLOC) return join_alloc(join, i);
    events->name[i] = events->stack[i] = events->kind[i] = 0;
    if (type == MP_EVENT_FREE) return join_free(join, i);
    if (type == MP_EVENT_RESIZE) return join_far(join, i);
    events->address[i] = events->bytes[i] = events->block[i] = events->track[i] = 0;
    return true;
}

bool mp_events_decode(struct mp_events_in *in, const struct mp_chunk_in *chunk, const struct mp_table_counts *counts,
                      uint64_t *next_block, struct mp_event_columns *columns)
{
    struct cursors have;
    size_t count = chunk->meta.count;
    if (!decode_common(in, chunk, counts) || !count_types(in, count, &have) ||
        !decode_shapes(in, chunk, &have, counts) || !decode_rest(in, chunk, &have, counts))
        return false;
    memset(in->placed, 0, count * sizeof *in->placed);
    in->recent.first = in->recent.end = 0;
    uint64_t first = chunk->meta.next_block;
    struct joining join = {.in = in, .first_block = first, .next_block = first, .count = count};
    for (size_t i = 0; i < count; i++)
        if (!join_event(&join, i)) return false;
    for (size_t i = 0; i < mp_event_column_count; i++)
        if (!decode_column(in, chunk, &mp_event_columns[i], &have, counts)) return false;
    *next_block = join.next_block;
    in->events.count = count;
    *columns = mp_event_room_columns(&in->events);
    return true;
}
