#include "model/part.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/vec.h"
#include "format/event_room.h"
#include "model/builder.h"
#include "model/spans.h"
#include "model/track.h"
#include "model/window.h"

struct mp_part {
    const struct mp_part_query *ask;
    struct mp_reader *reader;
    const struct mp_index_entry *index; /* the reader's; a chunk's sequence number is its place */
    size_t count;
    struct mp_builder *builder;
    uint64_t added; /* chunks given to the builder */
    /* from the first reading, which leaves the events out */
    MP_VEC(struct mp_chunk_peak) peaks;
    MP_VEC(struct mp_boundary) boundaries;
    MP_VEC(uint64_t) at_start; /* by track: bytes of the base that the recording begins with */
    uint64_t first_number;     /* of the first block that is not of that base */
    uint64_t events;           /* of the recording */
    uint64_t duration_ns;
    MP_VEC(uint64_t) peak_bytes;   /* by track: the highest level of all */
    MP_VEC(uint64_t) track_chunks; /* by track: chunks with events of it */
    uint16_t track;
    /* for the second reading: events from `from` to `to`, none where from > to */
    size_t from, to;
    size_t base, base_end; /* the base that it begins with; none where they are equal */
    uint64_t events_before, events_to;
    MP_VEC(struct mp_base_block) live; /* at that base */
    uint64_t next_block;               /* the number that the next new block got there */
    MP_VEC(struct mp_open_span) open;
};

/* Events that no chunk of the file has. */
struct made {
    MP_VEC(struct mp_event) events; /* room for all was made */
};

static void put_named(struct made *made, unsigned type, uint64_t time_ns, uint32_t name, uint32_t thread)
{
    made->events.at[made->events.count++] =
        (struct mp_event){.type = (uint8_t)type, .time_ns = time_ns, .name = name, .thread = thread};
}

static void put_birth(struct made *made, const struct mp_base_block *block)
{
    made->events.at[made->events.count++] = mp_birth_of(block);
}

static enum mp_status give(struct mp_part *part, const struct made *made, struct mp_error *error)
{
    struct mp_event_room *room = mp_alloc(sizeof *room);
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < made->events.count;) {
        for (room->count = 0; i < made->events.count && room->count < MP_CHUNK_EVENTS; i++)
            mp_event_room_put(room, &made->events.at[i]);
        struct mp_chunk chunk = {.kind = MP_CHUNK_EVENTS_KIND,
                                 .sequence = part->added++,
                                 .count = room->count,
                                 .next_block = part->next_block};
        chunk.events = mp_event_room_columns(room);
        status = mp_builder_add(part->builder, &chunk, error);
    }
    free(room);
    return status;
}

static size_t boundary_at(const struct mp_part *part, uint64_t event)
{
    size_t at = 0;
    while (at < part->boundaries.count && part->boundaries.at[at].event < event)
        at++;
    return at;
}

