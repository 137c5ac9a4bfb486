#include "format/events.h"

#include <stdlib.h>

#include "base/varint.h"
#include "format/recent.h"

struct mp_events_in {
    /* what the caller sees */
    uint64_t time_ns[MP_CHUNK_ENTRIES], address[MP_CHUNK_ENTRIES], bytes[MP_CHUNK_ENTRIES], block[MP_CHUNK_ENTRIES];
    uint32_t stack[MP_CHUNK_ENTRIES], name[MP_CHUNK_ENTRIES], thread[MP_CHUNK_ENTRIES];
    uint16_t track[MP_CHUNK_ENTRIES];
    uint8_t type[MP_CHUNK_ENTRIES], kind[MP_CHUNK_ENTRIES];
    /* the chunk's columns that do not go straight there */
    uint16_t shape[MP_CHUNK_ENTRIES], other[MP_CHUNK_ENTRIES];
    uint8_t place[MP_CHUNK_ENTRIES];
    uint32_t back[MP_CHUNK_ENTRIES], module[MP_CHUNK_ENTRIES];
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
    uint64_t note_bytes[MP_CHUNK_ENTRIES];
    uint16_t note_track[MP_CHUNK_ENTRIES];
    uint32_t stacks[MP_CHUNK_ENTRIES], names[MP_CHUNK_ENTRIES], oom_modules[MP_CHUNK_ENTRIES];
    /* What the chunk has said so far of a block, by its number less the first; indices + 1, 0 for none. */
    struct {
        uint32_t event;   /* the latest one that said where it lies */
        uint32_t address; /* in `addresses`, until it is freed */
    } placed[MP_CHUNK_ENTRIES];
    struct mp_recent recent;
};

/* How many values the columns have, and how far each has been read. */
struct cursors {
    size_t allocs, others, frees, fars, stacks, names, notes, ooms;
    bool modules, oom_modules;
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
    size_t types[256] = {0};
    for (size_t i = 0; i < count; i++)
        types[in->type[i]]++;
    *have = (struct cursors){.allocs = types[MP_EVENT_ALLOC], .frees = types[MP_EVENT_FREE]};
    have->fars = types[MP_EVENT_RESIZE];
    have->ooms = types[MP_EVENT_OOM];
    for (unsigned type = 0; type < 256; type++) {
        if (!types[type]) continue;
        if (type == MP_EVENT_NONE || type >= MP_EVENT_TYPES) return false;
        unsigned parts = mp_event_parts(type);
        if (parts & MP_PART_STACK) have->stacks += types[type];
        if (parts & MP_PART_NAME) have->names += types[type];
        if (parts & MP_PART_NOTE) have->notes += types[type];
    }
    return true;
}

static bool decode_common(struct mp_events_in *in, const struct mp_chunk_in *chunk,
                          const struct mp_table_counts *counts)
{
    size_t count = chunk->meta.count;
    if (!mp_chunk_in_decode(chunk, "type", count, in->type, 8) ||
        !mp_chunk_in_decode(chunk, "time", count, in->time_ns, 64) ||
        !mp_chunk_in_decode(chunk, "thread", count, in->thread, 32))
        return false;
    uint64_t now = chunk->meta.time_ns;
    for (size_t i = 0; i < count; i++) {
        if (in->time_ns[i] > UINT64_MAX - now) return false;
        in->time_ns[i] = now += in->time_ns[i];
    }
    return ALL_KNOWN(in->thread, count, counts, MP_CHUNK_THREADS);
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
    have->modules = mp_chunk_in_count(chunk, "alloc.module") > 0;
    if (have->modules && (!mp_chunk_in_decode(chunk, "alloc.module", allocs, in->module, 32) ||
                          !ALL_KNOWN(in->module, allocs, counts, MP_CHUNK_STRINGS)))
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
    have->oom_modules = mp_chunk_in_count(chunk, "oom.module") > 0;
    if (have->oom_modules && (!mp_chunk_in_decode(chunk, "oom.module", have->ooms, in->oom_modules, 32) ||
                              !ALL_KNOWN(in->oom_modules, have->ooms, counts, MP_CHUNK_STRINGS)))
        return false;
    return mp_chunk_in_decode(chunk, "far.block", have->fars, in->far.block, 64) &&
           mp_chunk_in_decode(chunk, "far.address", have->fars, in->far.address, 64) &&
           mp_chunk_in_decode(chunk, "far.bytes", have->fars, in->far.bytes, 64) &&
           mp_chunk_in_decode(chunk, "far.track", have->fars, in->far.track, 16) &&
           mp_chunk_in_decode(chunk, "stack", have->stacks, in->stacks, 32) &&
           mp_chunk_in_decode(chunk, "name", have->names, in->names, 32) &&
           mp_chunk_in_decode(chunk, "note.bytes", have->notes, in->note_bytes, 64) &&
           mp_chunk_in_decode(chunk, "note.track", have->notes, in->note_track, 16) &&
           ALL_KNOWN(in->far.track, have->fars, counts, MP_CHUNK_TRACKS) &&
           ALL_KNOWN(in->stacks, have->stacks, counts, MP_CHUNK_STACKS) &&
           ALL_KNOWN(in->names, have->names, counts, MP_CHUNK_STRINGS) &&
           ALL_KNOWN(in->note_track, have->notes, counts, MP_CHUNK_TRACKS);
}

