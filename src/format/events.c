#include "format/events.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/varint.h"
#include "format/event_room.h"
#include "format/recent.h"

#define BIT(type) (1u << MP_EVENT_##type)
#define COLUMN(name, member, types, of, encoding, optional)                                                            \
    {                                                                                                                  \
        name, #member, types, offsetof(struct mp_event, member), sizeof((struct mp_event *)0)->member, of, encoding,   \
            optional                                                                                                   \
    }

const struct mp_event_column mp_event_columns[] = {
    COLUMN("alloc.module", name, BIT(ALLOC), MP_CHUNK_STRINGS, MP_ENCODING_DELTA, true),
    COLUMN("stack", stack, BIT(FREE) | BIT(RESIZE) | BIT(OOM) | BIT(MARK), MP_CHUNK_STACKS, MP_ENCODING_VARINT, false),
    COLUMN("name", name, BIT(STEP) | BIT(REGION_BEGIN) | BIT(REGION_END) | BIT(MARK), MP_CHUNK_STRINGS,
           MP_ENCODING_VARINT, false),
    COLUMN("oom.module", name, BIT(OOM), MP_CHUNK_STRINGS, MP_ENCODING_VARINT, true),
    COLUMN("note.bytes", bytes, BIT(OOM) | BIT(RESERVED), 0, MP_ENCODING_DELTA, false),
    COLUMN("note.track", track, BIT(OOM) | BIT(RESERVED), MP_CHUNK_TRACKS, MP_ENCODING_VARINT, false),
};

const size_t mp_event_column_count = sizeof mp_event_columns / sizeof *mp_event_columns;
_Static_assert(sizeof mp_event_columns / sizeof *mp_event_columns <= MP_EVENT_COLUMNS_MAX,
               "there is no room for so many columns");

enum { SLOTS = 2 * MP_CHUNK_ENTRIES };

/* The distinct values of one chunk in order of first use, found by hash. A slot holds index + 1. */
struct dictionary {
    uint32_t slots[SLOTS];
    uint32_t entries[MP_CHUNK_ENTRIES]; /* the event that was first to use the value */
    size_t count;
    size_t mask;
};

/* By the block's number less the first number of the chunk: the latest facts about it in this chunk. Indices + 1; 0:
 * none. */
struct placed {
    uint32_t event;   /* the latest event that gave the block's address */
    uint32_t address; /* the address's index in the dictionary, until the block is freed */
};

struct mp_events_out {
    struct dictionary shapes, addresses;
    struct placed placed[MP_CHUNK_ENTRIES];
    struct mp_recent recent;
    uint16_t in_recent[MP_CHUNK_ENTRIES]; /* by address: how many entries of `recent` have it */
    uint64_t type[MP_CHUNK_ENTRIES], thread[MP_CHUNK_ENTRIES], time[MP_CHUNK_ENTRIES];
    uint64_t shape[MP_CHUNK_ENTRIES], place[MP_CHUNK_ENTRIES], other[MP_CHUNK_ENTRIES], fresh[MP_CHUNK_ENTRIES];
    uint64_t back[MP_CHUNK_ENTRIES];
    uint64_t far_block[MP_CHUNK_ENTRIES], far_address[MP_CHUNK_ENTRIES], far_bytes[MP_CHUNK_ENTRIES],
        far_track[MP_CHUNK_ENTRIES];
    struct {
        size_t count;
        bool any; /* a value other than 0 was seen */
        uint64_t values[MP_CHUNK_ENTRIES];
    } columns[MP_EVENT_COLUMNS_MAX];
    uint8_t columns_of[MP_EVENT_TYPES]; /* by type: bits 1 << index in mp_event_columns */
    uint64_t scratch[MP_CHUNK_ENTRIES];
    size_t allocs, others, frees, fars;
    uint64_t first_block, next_block;
};