/* Gives the builder the boundaries of events [from, to). */
static enum mp_status part_put_boundaries(struct mp_part *part, uint64_t from, uint64_t to, struct mp_error *error)
{
    struct made made = {.events = {0}};
    size_t first = boundary_at(part, from), end = boundary_at(part, to);
    mp_vec_room_for(&made.events, end - first);
    for (size_t i = first; i < end; i++) {
        const struct mp_boundary *boundary = &part->boundaries.at[i];
        put_named(&made, boundary->type, boundary->time_ns, boundary->name, boundary->thread);
    }
    enum mp_status status = give(part, &made, error);
    mp_vec_free(&made.events);
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

/* Merges births, boundaries and the regions still open in order of time. False where two at one moment leave open in
 * which step a block was born. */
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

/* Gives the builder the blocks that the recording began with. */
static enum mp_status give_base(struct mp_part *part, size_t count, struct mp_error *error)
{
    struct mp_chunk chunk = {.kind = MP_CHUNK_BASE, .sequence = part->added++, .count = count, .base_total = count};
    chunk.base = part->live.at;
    chunk.next_block = part->next_block;
    return count ? mp_builder_add(part->builder, &chunk, error) : MP_OK;
}

/* Gives the builder what is known to have happened before this base. */
static enum mp_status part_begin(struct mp_part *part, struct mp_error *error)
{
    size_t old = 0, boundaries = boundary_at(part, part->events_before);
    if (part->live.count) qsort(part->live.at, part->live.count, sizeof *part->live.at, mp_base_by_number);
    while (old < part->live.count && part->live.at[old].block < part->first_number)
        old++;
    for (size_t i = old; i + 1 < part->live.count; i++) /* numbers follow the order of birth */
        if (part->live.at[i].birth_ns > part->live.at[i + 1].birth_ns) return MP_NOT_FOUND;
    struct made made = {.events = {0}};
    mp_vec_room_for(&made.events, part->live.count - old + 2 * boundaries + part->open.count);
    enum mp_status status = give_base(part, old, error);
    if (!status && !put_all(part, part->live.at + old, part->live.count - old, boundaries, &made))
        status = MP_NOT_FOUND;
    if (!status) status = give(part, &made, error);
    mp_vec_free(&made.events);
    return status;
}

/* Which kinds of chunks are read, and when. */
enum { LEAVE, READ, READ_SECOND, COLLECT };

static const unsigned char kinds[MP_CHUNK_KINDS] = {
    [MP_CHUNK_STRINGS] = READ,
    [MP_CHUNK_DEVICES] = READ,
    [MP_CHUNK_TRACKS] = READ,
    [MP_CHUNK_THREADS] = READ,
    [MP_CHUNK_MODULES] = READ_SECOND,
    [MP_CHUNK_FRAMES] = READ_SECOND,
    [MP_CHUNK_STACKS] = READ_SECOND,
    [MP_CHUNK_SYMBOLS] = READ_SECOND,
    [MP_CHUNK_SAMPLES] = READ,
    [MP_CHUNK_COVERAGE] = READ,
    [MP_CHUNK_EXIT] = READ,
    [MP_CHUNK_SEGMENTS] = READ_SECOND,
    [MP_CHUNK_SEGMENT_PARTS] = READ_SECOND,
    [MP_CHUNK_CALLS] = READ_SECOND,
    [MP_CHUNK_TRACE] = READ_SECOND,
    [MP_CHUNK_ASIDES] = READ_SECOND,
    [MP_CHUNK_LABELS] = READ_SECOND,
    [MP_CHUNK_HOLDERS] = READ_SECOND,
    [MP_CHUNK_METADATA] = READ_SECOND,
    [MP_CHUNK_REQUESTS] = READ_SECOND,
    [MP_CHUNK_PEAKS] = COLLECT,
    [MP_CHUNK_BOUNDARIES] = COLLECT,
};

/* Reads the chunk that the index has at `place`; MP_NOT_FOUND where the file has another one there. */
static enum mp_status read_at(struct mp_part *part, size_t place, struct mp_chunk *chunk, struct mp_error *error)
{
    const struct mp_index_entry *entry = &part->index[place];
    mp_reader_skip(part->reader, entry);
    enum mp_status status = mp_reader_next(part->reader, chunk, error);
    if (status) return status;
    return chunk->offset == entry->offset && chunk->kind == entry->kind && !chunk->lost ? MP_OK : MP_NOT_FOUND;
}

static enum mp_status read_and_give(struct mp_part *part, size_t place, struct mp_error *error)
{
    struct mp_chunk chunk;
    enum mp_status status = read_at(part, place, &chunk, error);
    chunk.sequence = part->added++;
    return status ? status : mp_builder_add(part->builder, &chunk, error);
}

static enum mp_status open_file(struct mp_part *part, const char *path, struct mp_error *error)
{
    enum mp_status status = mp_reader_open(path, &part->reader, error);
    if (!status && mp_damage_any(mp_reader_damage(part->reader))) status = MP_NOT_FOUND;
    if (!status) status = mp_reader_index(part->reader, &part->index, &part->count, error);
    if (!status) mp_builder_new(mp_reader_start(part->reader), &part->builder);
    part->added = 0;
    return status;
}

static void close_file(struct mp_part *part)
{
    mp_reader_close(part->reader);
    mp_builder_free(part->builder);
    part->reader = NULL;
    part->builder = NULL;
}

/* Reads the base that the recording begins with. */
static void sum_base(struct mp_part *part, const struct mp_chunk *chunk)
{
    if (!chunk->base_before) part->at_start.count = 0;
    for (size_t i = 0; i < chunk->count; i++) {
        const struct mp_base_block *block = &chunk->base[i];
        mp_vec_grow_to(&part->at_start, (size_t)block->track + 1);
        part->at_start.at[block->track] += block->bytes;
        if (block->block >= part->first_number) part->first_number = block->block + 1;
    }
}

static enum mp_status collect(struct mp_part *part, size_t place, struct mp_error *error)
{
    struct mp_chunk chunk;
    enum mp_status status = read_at(part, place, &chunk, error);
    if (status || !chunk.count) return status;
    if (chunk.kind == MP_CHUNK_PEAKS) {
        mp_vec_add_all(&part->peaks, chunk.peaks, chunk.count);
    } else if (chunk.kind == MP_CHUNK_BOUNDARIES) {
        mp_vec_add_all(&part->boundaries, chunk.boundaries, chunk.count);
    } else if (chunk.kind == MP_CHUNK_OPEN_REGIONS) {
        mp_vec_add_all(&part->open, chunk.open, chunk.count);
    } else
        sum_base(part, &chunk);
    return MP_OK;
}

/* Reads everything but the events: the duration, the steps, the levels. */
static enum mp_status look(struct mp_part *part, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < part->count; i++) {
        const struct mp_index_entry *entry = &part->index[i];
        unsigned how = entry->kind < MP_CHUNK_KINDS ? kinds[entry->kind] : LEAVE;
        if (entry->kind == MP_CHUNK_PAST) return MP_NOT_FOUND; /* its peak may be the highest */
        if (entry->kind == MP_CHUNK_EVENTS_KIND) {
            part->events += entry->count;
            if (entry->end_ns > part->duration_ns) part->duration_ns = entry->end_ns;
        }
        if (how == COLLECT || (entry->kind == MP_CHUNK_BASE && !part->events))
            status = collect(part, i, error);
        else if (how == READ)
            status = read_and_give(part, i, error);
    }
    if (!status && !part->peaks.count) status = MP_NOT_FOUND;
    return status ? status : part_put_boundaries(part, 0, UINT64_MAX, error);
}

