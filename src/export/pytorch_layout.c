#include "export/pytorch_layout.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "format/events.h"

#define ADDRESS_MAX (UINT64_C(1) << 60) /* addresses and sizes beyond it are nonsense */
#define GAP_MAX     (UINT64_C(1) << 20) /* blocks with smaller gaps share one made-up segment */
#define ROUNDING    UINT64_C(512)       /* of PyTorch's allocator */
#define RANGES_MAX  65536               /* most live ranges: no real job has more; more are not searched */

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

void mp_pytorch_lives_follow(struct mp_pytorch_lives *lives, uint32_t block, uint32_t event, uint32_t *ended,
                             uint32_t *begun)
{
    *ended = *begun = MP_NONE;
    uint32_t *next = block < lives->next.count ? &lives->next.at[block] : NULL;
    if (!next || !*next) return;
    if (lives->all.at[*next - 1].end == event) {
        *ended = *next - 1;
        *next = *next < lives->all.count && lives->all.at[*next].block == block ? *next + 1 : 0;
    }
    if (*next && lives->all.at[*next - 1].begin == event) *begun = *next - 1;
}

static void rewind_lives(struct mp_pytorch_lives *lives)
{
    for (size_t i = lives->all.count; i-- > 0;)
        lives->next.at[lives->all.at[i].block] = (uint32_t)i + 1;
}

static void put_life(struct mp_pytorch_lives *lives, const struct mp_pytorch_life *life)
{
    if (life->bytes) mp_vec_add(&lives->all, *life);
}

/* Adds a block's lives. `resize` is the index of the block's first resize, if it has any. */
static void put_block(const struct mp_model *model, uint32_t block, size_t resize, struct mp_pytorch_lives *lives)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    struct mp_pytorch_life life = {.address = blocks->address[block],
                                   .bytes = blocks->bytes[block],
                                   .begin = blocks->alloc_event[block],
                                   .block = block,
                                   .stack = blocks->stack[block]};
    if (life.bytes == MP_BYTES_UNKNOWN) lives->unknown_sizes++;
    for (; resize < model->resizes.count && model->resizes.at[resize].block == block; resize++) {
        life.end = model->resizes.at[resize].event;
        if (life.bytes != MP_BYTES_UNKNOWN) put_life(lives, &life);
        life.begin = life.end;
        life.bytes = model->resizes.at[resize].bytes;
    }
    life.end = blocks->free_event[block];
    if (life.bytes != MP_BYTES_UNKNOWN) put_life(lives, &life);
}

/* Finds the lives of the track's blocks, or, with `memory`, of the ranges of the layer below. */
static void find_lives(const struct mp_model *model, uint16_t track, const struct mp_track_memory *memory,
                       struct mp_pytorch_lives *lives)
{
    size_t resize = 0;
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        while (resize < model->resizes.count && model->resizes.at[resize].block < block)
            resize++;
        bool wanted = memory ? mp_track_is_range(model, memory, block) : model->blocks.track[block] == track;
        if (wanted) put_block(model, block, resize, lives);
    }
    mp_vec_grow_to(&lives->next, model->blocks.count);
    rewind_lives(lives);
}

/* Made-up addresses, for blocks whose own address is unknown or equals that of another live block. */
struct places {
    struct mp_layout *layout;
    struct mp_map live;        /* address to life */
    struct mp_map vacant;      /* by size: index + 1 of the place of that size that was vacated last */
    MP_VEC(uint64_t) address;  /* address of each made-up place */
    MP_VEC(uint32_t) below;    /* per vacant place: index + 1 of the place of that size that was vacated before it */
    MP_VEC(uint32_t) place_of; /* per life: its made-up place + 1 */
    uint64_t next;             /* address of the next new place */
};

static void new_place(struct places *places, uint64_t bytes, uint32_t *place)
{
    uint32_t below = 0;
    *place = (uint32_t)places->address.count;
    mp_vec_add(&places->address, places->next);
    mp_vec_add(&places->below, below);
    places->next += round_up(bytes, ROUNDING);
}

