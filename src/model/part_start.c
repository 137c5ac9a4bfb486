#include <stdlib.h>

#include "model/part_state.h"

/* Columns of events that no chunk of the file has. */
struct made {
    size_t count;
    uint64_t *time_ns, *address, *bytes, *block;
    uint32_t *stack, *name, *thread;
    uint16_t *track;
    uint8_t *type, *kind;
    void *memory;
};

static bool make_room(struct made *made, size_t room)
{
    *made = (struct made){.memory = calloc(room + 1, 4 * 8 + 3 * 4 + 2 + 2)};
    if (!made->memory) return false;
    made->time_ns = made->memory;
    made->address = made->time_ns + room;
    made->bytes = made->address + room;
    made->block = made->bytes + room;
    made->stack = (uint32_t *)(made->block + room);
    made->name = made->stack + room;
    made->thread = made->name + room;
    made->track = (uint16_t *)(made->thread + room);
    made->type = (uint8_t *)(made->track + room);
    made->kind = made->type + room;
    return true;
}

static void put_named(struct made *made, unsigned type, uint64_t time_ns, uint32_t name, uint32_t thread)
{
    size_t at = made->count++;
    made->type[at] = (uint8_t)type;
    made->time_ns[at] = time_ns;
    made->name[at] = name;
    made->thread[at] = thread;
}

static void put_birth(struct made *made, const struct mp_base_block *block)
{
    size_t at = made->count++;
    made->type[at] = MP_EVENT_ALLOC;
    made->time_ns[at] = block->birth_ns;
    made->address[at] = block->address;
    made->bytes[at] = block->bytes;
    made->block[at] = block->block;
    made->stack[at] = block->stack;
    made->name[at] = block->module;
    made->track[at] = block->track;
    made->kind[at] = block->kind;
}

static enum mp_status give(struct mp_part *part, const struct made *made, struct mp_error *error)
{
    struct mp_chunk chunk = {
        .kind = MP_CHUNK_EVENTS_KIND, .sequence = part->added++, .count = made->count, .next_block = part->next_block};
    chunk.events = (struct mp_event_columns){.count = made->count,
                                             .time_ns = made->time_ns,
                                             .address = made->address,
                                             .bytes = made->bytes,
                                             .block = made->block,
                                             .stack = made->stack,
                                             .name = made->name,
                                             .thread = made->thread,
                                             .track = made->track,
                                             .type = made->type,
                                             .kind = made->kind};
    return made->count ? mp_builder_add(part->builder, &chunk, error) : MP_OK;
}

static size_t boundary_at(const struct mp_part *part, uint64_t event)
{
    size_t at = 0;
    while (at < part->boundaries.count && part->boundaries.at[at].event < event)
        at++;
    return at;
}

enum mp_status mp_part_put_boundaries(struct mp_part *part, uint64_t from, uint64_t to, struct mp_error *error)
{
    struct made made;
    size_t first = boundary_at(part, from), end = boundary_at(part, to);
    if (!make_room(&made, end - first)) return mp_fail(error, MP_NO_MEMORY, "no memory for the steps");
    for (size_t i = first; i < end; i++) {
        const struct mp_boundary *boundary = &part->boundaries.at[i];
        put_named(&made, boundary->type, boundary->time_ns, boundary->name, boundary->thread);
    }
    enum mp_status status = give(part, &made, error);
    free(made.memory);
    return status;
}

static bool is_open(const struct mp_part *part, const struct mp_boundary *boundary)
{
    for (size_t i = 0; i < part->open.count; i++) {
        const struct mp_open_span *open = &part->open.at[i];
        if (open->time_ns == boundary->time_ns && open->name == boundary->name && open->thread == boundary->thread)
            return true;
    }
    return false;
}

/* One after the other as they happened: births, boundaries, and the regions still open. False where two at one moment
 * leave open in which step a block was born. */
static bool put_all(const struct mp_part *part, const struct mp_base_block *born, size_t born_count, size_t boundaries,
                    struct made *made)
{
    const struct mp_boundary *boundary = part->boundaries.at, *end = boundary + boundaries;
    const struct mp_open_span *open = part->open.at, *open_end = open + part->open.count;
    const struct mp_base_block *born_end = born + born_count;
    while (boundary < end || open < open_end) {
        bool is_boundary = boundary < end && (open == open_end || boundary->time_ns <= open->time_ns);
        uint64_t now = is_boundary ? boundary->time_ns : open->time_ns;
        while (born < born_end && born->birth_ns < now)
            put_birth(made, born++);
        if (born < born_end && born->birth_ns == now) return false;
        if (!is_boundary) {
            put_named(made, MP_EVENT_REGION_BEGIN, now, open->name, open->thread);
            open++;
            continue;
        }
        if (boundary->type == MP_EVENT_STEP || !is_open(part, boundary))
            put_named(made, boundary->type, now, boundary->name, boundary->thread);
        if (boundary->type == MP_EVENT_REGION_BEGIN && !is_open(part, boundary))
            put_named(made, MP_EVENT_REGION_END, now, boundary->name, boundary->thread);
        boundary++;
    }
    while (born < born_end)
        put_birth(made, born++);
    return true;
}

/* Those that the recording began with. */
static enum mp_status give_base(struct mp_part *part, size_t count, struct mp_error *error)
{
    struct mp_chunk chunk = {.kind = MP_CHUNK_BASE, .sequence = part->added++, .count = count, .base_total = count};
    chunk.base = part->live.at;
    chunk.next_block = part->next_block;
    return count ? mp_builder_add(part->builder, &chunk, error) : MP_OK;
}

enum mp_status mp_part_begin(struct mp_part *part, struct mp_error *error)
{
    size_t old = 0, boundaries = boundary_at(part, part->events_before);
    if (part->live.count) qsort(part->live.at, part->live.count, sizeof *part->live.at, mp_base_by_number);
    while (old < part->live.count && part->live.at[old].block < part->first_number)
        old++;
    for (size_t i = old; i + 1 < part->live.count; i++) /* numbers are given in order of birth */
        if (part->live.at[i].birth_ns > part->live.at[i + 1].birth_ns) return MP_NOT_FOUND;
    struct made made;
    if (!make_room(&made, part->live.count - old + 2 * boundaries + part->open.count))
        return mp_fail(error, MP_NO_MEMORY, "no memory for the blocks of a base");
    enum mp_status status = give_base(part, old, error);
    if (!status && !put_all(part, part->live.at + old, part->live.count - old, boundaries, &made))
        status = MP_NOT_FOUND;
    if (!status) status = give(part, &made, error);
    free(made.memory);
    return status;
}