static bool has_readings(const struct mp_model *model)
{
    static const char end[] = "/device";
    for (size_t i = 0; i < model->samples.count; i++) {
        const char *name = mp_model_text(model, model->samples.at[i].counter);
        size_t length = strlen(name);
        if (length >= sizeof end - 1 && !strcmp(name + length - (sizeof end - 1), end)) return true;
    }
    return false;
}

static bool has_steps(const struct mp_model *model)
{
    struct mp_steps steps = {0};
    mp_steps_marked(model, &steps);
    bool has = steps.count;
    mp_steps_free(&steps);
    return has;
}

/* By track: the highest level, and the number of chunks with its events. */
static enum mp_status sum_peaks(struct mp_part *part, size_t tracks, struct mp_error *error)
{
    mp_vec_grow_to(&part->at_start, tracks);
    mp_vec_grow_to(&part->peak_bytes, tracks);
    mp_vec_grow_to(&part->track_chunks, tracks);
    memcpy(part->peak_bytes.at, part->at_start.at, tracks * sizeof *part->peak_bytes.at);
    for (size_t i = 0; i < part->peaks.count; i++) {
        const struct mp_chunk_peak *row = &part->peaks.at[i];
        if (row->track >= tracks || row->chunk >= part->count) return MP_NOT_FOUND;
        part->track_chunks.at[row->track]++;
        if (row->bytes > part->peak_bytes.at[row->track]) part->peak_bytes.at[row->track] = row->bytes;
    }
    return MP_OK;
}