static void move(struct places *places, uint32_t index, bool for_good)
{
    struct mp_pytorch_life *life = &places->layout->lives.all.at[index];
    uint64_t *vacant = for_good ? NULL : mp_map_find(&places->vacant, life->bytes);
    uint32_t place;
    if (vacant && *vacant) {
        place = (uint32_t)*vacant - 1;
        *vacant = places->below.at[place];
    } else
        new_place(places, life->bytes, &place);
    life->address = places->address.at[place];
    places->place_of.at[index] = place + 1;
    places->layout->moved_blocks++;
}

static void begin_life(struct places *places, uint32_t index)
{
    struct mp_pytorch_life *life = &places->layout->lives.all.at[index];
    bool sane = life->address && life->address < ADDRESS_MAX && life->bytes < ADDRESS_MAX;
    bool added = false;
    uint64_t *at = sane ? mp_map_at(&places->live, life->address, &added) : NULL;
    if (added)
        *at = index;
    else
        move(places, index, false);
}

static void end_life(struct places *places, uint32_t index)
{
    const struct mp_pytorch_life *life = &places->layout->lives.all.at[index];
    uint32_t place = places->place_of.at[index];
    if (!place) {
        mp_map_remove(&places->live, life->address, NULL);
        return;
    }
    uint64_t *vacant = mp_map_at(&places->vacant, life->bytes, NULL);
    places->below.at[place - 1] = (uint32_t)*vacant;
    *vacant = place;
}

static uint64_t highest_end(const struct mp_pytorch_lives *lives)
{
    uint64_t highest = 0;
    mp_vec_each (const struct mp_pytorch_life, life, &lives->all) {
        bool sane = life->address < ADDRESS_MAX && life->bytes < ADDRESS_MAX;
        if (sane && life->address + life->bytes > highest) highest = life->address + life->bytes;
    }
    return highest;
}

static void follow_places(const struct mp_model *model, uint16_t track, struct places *places)
{
    struct mp_pytorch_lives *lives = &places->layout->lives;
    uint32_t ended, begun;
    for (uint32_t i = 0; i < lives->all.count; i++)
        if (lives->all.at[i].begin == MP_NONE) begin_life(places, i);
    for (uint32_t event = 0; event < model->events.count; event++) {
        if (model->events.track[event] != track || !mp_event_of_block(model->events.type[event])) continue;
        mp_pytorch_lives_follow(lives, model->events.subject[event], event, &ended, &begun);
        if (ended != MP_NONE) end_life(places, ended);
        if (begun != MP_NONE) begin_life(places, begun);
    }
    rewind_lives(lives);
}

MP_ORDER_OF_INDICES(by_address, struct mp_pytorch_life, MP_RISING(address) ?: MP_COMPARE(a, b))

static void sort_by_address(uint32_t *indices, size_t count, const struct mp_pytorch_lives *lives)
{
    if (count) qsort_r(indices, count, sizeof *indices, by_address, lives->all.at);
}

/* Finds the lives that last to the end. A life that overlaps the next one gets a made-up address: real allocators make
 * no such blocks. */
static void find_held(struct places *places)
{
    struct mp_layout *layout = places->layout;
    uint64_t end = 0;
    bool any_moved = false;
    for (uint32_t i = 0; i < layout->lives.all.count; i++)
        if (layout->lives.all.at[i].end == MP_NONE) mp_vec_add(&layout->held, i);
    sort_by_address(layout->held.at, layout->held.count, &layout->lives);
    for (size_t i = 0; i < layout->held.count; i++) {
        const struct mp_pytorch_life *life = &layout->lives.all.at[layout->held.at[i]];
        if (life->address >= end) {
            end = life->address + life->bytes;
            continue;
        }
        move(places, layout->held.at[i], true);
        any_moved = true;
    }
    if (any_moved) sort_by_address(layout->held.at, layout->held.count, &layout->lives);
}

