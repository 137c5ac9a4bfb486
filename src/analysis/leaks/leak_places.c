#include "analysis/leaks/leak_places.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/intern.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "model/own_steps.h"
#include "model/stack.h"
#include "model/track.h"

struct entry {
    uint32_t place, block;
    struct mp_leak_life life;
};

struct search {
    const struct mp_model *model;
    const struct mp_steps *steps;
    struct mp_leak_places *places;
    MP_VEC(struct entry) entries;
    struct mp_map sites;    /* track, kind and stack to place */
    struct mp_map names;    /* name + 1 to place */
    struct mp_intern texts; /* names of places */
    struct mp_buffer name;
    struct mp_stack_lines lines;
};

/* Names a stack's place by the user's lines; "" without such lines. */
static void name_place(struct search *search, uint32_t stack, uint16_t track, uint8_t kind)
{
    mp_buffer_clear(&search->name);
    mp_stack_resolve(search->model, stack, &search->lines);
    mp_vec_each (const struct mp_stack_line, line, &search->lines) {
        if (!line->user) continue;
        mp_buffer_printf(&search->name, "%s:%u:%s\n", line->file, line->line, line->function ? line->function : "");
    }
    if (search->name.size) mp_buffer_printf(&search->name, "%u %u", track, kind);
}

static void add_place(struct search *search, uint32_t stack, uint16_t track, uint8_t kind, uint64_t *number)
{
    struct mp_leak_place place = {.stack = stack, .track = track, .kind = kind};
    *number = search->places->at.count;
    mp_vec_add(&search->places->at, place);
}

static uint32_t find_place(struct search *search, uint32_t block)
{
    const struct mp_model_blocks *blocks = &search->model->blocks;
    uint32_t stack = blocks->stack[block];
    uint16_t track = blocks->track[block];
    uint8_t kind = blocks->kind[block];
    bool fresh;
    uint64_t *at = mp_map_at(&search->sites, ((uint64_t)kind << 48 | (uint64_t)track << 32 | stack) + 1, &fresh);
    if (fresh) {
        name_place(search, stack, track, kind);
        if (!search->name.size) {
            add_place(search, stack, track, kind, at);
        } else {
            uint32_t id = mp_intern_add(&search->texts, (const char *)search->name.data, search->name.size);
            uint64_t *named = mp_map_at(&search->names, (uint64_t)id + 1, &fresh);
            if (fresh) add_place(search, stack, track, kind, named);
            *at = *named;
        }
    }
    return (uint32_t)*at;
}

static void add_entry(struct search *search, uint32_t block, uint32_t birth, uint32_t death)
{
    uint64_t bytes = search->model->blocks.bytes[block];
    struct entry entry = {
        .place = find_place(search, block),
        .block = block,
        .life = {birth, death, bytes == MP_BYTES_UNKNOWN ? 0 : bytes, search->model->blocks.stack[block]}};
    mp_vec_add(&search->entries, entry);
}

MP_ORDER(by_birth, struct entry, MP_RISING(life.birth) ?: MP_RISING(block))

static void gather(struct search *search, uint16_t track, const struct mp_window *window,
                   const struct mp_filter *filter)
{
    const struct mp_model_blocks *blocks = &search->model->blocks;
    const struct mp_step *steps = search->steps->at + search->places->first_step;
    uint32_t last = search->places->last, before = search->steps->before + 1 + search->places->first_step;
    struct mp_own_steps own;
    mp_own_steps_open(search->model, search->steps, search->places->first_step, last + 1, &own);
    uint32_t until = mp_own_steps_overlap(&own) ? window->last : steps[last].first;
    for (uint32_t block = 0; block < blocks->count; block++) {
        uint32_t born = blocks->alloc_event[block], freed = blocks->free_event[block], end;
        if (born == MP_NONE || born < steps[0].first) continue;
        if (born >= until) break;
        uint32_t birth = mp_own_step_of(&own, born, &end);
        if (birth >= last || freed < end) continue; /* true for most blocks */
        if (track != MP_TRACK_NONE && blocks->track[block] != track) continue;
        if (filter && !mp_filter_picks(filter, block)) continue;
        uint32_t death = freed >= window->last ? MP_NONE : mp_step_of(search->steps, freed) - before;
        add_entry(search, block, birth, death);
    }
    if (mp_own_steps_overlap(&own) && search->entries.count)
        qsort(search->entries.at, search->entries.count, sizeof *search->entries.at, by_birth);
    mp_own_steps_close(&own);
}

/* Sorts the entries by place; within a place they stay in order of birth. */
static void sort_entries(struct search *search)
{
    struct mp_leak_places *places = search->places;
    places->count = search->entries.count;
    if (!places->count) return;
    places->lives = mp_alloc(places->count * sizeof *places->lives);
    places->blocks = mp_alloc(places->count * sizeof *places->blocks);
    for (size_t i = 0; i < places->count; i++)
        places->at.at[search->entries.at[i].place].count++;
    size_t first = 0;
    for (size_t i = 0; i < places->at.count; i++) {
        places->at.at[i].first = first;
        first += places->at.at[i].count;
        places->at.at[i].count = 0;
    }
    for (size_t i = 0; i < places->count; i++) {
        struct mp_leak_place *place = &places->at.at[search->entries.at[i].place];
        places->lives[place->first + place->count] = search->entries.at[i].life;
        places->blocks[place->first + place->count++] = search->entries.at[i].block;
    }
}

static void choose_stack(const struct mp_model *model, const struct mp_leak_places *places, struct mp_leak_place *place)
{
    struct mp_map bytes = {0};
    uint64_t most = 0;
    for (size_t i = place->first; i < place->first + place->count; i++) {
        if (places->lives[i].death < places->last) continue;
        uint32_t stack = model->blocks.stack[places->blocks[i]];
        uint64_t *sum = mp_map_at(&bytes, (uint64_t)stack + 1, NULL);
        *sum += places->lives[i].bytes;
        if (*sum <= most) continue;
        most = *sum;
        place->stack = stack;
    }
    mp_map_free(&bytes);
}

/* Finds the boundaries in the window, including its end. */
static void bound(const struct mp_steps *steps, const struct mp_window *window, struct mp_leak_places *places)
{
    uint32_t first = 0, end = 0;
    while (first < steps->count && steps->at[first].first < window->first)
        first++;
    for (end = first; end < steps->count && steps->at[end].first <= window->last;)
        end++;
    places->first_step = first;
    places->steps = end - first;
    places->enough = end >= first + 2;
    places->last = places->enough ? end - first - 1 : 0;
}

void mp_leak_places_find(const struct mp_model *model, const struct mp_steps *steps, uint16_t track,
                         const struct mp_window *window, const struct mp_filter *filter, struct mp_leak_places *places)
{
    struct search search = {.model = model, .steps = steps, .places = places};
    *places = (struct mp_leak_places){0};
    bound(steps, window, places);
    if (!places->enough) return;
    gather(&search, track, window, filter);
    sort_entries(&search);
    for (size_t i = 0; i < places->at.count; i++)
        choose_stack(model, places, &places->at.at[i]);
    mp_vec_free(&search.entries);
    mp_map_free(&search.sites);
    mp_map_free(&search.names);
    mp_intern_free(&search.texts);
    mp_buffer_free(&search.name);
    mp_stack_lines_free(&search.lines);
}

void mp_leak_places_free(struct mp_leak_places *places)
{
    mp_vec_free(&places->at);
    free(places->lives);
    free(places->blocks);
    *places = (struct mp_leak_places){0};
}
