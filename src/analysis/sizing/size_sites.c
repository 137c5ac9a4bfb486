#include "analysis/sizing/size_sites.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/search.h"

#define BASE_HELD  UINT64_C(0x6261736568656c64) /* keys of base blocks differ from those of others */
#define BASE_FREED UINT64_C(0x6261736566726565)

uint64_t mp_size_bytes(const struct mp_model *model, uint32_t block)
{
    uint64_t bytes = model->blocks.bytes[block], most = bytes == MP_BYTES_UNKNOWN ? 0 : bytes;
    size_t first = MP_COUNT_BEFORE(model->resizes.count, i, model->resizes.at[i].block < block);
    for (; first < model->resizes.count && model->resizes.at[first].block == block; first++)
        if (model->resizes.at[first].bytes != MP_BYTES_UNKNOWN && model->resizes.at[first].bytes > most)
            most = model->resizes.at[first].bytes;
    return most;
}

static uint64_t text_key(const struct mp_model *model, uint32_t text)
{
    size_t length;
    const char *at = mp_intern_get(&model->strings, text, &length);
    return mp_hash_bytes(at, length);
}

static uint64_t frame_key(const struct mp_model *model, const struct mp_model_frame *frame)
{
    uint64_t key = frame->raw.language;
    if (frame->raw.language == MP_NATIVE && frame->raw.module && frame->raw.module < model->modules.count) {
        key = mp_hash_step(key, text_key(model, model->modules.at[frame->raw.module].path));
        return mp_hash_step(key, frame->raw.address);
    }
    key = mp_hash_step(key, text_key(model, frame->raw.function));
    key = mp_hash_step(key, text_key(model, frame->raw.file));
    return mp_hash_step(key, frame->raw.line);
}

/* Keys of a place, the most specific first: the whole stack; its Python frames, since kernels may be chosen by size;
 * the names of all functions, since lines move when a program is edited; the names of its Python functions, for both
 * reasons. */
enum { BY_WHOLE, BY_PYTHON, BY_NAMES, BY_PYTHON_NAMES, WAYS };

/* Per stack, a key for each way. */
struct keys {
    uint64_t *by[WAYS];
};

static void make_keys(const struct mp_model *model, struct keys *keys)
{
    uint64_t *frames = mp_alloc_zeroed(model->frames.count + 1, sizeof *frames);
    uint64_t *names = mp_alloc_zeroed(model->frames.count + 1, sizeof *names);
    for (size_t way = 0; way < WAYS; way++)
        keys->by[way] = mp_alloc_zeroed(model->stacks.count + 1, sizeof **keys->by);
    for (size_t i = 0; i < model->frames.count; i++) {
        frames[i] = frame_key(model, &model->frames.at[i]);
        names[i] = text_key(model, model->frames.at[i].raw.function);
    }
    for (size_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        uint32_t parent = node->parent < i ? node->parent : 0;
        bool cut = node->frame >= model->frames.count;
        bool python = !cut && model->frames.at[node->frame].raw.language != MP_NATIVE;
        for (size_t way = 0; way < WAYS; way++)
            keys->by[way][i] = keys->by[way][parent];
        if (!cut) keys->by[BY_NAMES][i] = mp_hash_step(keys->by[BY_NAMES][parent], names[node->frame]);
        if (python) keys->by[BY_PYTHON_NAMES][i] = mp_hash_step(keys->by[BY_PYTHON_NAMES][parent], names[node->frame]);
        if (python) keys->by[BY_PYTHON][i] = mp_hash_step(keys->by[BY_PYTHON][parent], frames[node->frame]);
        keys->by[BY_WHOLE][i] = mp_hash_step(keys->by[BY_WHOLE][parent], cut ? 1 : frames[node->frame]);
    }
    free(frames);
    free(names);
}

static void free_keys(struct keys *keys)
{
    for (size_t way = 0; way < WAYS; way++)
        free(keys->by[way]);
}

static uint64_t block_key(const struct mp_model *model, const uint64_t *stacks, uint32_t block)
{
    uint32_t stack = model->blocks.stack[block];
    uint64_t key = stack < model->stacks.count ? stacks[stack] : 0;
    if (model->blocks.alloc_event[block] == MP_NONE)
        key = mp_hash_step(key, model->blocks.free_event[block] == MP_NONE ? BASE_HELD : BASE_FREED);
    return mp_hash_step(key, model->blocks.kind[block]) | 1;
}

struct numbering {
    const struct mp_size_source *sources;
    struct keys keys[MP_SIZE_PROBES_MAX];
    struct mp_map numbers; /* key to place + 1 */
    MP_VEC(uint16_t) met;  /* per place: a bit for each recording that has it */
    struct mp_size_sites *sites;
};

static void number_block(struct numbering *numbering, size_t source, uint64_t key, uint32_t block)
{
    uint64_t *number = mp_map_at(&numbering->numbers, key, NULL);
    if (!*number) {
        mp_vec_add(&numbering->met, 0);
        *number = numbering->met.count;
    }
    uint32_t place = (uint32_t)*number - 1;
    numbering->met.at[place] |= (uint16_t)(1u << source);
    numbering->sites->of[source].place[block] = place;
}

/* Numbers the blocks whose place is not in all recordings, or that have none yet. Places from `before` on come from
 * this way. */
static void number_by(struct numbering *numbering, size_t way, size_t source, size_t before, uint16_t all)
{
    const struct mp_model *model = numbering->sources[source].model;
    const uint32_t *place = numbering->sites->of[source].place;
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        if (model->blocks.track[block] != numbering->sources[source].track) continue;
        if (place[block] < before && numbering->met.at[place[block]] == all) continue;
        uint64_t key = mp_hash_step(block_key(model, numbering->keys[source].by[way], block), way) | 1;
        number_block(numbering, source, key, block);
    }
}