struct mp_events_out *mp_events_out_new(void)
{
    struct mp_events_out *out = malloc(sizeof *out);
    for (unsigned type = 0; out && type < MP_EVENT_TYPES; type++) {
        out->columns_of[type] = 0;
        for (unsigned i = 0; i < mp_event_column_count; i++)
            out->columns_of[type] |= (uint8_t)((mp_event_columns[i].types >> type & 1) << i);
    }
    return out;
}

size_t mp_events_out_bytes(void)
{
    return sizeof(struct mp_events_out);
}

void mp_events_out_free(struct mp_events_out *out)
{
    free(out);
}

static void dictionary_clear(struct dictionary *dictionary, size_t count)
{
    dictionary->count = 0;
    for (dictionary->mask = 64; dictionary->mask < 2 * count;)
        dictionary->mask *= 2;
    memset(dictionary->slots, 0, dictionary->mask * sizeof *dictionary->slots);
    dictionary->mask--;
}

static bool same_shape(const struct mp_event *a, const struct mp_event *b)
{
    return a->bytes == b->bytes && a->stack == b->stack && a->track == b->track && a->kind == b->kind;
}

static uint32_t shape_of(struct dictionary *shapes, const struct mp_event *events, uint32_t i)
{
    const struct mp_event *event = &events[i];
    uint64_t key = (uint64_t)event->stack << 32 ^ (uint64_t)event->track << 8 ^ event->kind;
    size_t at = (size_t)mp_hash_mix(mp_hash_step(key, event->bytes));
    for (;; at++) {
        uint32_t *slot = &shapes->slots[at & shapes->mask];
        if (!*slot) {
            shapes->entries[shapes->count] = i;
            *slot = (uint32_t)++shapes->count;
        }
        if (same_shape(&events[shapes->entries[*slot - 1]], event)) return *slot - 1;
    }
}

static uint32_t address_of(struct dictionary *addresses, const struct mp_event *events, uint32_t i)
{
    uint64_t address = events[i].address;
    for (size_t at = (size_t)mp_hash_mix(address);; at++) {
        uint32_t *slot = &addresses->slots[at & addresses->mask];
        if (!*slot) {
            addresses->entries[addresses->count] = i;
            *slot = (uint32_t)++addresses->count;
        }
        if (events[addresses->entries[*slot - 1]].address == address) return *slot - 1;
    }
}

/* The facts of a block; NULL if this chunk cannot introduce a block of that number. */
static struct placed *placed(struct mp_events_out *out, uint64_t block, size_t count)
{
    uint64_t local = block - out->first_block;
    return local < count ? &out->placed[local] : NULL;
}

static void add_place(struct mp_events_out *out, uint32_t address)
{
    uint64_t rank = MP_RECENT;
    if (out->in_recent[address]) {
        rank = mp_recent_rank(&out->recent, (uint16_t)address);
        mp_recent_take(&out->recent, (uint32_t)rank);
        out->in_recent[address]--;
    } else {
        out->other[out->others++] = address;
    }
    out->place[out->allocs] = rank;
}

static void add_alloc(struct mp_events_out *out, const struct mp_event *events, uint32_t i, size_t count)
{
    const struct mp_event *event = &events[i];
    uint32_t address = address_of(&out->addresses, events, i);
    add_place(out, address);
    out->shape[out->allocs] = shape_of(&out->shapes, events, i);
    out->fresh[out->allocs++] = mp_zigzag((int64_t)(event->block - out->next_block));
    struct placed *here = placed(out, event->block, count);
    if (here) *here = (struct placed){i + 1, address + 1};
}

/* Adds a resize, or a free that cannot refer to facts in this chunk. */
static void add_far(struct mp_events_out *out, const struct mp_event *event)
{
    size_t at = out->fars++;
    out->far_block[at] = mp_zigzag((int64_t)(out->next_block - event->block));
    out->far_address[at] = event->address;
    out->far_bytes[at] = event->bytes;
    out->far_track[at] = event->track;
}

static void add_recent(struct mp_events_out *out, struct placed *here)
{
    if (!here->address) return;
    uint16_t address = (uint16_t)(here->address - 1);
    int32_t pushed_out = mp_recent_push(&out->recent, address);
    out->in_recent[address]++;
    if (pushed_out >= 0) out->in_recent[pushed_out]--;
    here->address = 0;
}