struct joining {
    struct mp_events_in *in;
    struct cursors at;
    bool modules, oom_modules;
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
    in->address[i] = in->addresses[address];
    in->bytes[i] = in->shapes.bytes[shape];
    in->stack[i] = in->shapes.stack[shape];
    in->track[i] = in->shapes.track[shape];
    in->kind[i] = in->shapes.kind[shape];
    in->name[i] = join->modules ? in->module[at] : 0;
    in->block[i] = block;
    place(join, block, i + 1, address + UINT32_C(1));
    return take_block(join, block);
}

static bool join_far(struct joining *join, size_t i)
{
    struct mp_events_in *in = join->in;
    size_t at = join->at.fars++;
    uint64_t block = join->next_block - (uint64_t)mp_unzigzag(in->far.block[at]);
    in->address[i] = in->far.address[at];
    in->bytes[i] = in->far.bytes[at];
    in->track[i] = in->far.track[at];
    in->block[i] = block;
    if (in->type[i] == MP_EVENT_RESIZE) place(join, block, i + 1, 0);
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
    in->address[i] = in->address[known];
    in->bytes[i] = in->bytes[known];
    in->track[i] = in->track[known];
    in->block[i] = block;
    if (in->placed[local].address) mp_recent_push(&in->recent, (uint16_t)(in->placed[local].address - 1));
    in->placed[local].address = 0;
    return true;
}

static bool join_event(struct joining *join, size_t i)
{
    struct mp_events_in *in = join->in;
    unsigned type = in->type[i], parts = mp_event_parts(type);
    if (type == MP_EVENT_ALLOC) return join_alloc(join, i);
    in->name[i] = parts & MP_PART_NAME ? in->names[join->at.names++] : 0;
    in->kind[i] = 0;
    in->stack[i] = parts & MP_PART_STACK ? in->stacks[join->at.stacks++] : 0;
    if (type == MP_EVENT_FREE) return join_free(join, i);
    if (type == MP_EVENT_RESIZE) return join_far(join, i);
    if (type == MP_EVENT_OOM && join->oom_modules) in->name[i] = in->oom_modules[join->at.ooms++];
    bool note = parts & MP_PART_NOTE;
    in->address[i] = in->block[i] = 0;
    in->bytes[i] = note ? in->note_bytes[join->at.notes] : 0;
    in->track[i] = note ? in->note_track[join->at.notes++] : 0;
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
    struct joining join = {.in = in,
                           .first_block = first,
                           .next_block = first,
                           .count = count,
                           .modules = have.modules,
                           .oom_modules = have.oom_modules};
    for (size_t i = 0; i < count; i++)
        if (!join_event(&join, i)) return false;
    *next_block = join.next_block;
    *columns = (struct mp_event_columns){
        .count = count,
        .time_ns = in->time_ns,
        .address = in->address,
        .bytes = in->bytes,
        .block = in->block,
        .stack = in->stack,
        .name = in->name,
        .thread = in->thread,
        .track = in->track,
        .type = in->type,
        .kind = in->kind,
    };
    return true;
}