/* The sums by which commands choose a track. */
static void take_sums(const struct mp_part *part, struct mp_model *model)
{
    for (size_t i = 0; i < model->sums.count && i < part->peak_bytes.count; i++) {
        model->sums.at[i].peak_bytes = part->peak_bytes.at[i];
        model->sums.at[i].events = part->track_chunks.at[i];
    }
    if (model->duration_ns < part->duration_ns) model->duration_ns = part->duration_ns;
    model->part_of = part->events;
}

/* Finds the chunk in which the track first reached its peak; none where that was at the very start. */
static enum mp_status choose_peak(struct mp_part *part)
{
    uint64_t most = part->peak_bytes.at[part->track];
    part->from = 1;
    part->to = 0;
    for (size_t i = 0; i < part->peaks.count && most > part->at_start.at[part->track]; i++) {
        const struct mp_chunk_peak *row = &part->peaks.at[i];
        if (row->track != part->track || row->bytes != most) continue;
        part->from = part->to = row->chunk;
        return part->index[row->chunk].kind == MP_CHUNK_EVENTS_KIND ? MP_OK : MP_NOT_FOUND;
    }
    return MP_OK;
}

/* Begins with a chunk before the window, so that there is an event before it. */
static enum mp_status choose_window(struct mp_part *part, const struct mp_window *window)
{
    bool any = false;
    for (size_t i = 0; i < part->count; i++) {
        const struct mp_index_entry *entry = &part->index[i];
        if (entry->kind != MP_CHUNK_EVENTS_KIND || !entry->count) continue;
        if (!any || entry->time_ns < window->from_ns) part->from = i;
        if (!any || entry->time_ns <= window->to_ns) part->to = i;
        any = true;
    }
    return any ? MP_OK : MP_NOT_FOUND;
}

/* Finds the last base before the part, and the events before that base. */
static void choose_base(struct mp_part *part)
{
    uint64_t before = 0;
    bool whole_start = part->from > part->to;
    size_t first = whole_start ? 0 : part->from;
    for (size_t i = 0; i < first; i++) {
        const struct mp_index_entry *entry = &part->index[i];
        if (entry->kind == MP_CHUNK_EVENTS_KIND) before += entry->count;
        if (entry->kind != MP_CHUNK_BASE || !before) continue;
        if (part->base_end != i) part->base = i;
        part->base_end = i + 1;
        part->events_before = before;
    }
    /* without a base, from the first event on */
    size_t begin = part->base_end ? part->base_end : 0;
    part->events_to = part->events_before;
    if (whole_start) return;
    for (part->from = begin; part->index[part->from].kind != MP_CHUNK_EVENTS_KIND;)
        part->from++;
    for (size_t i = part->from; i <= part->to; i++)
        if (part->index[i].kind == MP_CHUNK_EVENTS_KIND) part->events_to += part->index[i].count;
}

static enum mp_status choose(struct mp_part *part, const struct mp_model *model, struct mp_error *error)
{
    const struct mp_part_query *ask = part->ask;
    struct mp_window window;
    part->track = ask->track ? mp_track_find(model, ask->track) : mp_track_default(model);
    if (part->track == MP_TRACK_NONE || !has_steps(model) || has_readings(model)) return MP_NOT_FOUND;
    enum mp_status status = mp_window_make(model, ask->from, ask->to, &window, error);
    if (!status) status = window.whole ? choose_peak(part) : choose_window(part, &window);
    if (!status) choose_base(part);
    return status;
}

