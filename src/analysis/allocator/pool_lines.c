#include "analysis/allocator/pool_lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "model/track.h"

#define RANGES_MAX 65536

struct finder {
    const struct mp_model *model;
    const struct mp_placements *placements;
    struct mp_track_memory memory;
    uint16_t track;
    MP_VEC(uint32_t) live; /* live ranges, which are blocks of the model, by address */
    uint64_t *pool_of;     /* by range: its pool, or MP_PLACE_UNKNOWN */
};

static bool is_range(const struct finder *f, uint32_t block)
{
    return mp_track_is_range(f->model, &f->memory, block) && f->model->blocks.bytes[block] != MP_BYTES_UNKNOWN;
}

/* The first live range that ends behind the address. */
static size_t range_at(const struct finder *f, uint64_t address)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    return MP_COUNT_BEFORE(f->live.count, i, blocks->address[f->live.at[i]] + blocks->bytes[f->live.at[i]] <= address);
}

static void begin_range(struct finder *f, uint32_t block)
{
    size_t at = range_at(f, f->model->blocks.address[block]);
    if (f->live.count >= RANGES_MAX) return;
    mp_vec_add(&f->live, block);
    memmove(f->live.at + at + 1, f->live.at + at, (f->live.count - 1 - at) * sizeof *f->live.at);
    f->live.at[at] = block;
}

static void end_range(struct finder *f, uint32_t block)
{
    size_t at = range_at(f, f->model->blocks.address[block]);
    if (at >= f->live.count || f->live.at[at] != block) return;
    f->live.count--;
    memmove(f->live.at + at, f->live.at + at + 1, (f->live.count - at) * sizeof *f->live.at);
}

/* The first block in a range decides the range's pool. */
static void meet_block(struct finder *f, uint32_t block)
{
    uint64_t pool = mp_placed(f->placements->pool, block), address = f->model->blocks.address[block];
    if (pool == MP_PLACE_UNKNOWN) return;
    size_t at = range_at(f, address);
    if (at >= f->live.count || f->model->blocks.address[f->live.at[at]] > address) return;
    uint64_t *of = &f->pool_of[f->live.at[at]];
    if (*of == MP_PLACE_UNKNOWN) *of = pool;
}

/* For a range from before the trace, the first call that names its memory decides the pool. */
static void meet_calls(struct finder *f)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    for (size_t i = 0; f->live.count && i < f->model->calls.count; i++) {
        const struct mp_allocator_call *call = &f->model->calls.at[i];
        if (call->track != f->track || !(call->keys & MP_ROW_POOL) || call->action == MP_TORCH_OUT_OF_MEMORY) continue;
        size_t at = range_at(f, call->address);
        if (at >= f->live.count || blocks->address[f->live.at[at]] > call->address) continue;
        uint64_t *of = &f->pool_of[f->live.at[at]];
        if (*of == MP_PLACE_UNKNOWN) *of = call->pool;
    }
}

static void find_pools(struct finder *f)
{
    const struct mp_model *model = f->model;
    const struct mp_model_blocks *blocks = &model->blocks;
    for (uint32_t i = 0; i < blocks->count; i++)
        if (blocks->alloc_event[i] == MP_NONE && is_range(f, i)) begin_range(f, i);
    for (uint32_t i = 0; i < blocks->count; i++)
        if (blocks->alloc_event[i] == MP_NONE && blocks->track[i] == f->track) meet_block(f, i);
    meet_calls(f);
    for (uint32_t event = 0; event < model->events.count; event++) {
        unsigned type = model->events.type[event];
        uint32_t block = model->events.subject[event];
        if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) continue;
        if (type == MP_EVENT_ALLOC && blocks->track[block] == f->track) meet_block(f, block);
        if (!is_range(f, block)) continue;
        (type == MP_EVENT_ALLOC ? begin_range : end_range)(f, block);
    }
    /* The allocator lists the segments of the end with their pools. */
    mp_vec_each (const struct mp_segment, segment, &model->segments) {
        if (segment->track != f->track) continue;
        for (size_t at = range_at(f, segment->address); at < f->live.count; at++) {
            if (blocks->address[f->live.at[at]] >= segment->address + segment->bytes) break;
            f->pool_of[f->live.at[at]] = segment->pool;
        }
    }
}