static void place_lives(const struct mp_model *model, uint16_t track, struct mp_layout *layout)
{
    struct places places = {.layout = layout};
    uint64_t lives = highest_end(&layout->lives), ranges = highest_end(&layout->ranges);
    places.next = round_up((lives > ranges ? lives : ranges) + 2 * GAP_MAX, 2 * GAP_MAX);
    mp_vec_grow_to(&places.place_of, layout->lives.all.count);
    follow_places(model, track, &places);
    find_held(&places);
    mp_map_free(&places.live);
    mp_map_free(&places.vacant);
    mp_vec_free(&places.address);
    mp_vec_free(&places.below);
    mp_vec_free(&places.place_of);
}

/* The presently live ranges of the layer below, by address. */
struct cover {
    struct mp_layout *layout;
    MP_VEC(uint32_t) live;
    bool fits; /* so far: ranges do not overlap, and every block begins in one */
};

/* The index of the first live range that ends after the address. */
static size_t range_at(const struct cover *cover, uint64_t address)
{
    const struct mp_pytorch_life *ranges = cover->layout->ranges.all.at;
    return MP_COUNT_BEFORE(cover->live.count, i,
                           ranges[cover->live.at[i]].address + ranges[cover->live.at[i]].bytes <= address);
}

static void begin_range(struct cover *cover, uint32_t index)
{
    const struct mp_pytorch_life *ranges = cover->layout->ranges.all.at, *range = &ranges[index];
    size_t at = range_at(cover, range->address);
    bool sane = range->address && range->address < ADDRESS_MAX && range->bytes < ADDRESS_MAX;
    bool apart = at == cover->live.count || range->address + range->bytes <= ranges[cover->live.at[at]].address;
    cover->fits &= sane && apart && cover->live.count < RANGES_MAX;
    if (!cover->fits) return;
    mp_vec_add(&cover->live, index);
    for (size_t i = cover->live.count - 1; i > at; i--)
        cover->live.at[i] = cover->live.at[i - 1];
    cover->live.at[at] = index;
}

static void end_range(struct cover *cover, uint32_t index)
{
    size_t at = range_at(cover, cover->layout->ranges.all.at[index].address);
    if (at >= cover->live.count || cover->live.at[at] != index) return;
    for (cover->live.count--; at < cover->live.count; at++)
        cover->live.at[at] = cover->live.at[at + 1];
}

/* Checks a block's life. An expandable segment is mapped in pieces, and a block may be in several of them. */
static void check_life(struct cover *cover, const struct mp_pytorch_life *life)
{
    const struct mp_pytorch_life *ranges = cover->layout->ranges.all.at;
    uint64_t covered = life->address;
    for (size_t i = range_at(cover, life->address); i < cover->live.count && covered < life->address + life->bytes;
         i++) {
        const struct mp_pytorch_life *range = &ranges[cover->live.at[i]];
        uint32_t *first = &cover->layout->first_in.at[cover->live.at[i]];
        if (range->address > covered) break;
        covered = range->address + range->bytes;
        if (*first == MP_NONE) *first = life->block;
    }
    cover->fits &= covered >= life->address + life->bytes;
}

static void begin_cover(struct cover *cover)
{
    const struct mp_pytorch_lives *lives = &cover->layout->lives, *ranges = &cover->layout->ranges;
    for (uint32_t i = 0; i < ranges->all.count; i++)
        if (ranges->all.at[i].begin == MP_NONE) begin_range(cover, i);
    for (size_t i = 0; cover->fits && i < lives->all.count; i++)
        if (lives->all.at[i].begin == MP_NONE) check_life(cover, &lives->all.at[i]);
}

static void follow_cover(const struct mp_model *model, uint16_t track, const struct mp_track_memory *memory,
                         struct cover *cover)
{
    struct mp_layout *layout = cover->layout;
    uint32_t ended, begun;
    begin_cover(cover);
    for (uint32_t event = 0; cover->fits && event < model->events.count; event++) {
        uint16_t of = model->events.track[event];
        bool below = of == memory->below || of == memory->mapped;
        if ((of != track && !below) || !mp_event_of_block(model->events.type[event])) continue;
        mp_pytorch_lives_follow(of == track ? &layout->lives : &layout->ranges, model->events.subject[event], event,
                                &ended, &begun);
        if (of == track && begun != MP_NONE) check_life(cover, &layout->lives.all.at[begun]);
        if (of != track && ended != MP_NONE) end_range(cover, ended);
        if (of != track && begun != MP_NONE) begin_range(cover, begun);
    }
    rewind_lives(&layout->lives);
    rewind_lives(&layout->ranges);
    for (size_t i = 0; cover->fits && i < layout->held.count; i++)
        check_life(cover, &layout->lives.all.at[layout->held.at[i]]);
}