static void add_free(struct mp_events_out *out, const struct mp_event *events, uint32_t i, size_t count)
{
    const struct mp_event *event = &events[i], *known = NULL;
    struct placed *here = placed(out, event->block, count);
    if (here && here->event) known = &events[here->event - 1];
    bool near = known && known->address == event->address && known->bytes == event->bytes &&
                known->track == event->track && event->block < out->next_block;
    out->back[out->frees++] = near ? out->next_block - event->block : 0;
    if (near)
        add_recent(out, here);
    else
        add_far(out, event);
}

static void add_resize(struct mp_events_out *out, const struct mp_event *events, uint32_t i, size_t count)
{
    add_far(out, &events[i]);
    struct placed *here = placed(out, events[i].block, count);
    if (here) *here = (struct placed){.event = i + 1};
}

static uint64_t member(const struct mp_event *event, const struct mp_event_column *column)
{
    const char *at = (const char *)event + column->offset;
    if (column->width == sizeof(uint64_t)) return *(const uint64_t *)at;
    if (column->width == sizeof(uint32_t)) return *(const uint32_t *)at;
    if (column->width == sizeof(uint16_t)) return *(const uint16_t *)at;
    return *(const uint8_t *)at;
}

static void add_event(struct mp_events_out *out, const struct mp_event *events, uint32_t i, size_t count)
{
    const struct mp_event *event = &events[i];
    out->type[i] = event->type;
    out->thread[i] = event->thread;
    out->time[i] = i ? event->time_ns - event[-1].time_ns : 0;
    if (event->type == MP_EVENT_ALLOC)
        add_alloc(out, events, i, count);
    else if (event->type == MP_EVENT_FREE)
        add_free(out, events, i, count);
    else if (event->type == MP_EVENT_RESIZE)
        add_resize(out, events, i, count);
    if (mp_event_of_block(event->type) && event->block >= out->next_block) out->next_block = event->block + 1;
    for (unsigned left = out->columns_of[event->type]; left; left &= left - 1) {
        unsigned column = (unsigned)__builtin_ctz(left);
        uint64_t value = member(event, &mp_event_columns[column]);
        out->columns[column].values[out->columns[column].count++] = value;
        out->columns[column].any |= value != 0;
    }
}

/* Returns the name of the event's member that is out of bounds, or NULL. */
static const char *fault(const struct mp_events_out *out, const struct mp_event *event,
                         const struct mp_table_counts *counts, uint64_t block_bound)
{
    if (event->type == MP_EVENT_NONE || event->type >= MP_EVENT_TYPES) return "type";
    if (!mp_id_known(counts, MP_CHUNK_THREADS, event->thread)) return "thread";
    if (event->type == MP_EVENT_ALLOC && !mp_id_known(counts, MP_CHUNK_STACKS, event->stack)) return "stack";
    bool of_block = mp_event_of_block(event->type);
    if (of_block && !mp_id_known(counts, MP_CHUNK_TRACKS, event->track)) return "track";
    if (of_block && event->block >= block_bound) return "block";
    for (unsigned left = out->columns_of[event->type]; left; left &= left - 1) {
        const struct mp_event_column *column = &mp_event_columns[__builtin_ctz(left)];
        if (column->of && !mp_id_known(counts, column->of, member(event, column))) return column->member;
    }
    return NULL;
}

static enum mp_status check(const struct mp_events_out *out, const struct mp_event *events, size_t count,
                            const struct mp_table_counts *counts, uint64_t next_block, struct mp_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const struct mp_event *event = &events[i];
        const char *bad = fault(out, event, counts, next_block + count);
        if (!bad && i && event->time_ns < event[-1].time_ns) bad = "time";
        if (!bad) continue;
        return mp_fail(error, MP_INVALID,
                       "event %zu of %zu has an impossible %s (type %u, time %llu, thread %u, stack %u, track %u, "
                       "block %llu, name %u)",
                       i, count, bad, event->type, (unsigned long long)event->time_ns, event->thread, event->stack,
                       event->track, (unsigned long long)event->block, event->name);
    }
    return MP_OK;
}

