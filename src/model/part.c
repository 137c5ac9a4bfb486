#include <string.h>

#include "model/part_state.h"
#include "model/spans.h"
#include "model/track.h"
#include "model/window.h"

/* What of a chunk's kind is read. */
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
    [MP_CHUNK_LABELS] = READ_SECOND,
    [MP_CHUNK_REQUESTS] = READ_SECOND,
    [MP_CHUNK_PEAKS] = COLLECT,
    [MP_CHUNK_BOUNDARIES] = COLLECT,
};

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "not enough memory for a part of the recording");
}

/* The chunk that the index has at `place`; MP_NOT_FOUND where the file has another there. */
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
    if (!status) status = mp_builder_new(mp_reader_start(part->reader), &part->builder, error);
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

/* What the recording begins with. */
static bool sum_base(struct mp_part *part, const struct mp_chunk *chunk)
{
    if (!chunk->base_before) part->at_start.count = 0;
    for (size_t i = 0; i < chunk->count; i++) {
        const struct mp_base_block *block = &chunk->base[i];
        if (!mp_vec_extend(&part->at_start, (size_t)block->track + 1)) return false;
        part->at_start.at[block->track] += block->bytes;
        if (block->block >= part->first_number) part->first_number = block->block + 1;
    }
    return true;
}

static enum mp_status collect(struct mp_part *part, size_t place, struct mp_error *error)
{
    struct mp_chunk chunk;
    enum mp_status status = read_at(part, place, &chunk, error);
    if (status || !chunk.count) return status;
    bool done = true;
    if (chunk.kind == MP_CHUNK_PEAKS)
        done = mp_vec_append(&part->peaks, chunk.peaks, chunk.count);
    else if (chunk.kind == MP_CHUNK_BOUNDARIES)
        done = mp_vec_append(&part->boundaries, chunk.boundaries, chunk.count);
    else if (chunk.kind == MP_CHUNK_OPEN_REGIONS)
        done = mp_vec_append(&part->open, chunk.open, chunk.count);
    else
        done = sum_base(part, &chunk);
    return done ? MP_OK : no_memory(error);
}

/* All but the events: how long, which steps, how high. */
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
    return status ? status : mp_part_put_boundaries(part, 0, UINT64_MAX, error);
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
    bool has = mp_steps_marked(model, &steps) && steps.count;
    mp_steps_free(&steps);
    return has;
}

/* By track: the highest level, and in how many chunks it has events. */
static enum mp_status sum_peaks(struct mp_part *part, size_t tracks, struct mp_error *error)
{
    if (!mp_vec_extend(&part->at_start, tracks) || !mp_vec_extend(&part->peak_bytes, tracks) ||
        !mp_vec_extend(&part->track_chunks, tracks))
        return no_memory(error);
    memcpy(part->peak_bytes.at, part->at_start.at, tracks * sizeof *part->peak_bytes.at);
    for (size_t i = 0; i < part->peaks.count; i++) {
        const struct mp_chunk_peak *row = &part->peaks.at[i];
        if (row->track >= tracks || row->chunk >= part->count) return MP_NOT_FOUND;
        part->track_chunks.at[row->track]++;
        if (row->bytes > part->peak_bytes.at[row->track]) part->peak_bytes.at[row->track] = row->bytes;
    }
    return MP_OK;
}

/* What commands choose a track by. */
static void take_sums(const struct mp_part *part, struct mp_model *model)
{
    for (size_t i = 0; i < model->sums.count && i < part->peak_bytes.count; i++) {
        model->sums.at[i].peak_bytes = part->peak_bytes.at[i];
        model->sums.at[i].events = part->track_chunks.at[i];
    }
    if (model->duration_ns < part->duration_ns) model->duration_ns = part->duration_ns;
    model->part_of = part->events;
}

/* The chunk in which the track was first at its highest; none where that was at the very start. */
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

/* From a chunk that begins before the window, so that there is an event before it. */
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

/* The last base before the part, and what the events before it are. */
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
    /* without one, from the first event on */
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
    if (!mp_vec_append(&part->live, chunk.base, chunk.count)) return no_memory(error);
    if (place + 1 < part->base_end) return MP_OK;
    if (part->live.count != chunk.base_total) return MP_NOT_FOUND;
    for (size_t i = part->base_end; !status && i < part->count && part->index[i].kind == MP_CHUNK_OPEN_REGIONS; i++)
        status = collect(part, i, error);
    return status ? status : mp_part_begin(part, error);
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
    return status ? status : mp_part_put_boundaries(part, part->events_to, UINT64_MAX, error);
}

/* The second reading: the part itself, held against what the first one promised. */
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