/* Makes segments of the ranges that are live at the end. Ranges that never contained a block belong to another library,
 * and are left out. Adjacent pieces of an expandable segment become one. */
static void take_ranges(const struct mp_model *model, const struct cover *cover)
{
    struct mp_layout *layout = cover->layout;
    for (size_t i = 0; i < cover->live.count; i++) {
        const struct mp_pytorch_life *range = &layout->ranges.all.at[cover->live.at[i]];
        if (layout->first_in.at[cover->live.at[i]] == MP_NONE) continue;
        struct mp_layout_segment segment = {.address = range->address,
                                            .bytes = range->bytes,
                                            .stack = range->stack,
                                            .expandable = model->blocks.kind[range->block] == MP_KIND_VMM};
        struct mp_layout_segment *last =
            layout->segments.count ? &layout->segments.at[layout->segments.count - 1] : NULL;
        bool touches = last && last->expandable && segment.expandable && last->address + last->bytes == segment.address;
        if (touches)
            last->bytes += segment.bytes;
        else
            mp_vec_add(&layout->segments, segment);
    }
}

/* Makes segments around all addresses of blocks: without ranges, nothing else shows where segments end. */
static void make_segments(struct mp_layout *layout)
{
    MP_VEC(uint32_t) order = {0};
    mp_vec_grow_to(&order, layout->lives.all.count);
    for (uint32_t i = 0; i < order.count; i++)
        order.at[i] = i;
    sort_by_address(order.at, order.count, &layout->lives);
    for (size_t i = 0; i < order.count; i++) {
        const struct mp_pytorch_life *life = &layout->lives.all.at[order.at[i]];
        uint64_t end = round_up(life->address + life->bytes, ROUNDING);
        struct mp_layout_segment *last =
            layout->segments.count ? &layout->segments.at[layout->segments.count - 1] : NULL;
        struct mp_layout_segment segment = {.address = life->address, .bytes = end - life->address};
        if (!last || last->address + last->bytes + GAP_MAX < life->address)
            mp_vec_add(&layout->segments, segment);
        else if (end > last->address + last->bytes)
            last->bytes = end - last->address;
    }
    mp_vec_free(&order);
}

static void free_lives(struct mp_pytorch_lives *lives)
{
    mp_vec_free(&lives->all);
    mp_vec_free(&lives->next);
}

void mp_layout_make(const struct mp_model *model, uint16_t track, const struct mp_track_memory *memory,
                    struct mp_layout *layout)
{
    *layout = (struct mp_layout){0};
    find_lives(model, track, NULL, &layout->lives);
    find_lives(model, track, memory, &layout->ranges);
    mp_vec_grow_to(&layout->first_in, layout->ranges.all.count);
    for (size_t i = 0; i < layout->first_in.count; i++)
        layout->first_in.at[i] = MP_NONE;
    place_lives(model, track, layout);
    struct cover cover = {.layout = layout, .fits = layout->ranges.all.count && !layout->moved_blocks};
    if (cover.fits) follow_cover(model, track, memory, &cover);
    if (cover.fits) {
        take_ranges(model, &cover);
    } else {
        free_lives(&layout->ranges);
        make_segments(layout);
    }
    mp_vec_free(&cover.live);
}

void mp_layout_free(struct mp_layout *layout)
{
    free_lives(&layout->lives);
    free_lives(&layout->ranges);
    mp_vec_free(&layout->first_in);
    mp_vec_free(&layout->segments);
    mp_vec_free(&layout->held);
}