static void number_all(struct numbering *numbering, size_t count, uint16_t all)
{
    for (size_t way = 0; way < WAYS; way++) {
        size_t before = numbering->met.count;
        for (size_t source = 0; source < count; source++)
            number_by(numbering, way, source, before, all);
    }
}

static void make_places(const struct mp_model *model, struct mp_size_places *places)
{
    places->place = mp_alloc((model->blocks.count + 1) * sizeof *places->place);
    for (size_t block = 0; block < model->blocks.count; block++)
        places->place[block] = MP_NONE;
}

/* ---- blocks by place -------------------------------------------------------------------------------------------- */

struct sized {
    uint64_t bytes;
    uint32_t block;
};

static int by_size(const void *left, const void *right)
{
    const struct sized *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return a->block < b->block ? -1 : a->block > b->block;
}

/* Base blocks have no order of birth. */
static void sort_base(const struct mp_model *model, uint32_t *order, size_t count)
{
    if (count < 2 || model->blocks.alloc_event[order[0]] != MP_NONE) return;
    struct sized *sized = mp_alloc(count * sizeof *sized);
    for (size_t i = 0; i < count; i++)
        sized[i] = (struct sized){mp_size_bytes(model, order[i]), order[i]};
    qsort(sized, count, sizeof *sized, by_size);
    for (size_t i = 0; i < count; i++)
        order[i] = sized[i].block;
    free(sized);
}

static void list_blocks(const struct mp_model *model, uint32_t count, struct mp_size_places *places)
{
    size_t blocks = 0;
    places->first = mp_alloc_zeroed(count + 2, sizeof *places->first);
    places->order = mp_alloc((model->blocks.count + 1) * sizeof *places->order);
    for (size_t block = 0; block < model->blocks.count; block++)
        if (places->place[block] != MP_NONE) places->first[places->place[block] + 2]++;
    for (uint32_t place = 0; place < count; place++)
        places->first[place + 2] += places->first[place + 1];
    for (uint32_t block = 0; block < model->blocks.count; block++, blocks++)
        if (places->place[block] != MP_NONE) places->order[places->first[places->place[block] + 1]++] = block;
    for (uint32_t place = 0; place < count; place++)
        sort_base(model, places->order + places->first[place], places->first[place + 1] - places->first[place]);
}

/* Finds how much of each place lived at once. */
static void measure(const struct mp_model *model, uint32_t count, struct mp_size_places *places)
{
    uint32_t *blocks = mp_alloc_zeroed(count + 1, sizeof *blocks);
    double *bytes = mp_alloc_zeroed(count + 1, sizeof *bytes);
    places->live_blocks = mp_alloc_zeroed(count + 1, sizeof *places->live_blocks);
    places->live_bytes = mp_alloc_zeroed(count + 1, sizeof *places->live_bytes);
    for (size_t i = 0; i < model->events.count + model->blocks.count; i++) {
        uint32_t block = (uint32_t)i, type = MP_EVENT_ALLOC;
        if (i < model->blocks.count) { /* the base comes first */
            if (model->blocks.alloc_event[block] != MP_NONE) continue;
        } else {
            type = model->events.type[i - model->blocks.count];
            if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) continue;
            block = model->events.subject[i - model->blocks.count];
        }
        uint32_t place = places->place[block];
        if (place == MP_NONE) continue;
        double sign = type == MP_EVENT_ALLOC ? 1 : -1;
        blocks[place] += type == MP_EVENT_ALLOC ? 1 : UINT32_MAX;
        bytes[place] += sign * (double)mp_size_bytes(model, block);
        if (blocks[place] > places->live_blocks[place]) places->live_blocks[place] = blocks[place];
        if (bytes[place] > places->live_bytes[place]) places->live_bytes[place] = bytes[place];
    }
    free(blocks);
    free(bytes);
}

static double common_share(const struct numbering *numbering, size_t count, uint16_t all)
{
    size_t blocks = 0, common = 0;
    for (size_t source = 0; source < count; source++) {
        const struct mp_model *model = numbering->sources[source].model;
        const uint32_t *place = numbering->sites->of[source].place;
        for (size_t block = 0; block < model->blocks.count; block++) {
            if (place[block] == MP_NONE) continue;
            blocks++;
            common += numbering->met.at[place[block]] == all;
        }
    }
    return blocks ? (double)common / (double)blocks : 0;
}

void mp_size_sites_make(const struct mp_size_source *sources, size_t count, struct mp_size_sites *sites)
{
    struct numbering numbering = {.sources = sources, .sites = sites};
    uint16_t all = (uint16_t)((1u << count) - 1);
    *sites = (struct mp_size_sites){.count = count};
    for (size_t i = 0; i < count; i++) {
        make_keys(sources[i].model, &numbering.keys[i]);
        make_places(sources[i].model, &sites->of[i]);
    }
    number_all(&numbering, count, all);
    sites->places = (uint32_t)numbering.met.count;
    sites->common = common_share(&numbering, count, all);
    for (size_t i = 0; i < count; i++) {
        list_blocks(sources[i].model, sites->places, &sites->of[i]);
        measure(sources[i].model, sites->places, &sites->of[i]);
    }
    for (size_t i = 0; i < count; i++)
        free_keys(&numbering.keys[i]);
    mp_map_free(&numbering.numbers);
    mp_vec_free(&numbering.met);
}

void mp_size_sites_free(struct mp_size_sites *sites)
{
    for (size_t i = 0; i < sites->count; i++) {
        free(sites->of[i].place);
        free(sites->of[i].first);
        free(sites->of[i].order);
        free(sites->of[i].live_blocks);
        free(sites->of[i].live_bytes);
    }
}