#define SHAPE_COLUMN(column, member)                                                                                   \
    do {                                                                                                               \
        for (size_t i = 0; i < out->shapes.count; i++)                                                                 \
            out->scratch[i] = events[out->shapes.entries[i]].member;                                                   \
        mp_chunk_out_column(chunk, "shape." column, MP_ENCODING_VARINT, out->scratch, out->shapes.count);              \
    } while (0)

static void put_columns(struct mp_events_out *out, struct mp_chunk_out *chunk, const struct mp_event *events,
                        size_t count)
{
    mp_chunk_out_column(chunk, "time", MP_ENCODING_PLANES, out->time, count);
    mp_chunk_out_column(chunk, "type", MP_ENCODING_PLANES, out->type, count);
    mp_chunk_out_column(chunk, "thread", MP_ENCODING_PLANES, out->thread, count);
    mp_chunk_out_column(chunk, "alloc.shape", MP_ENCODING_PLANES, out->shape, out->allocs);
    mp_chunk_out_column(chunk, "alloc.place", MP_ENCODING_PLANES, out->place, out->allocs);
    mp_chunk_out_column(chunk, "alloc.address", MP_ENCODING_PLANES, out->other, out->others);
    mp_chunk_out_column(chunk, "alloc.block", MP_ENCODING_VARINT, out->fresh, out->allocs);
    mp_chunk_out_column(chunk, "free.back", MP_ENCODING_PLANES, out->back, out->frees);
    mp_chunk_out_column(chunk, "far.block", MP_ENCODING_VARINT, out->far_block, out->fars);
    mp_chunk_out_column(chunk, "far.address", MP_ENCODING_DELTA, out->far_address, out->fars);
    mp_chunk_out_column(chunk, "far.bytes", MP_ENCODING_VARINT, out->far_bytes, out->fars);
    mp_chunk_out_column(chunk, "far.track", MP_ENCODING_VARINT, out->far_track, out->fars);
    for (size_t i = 0; i < mp_event_column_count; i++) {
        const struct mp_event_column *column = &mp_event_columns[i];
        if (out->columns[i].any || !column->optional)
            mp_chunk_out_column(chunk, column->name, column->encoding, out->columns[i].values, out->columns[i].count);
    }
    for (size_t i = 0; i < out->addresses.count; i++)
        out->scratch[i] = events[out->addresses.entries[i]].address;
    mp_chunk_out_column(chunk, "address", MP_ENCODING_DELTA, out->scratch, out->addresses.count);
    SHAPE_COLUMN("stack", stack);
    SHAPE_COLUMN("bytes", bytes);
    SHAPE_COLUMN("track", track);
    SHAPE_COLUMN("kind", kind);
}

enum mp_status mp_events_encode(struct mp_events_out *out, struct mp_chunk_out *chunk, const struct mp_event *events,
                                size_t count, const struct mp_table_counts *counts, uint64_t *next_block,
                                struct mp_error *error)
{
    enum mp_status status = check(out, events, count, counts, *next_block, error);
    if (status) return status;
    dictionary_clear(&out->shapes, count);
    dictionary_clear(&out->addresses, count);
    memset(out->placed, 0, count * sizeof *out->placed);
    memset(out->in_recent, 0, count * sizeof *out->in_recent);
    out->recent.first = out->recent.end = 0;
    out->allocs = out->others = out->frees = out->fars = 0;
    for (size_t i = 0; i < mp_event_column_count; i++) {
        out->columns[i].count = 0;
        out->columns[i].any = false;
    }
    out->first_block = out->next_block = *next_block;
    for (uint32_t i = 0; i < count; i++)
        add_event(out, events, i, count);
    put_columns(out, chunk, events, count);
    *next_block = out->next_block;
    return MP_OK;
}

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