/* The first reading. */
static enum mp_status plan(struct mp_part *part, const char *path, struct mp_error *error)
{
    static const struct mp_damage whole;
    struct mp_model *model = NULL;
    enum mp_status status = open_file(part, path, error);
    if (!status) status = look(part, error);
    if (!status) {
        status = mp_builder_finish(part->builder, &whole, mp_reader_file_bytes(part->reader), &model, error);
        part->builder = NULL;
    }
    if (!status) status = sum_peaks(part, model->tracks.count, error);
    if (!status) take_sums(part, model);
    if (!status) part->duration_ns = model->duration_ns;
    if (!status) status = choose(part, model, error);
    mp_model_free(model);
    close_file(part);
    return status;
}

static enum mp_status read_live(struct mp_part *part, size_t place, struct mp_error *error)
{
    struct mp_chunk chunk;
    enum mp_status status = read_at(part, place, &chunk, error);
    if (status) return status;
    if (!chunk.base_before) part->live.count = 0;
    part->next_block = chunk.next_block;
    if (chunk.base_before != part->live.count) return MP_NOT_FOUND;
    mp_vec_add_all(&part->live, chunk.base, chunk.count);
    if (place + 1 < part->base_end) return MP_OK;
    if (part->live.count != chunk.base_total) return MP_NOT_FOUND;
    for (size_t i = part->base_end; !status && i < part->count && part->index[i].kind == MP_CHUNK_OPEN_REGIONS; i++)
        status = collect(part, i, error);
    return status ? status : part_begin(part, error);
}

static enum mp_status read_part(struct mp_part *part, struct mp_error *error)
{
    uint64_t before = 0;
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < part->count; i++) {
        const struct mp_index_entry *entry = &part->index[i];
        unsigned how = entry->kind < MP_CHUNK_KINDS ? kinds[entry->kind] : LEAVE;
        bool at_start = entry->kind == MP_CHUNK_BASE && !before && !part->base_end;
        bool inside = entry->kind == MP_CHUNK_EVENTS_KIND && i >= part->from && i <= part->to;
        if (entry->kind == MP_CHUNK_EVENTS_KIND) before += entry->count;
        if (i >= part->base && i < part->base_end)
            status = read_live(part, i, error);
        else if (how == READ || how == READ_SECOND || at_start || inside)
            status = read_and_give(part, i, error);
    }
    return status ? status : part_put_boundaries(part, part->events_to, UINT64_MAX, error);
}

/* The second reading: reads the part itself, and checks it against the first reading. */
static enum mp_status load(struct mp_part *part, const char *path, struct mp_model **model, struct mp_error *error)
{
    static const struct mp_damage whole;
    enum mp_status status = open_file(part, path, error);
    if (!status) status = read_part(part, error);
    if (status) return status;
    status = mp_builder_finish(part->builder, &whole, mp_reader_file_bytes(part->reader), model, error);
    part->builder = NULL;
    if (status) return status;
    bool of_all = !part->ask->from && !part->ask->to;
    if (part->track >= (*model)->sums.count ||
        (of_all && (*model)->sums.at[part->track].peak_bytes != part->peak_bytes.at[part->track])) {
        mp_model_free(*model);
        *model = NULL;
        return MP_NOT_FOUND;
    }
    take_sums(part, *model);
    return MP_OK;
}

enum mp_status mp_model_load_part(const char *path, const struct mp_part_query *ask, struct mp_model **model,
                                  struct mp_error *error)
{
    struct mp_part part = {.ask = ask};
    *model = NULL;
    enum mp_status status = plan(&part, path, error);
    if (!status) status = load(&part, path, model, error);
    close_file(&part);
    mp_vec_free(&part.peaks);
    mp_vec_free(&part.boundaries);
    mp_vec_free(&part.at_start);
    mp_vec_free(&part.peak_bytes);
    mp_vec_free(&part.track_chunks);
    mp_vec_free(&part.live);
    mp_vec_free(&part.open);
    return status;
}