/* Joins two points to one with the higher bytes. */
static void thin_out(struct mp_pool_line *line)
{
    size_t kept = 0;
    for (size_t i = 0; i < line->points.count; i += 2) {
        struct mp_pool_point point = line->points.at[i];
        if (i + 1 < line->points.count && line->points.at[i + 1].bytes > point.bytes)
            point.bytes = line->points.at[i + 1].bytes;
        line->points.at[kept++] = point;
    }
    line->points.count = kept;
}

static void add_point(struct mp_pool_line *line, uint64_t time_ns, uint64_t bytes)
{
    struct mp_pool_point *last = line->points.count ? &line->points.at[line->points.count - 1] : NULL;
    const struct mp_pool_point point = {time_ns, bytes};
    if (bytes > line->most) line->most = bytes;
    if (last && last->time_ns == time_ns) {
        last->bytes = bytes;
        return;
    }
    if (line->points.count >= MP_POOL_POINTS) thin_out(line);
    mp_vec_add(&line->points, point);
}

struct sum {
    MP_VEC(uint64_t) level; /* by line */
    struct mp_map line_of;  /* pool to line */
};

static void change(struct mp_pool_lines *lines, struct sum *sum, uint64_t pool, uint64_t time_ns, uint64_t bytes)
{
    bool fresh;
    if (!pool || pool == MP_PLACE_UNKNOWN) return; /* 0: the default pool */
    uint64_t *at = mp_map_at(&sum->line_of, pool, &fresh);
    if (fresh) {
        const struct mp_pool_line line = {.pool = pool};
        uint64_t none = 0;
        *at = lines->all.count;
        mp_vec_add(&lines->all, line);
        mp_vec_add(&sum->level, none);
    }
    sum->level.at[*at] += bytes;
    add_point(&lines->all.at[*at], time_ns, sum->level.at[*at]);
}

static void add_up(const struct finder *f, struct mp_pool_lines *lines)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    struct sum sum = {0};
    for (uint32_t i = 0; i < blocks->count; i++)
        if (blocks->alloc_event[i] == MP_NONE && is_range(f, i))
            change(lines, &sum, f->pool_of[i], 0, blocks->bytes[i]);
    for (uint32_t event = 0; event < f->model->events.count; event++) {
        unsigned type = f->model->events.type[event];
        uint32_t block = f->model->events.subject[event];
        if ((type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) || !is_range(f, block)) continue;
        change(lines, &sum, f->pool_of[block], f->model->events.time_ns[event],
               type == MP_EVENT_ALLOC ? blocks->bytes[block] : -blocks->bytes[block]);
    }
    mp_vec_free(&sum.level);
    mp_map_free(&sum.line_of);
}

MP_ORDER(most_first, struct mp_pool_line, MP_FALLING(most) ?: MP_RISING(pool))

void mp_pool_lines_find(const struct mp_model *model, uint16_t track, const struct mp_placements *placements,
                        struct mp_pool_lines *lines)
{
    struct finder f = {
        .model = model, .placements = placements, .memory = mp_track_memory_of(model, track), .track = track};
    *lines = (struct mp_pool_lines){0};
    if (f.memory.below == MP_TRACK_NONE || !placements->pool) return;
    f.pool_of = mp_alloc((model->blocks.count + 1) * sizeof *f.pool_of);
    memset(f.pool_of, 0xff, (model->blocks.count + 1) * sizeof *f.pool_of);
    find_pools(&f);
    add_up(&f, lines);
    free(f.pool_of);
    mp_vec_free(&f.live);
    if (lines->all.count) qsort(lines->all.at, lines->all.count, sizeof *lines->all.at, most_first);
    for (; lines->all.count > MP_POOL_LINES; lines->all.count--)
        mp_vec_free(&lines->all.at[lines->all.count - 1].points);
}

void mp_pool_lines_free(struct mp_pool_lines *lines)
{
    for (size_t i = 0; i < lines->all.count; i++)
        mp_vec_free(&lines->all.at[i].points);
    mp_vec_free(&lines->all);
}
