#include "analysis/sizing/size_align.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"

#define BASE_HELD  UINT64_C(0x6261736568656c64) /* makes keys of base blocks differ from all others */
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

/* Keys of a site, the most specific first: the whole stack, its Python frames, its functions' names. Edits move lines,
 * so names alone come last. */
enum { BY_WHOLE, BY_PYTHON, BY_NAMES, WAYS };

/* Per stack. */
struct keys {
    uint64_t *by[WAYS];
    unsigned char *backward; /* the stack runs in backward, so on a thread that the caller of backward() waits for */
};

static void make_keys(const struct mp_model *model, struct keys *keys)
{
    uint64_t *frames = mp_alloc_zeroed(model->frames.count + 1, sizeof *frames);
    for (size_t way = 0; way < WAYS; way++)
        keys->by[way] = mp_alloc_zeroed(model->stacks.count + 1, sizeof **keys->by);
    keys->backward = mp_alloc_zeroed(model->stacks.count + 1, 1);
    for (size_t i = 0; i < model->frames.count; i++)
        frames[i] = frame_key(model, &model->frames.at[i]);
    for (size_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        uint32_t parent = node->parent < i ? node->parent : 0;
        bool cut = node->frame >= model->frames.count;
        uint64_t name = cut ? 1 : text_key(model, model->frames.at[node->frame].raw.function);
        unsigned language = cut ? MP_NATIVE : model->frames.at[node->frame].raw.language;
        keys->backward[i] = keys->backward[parent] || language == MP_BACKWARD;
        keys->by[BY_WHOLE][i] = mp_hash_step(keys->by[BY_WHOLE][parent], cut ? 1 : frames[node->frame]);
        keys->by[BY_NAMES][i] = mp_hash_step(keys->by[BY_NAMES][parent], name);
        keys->by[BY_PYTHON][i] = language == MP_NATIVE ? keys->by[BY_PYTHON][parent]
                                                       : mp_hash_step(keys->by[BY_PYTHON][parent], frames[node->frame]);
    }
    free(frames);
}

static void free_keys(struct keys *keys)
{
    for (size_t way = 0; way < WAYS; way++)
        free(keys->by[way]);
    free(keys->backward);
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
    struct mp_map numbers; /* key to site + 1 */
    MP_VEC(uint16_t) met;  /* per site: one bit for each recording that has it */
    struct mp_size_alignment *alignment;
};

static void number_block(struct numbering *numbering, size_t source, uint64_t key, uint32_t block)
{
    uint64_t *number = mp_map_at(&numbering->numbers, key, NULL);
    if (!*number) {
        mp_vec_add(&numbering->met, 0);
        *number = numbering->met.count;
    }
    uint32_t site = (uint32_t)*number - 1;
    numbering->met.at[site] |= (uint16_t)(1u << source);
    numbering->alignment->of[source].site[block] = site;
}

/* Numbers the blocks without a number, or whose site is not in all recordings, by one of the three keys. Sites from
 * `before` on are those of this key. */
static void number_by(struct numbering *numbering, size_t way, size_t source, size_t before, uint16_t all)
{
    const struct mp_model *model = numbering->sources[source].model;
    const uint32_t *site = numbering->alignment->of[source].site;
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        if (model->blocks.track[block] != numbering->sources[source].track) continue;
        if (site[block] < before && numbering->met.at[site[block]] == all) continue;
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

/* ---- blocks by site --------------------------------------------------------------------------------------------- */

struct sized {
    uint64_t bytes;
    uint32_t block;
};

MP_ORDER(by_size, struct sized, MP_RISING(bytes) ?: MP_RISING(block))

/* Sorts base blocks by size, as they have no order of birth. */
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

static void list_blocks(const struct mp_model *model, uint32_t sites, struct mp_size_places *places)
{
    places->first = mp_alloc_zeroed(sites + 2, sizeof *places->first);
    places->order = mp_alloc((model->blocks.count + 1) * sizeof *places->order);
    for (size_t block = 0; block < model->blocks.count; block++)
        if (places->site[block] != MP_NONE) places->first[places->site[block] + 2]++;
    for (uint32_t site = 0; site < sites; site++)
        places->first[site + 2] += places->first[site + 1];
    for (uint32_t block = 0; block < model->blocks.count; block++)
        if (places->site[block] != MP_NONE) places->order[places->first[places->site[block] + 1]++] = block;
    for (uint32_t site = 0; site < sites; site++)
        sort_base(model, places->order + places->first[site], places->first[site + 1] - places->first[site]);
}

/* Finds how much of each site lived at one time. */
static void measure(const struct mp_model *model, uint32_t sites, struct mp_size_places *places)
{
    uint32_t *blocks = mp_alloc_zeroed(sites + 1, sizeof *blocks);
    double *bytes = mp_alloc_zeroed(sites + 1, sizeof *bytes);
    places->siblings = mp_alloc_zeroed(model->blocks.count + 1, sizeof *places->siblings);
    places->live_blocks = mp_alloc_zeroed(sites + 1, sizeof *places->live_blocks);
    places->live_bytes = mp_alloc_zeroed(sites + 1, sizeof *places->live_bytes);
    for (size_t i = 0; i < model->events.count + model->blocks.count; i++) {
        uint32_t block = (uint32_t)i, type = MP_EVENT_ALLOC;
        if (i < model->blocks.count) { /* blocks of the base come first */
            if (model->blocks.alloc_event[block] != MP_NONE) continue;
        } else {
            type = model->events.type[i - model->blocks.count];
            if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) continue;
            block = model->events.subject[i - model->blocks.count];
        }
        uint32_t site = places->site[block];
        if (site == MP_NONE) continue;
        double size = (double)mp_size_bytes(model, block);
        blocks[site] += type == MP_EVENT_ALLOC ? 1 : UINT32_MAX;
        bytes[site] += type == MP_EVENT_ALLOC ? size : -size;
        if (type == MP_EVENT_ALLOC && i >= model->blocks.count) places->siblings[block] = blocks[site];
        if (blocks[site] > places->live_blocks[site]) places->live_blocks[site] = blocks[site];
        if (bytes[site] > places->live_bytes[site]) places->live_bytes[site] = bytes[site];
    }
    free(blocks);
    free(bytes);
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

/* True for a block that a thread makes on its own. In backward, the calling thread waits. */
static bool is_own(const struct mp_model *model, const struct keys *keys, const uint32_t *site, size_t block)
{
    uint32_t stack = model->blocks.stack[block];
    return site[block] != MP_NONE && model->blocks.alloc_event[block] != MP_NONE &&
           !(stack < model->stacks.count && keys->backward[stack]);
}

/* The thread that makes most blocks on its own. */
static uint32_t main_thread(const struct mp_model *model, const struct keys *keys, const uint32_t *site)
{
    uint64_t *counts = mp_alloc_zeroed(model->threads.count + 1, sizeof *counts);
    uint32_t most = 0;
    for (size_t block = 0; block < model->blocks.count; block++) {
        if (!is_own(model, keys, site, block)) continue;
        uint32_t thread = model->events.thread[model->blocks.alloc_event[block]];
        if (thread < model->threads.count && ++counts[thread] > counts[most]) most = thread;
    }
    free(counts);
    return most;
}

/* Finds sites whose blocks one thread makes and another frees. How many of these wait depends on both threads'
 * speed. */
static void find_handed(const struct mp_model *model, const struct keys *keys, const uint32_t *site,
                        unsigned char *handed)
{
    uint32_t first = main_thread(model, keys, site);
    for (size_t block = 0; block < model->blocks.count; block++) {
        if (!is_own(model, keys, site, block)) continue;
        uint32_t maker = model->events.thread[model->blocks.alloc_event[block]], died = model->blocks.free_event[block];
        if (maker != first && (died == MP_NONE || model->events.thread[died] != maker)) handed[site[block]] = 1;
    }
}

static double common_share(const struct numbering *numbering, size_t count, uint16_t all)
{
    size_t blocks = 0, common = 0;
    for (size_t source = 0; source < count; source++) {
        const uint32_t *site = numbering->alignment->of[source].site;
        for (size_t block = 0; block < numbering->sources[source].model->blocks.count; block++) {
            if (site[block] == MP_NONE) continue;
            blocks++;
            common += numbering->met.at[site[block]] == all;
        }
    }
    return blocks ? (double)common / (double)blocks : 0;
}

void mp_size_align(const struct mp_size_source *sources, size_t count, struct mp_size_alignment *alignment)
{
    struct numbering numbering = {.sources = sources, .alignment = alignment};
    uint16_t all = (uint16_t)((1u << count) - 1);
    *alignment = (struct mp_size_alignment){.count = count};
    for (size_t i = 0; i < count; i++) {
        size_t blocks = sources[i].model->blocks.count;
        make_keys(sources[i].model, &numbering.keys[i]);
        alignment->of[i].site = mp_alloc((blocks + 1) * sizeof *alignment->of[i].site);
        memset(alignment->of[i].site, 0xff, blocks * sizeof *alignment->of[i].site); /* MP_NONE */
    }
    number_all(&numbering, count, all);
    alignment->sites = (uint32_t)numbering.met.count;
    alignment->common = common_share(&numbering, count, all);
    alignment->handed = mp_alloc_zeroed(alignment->sites + 1, 1);
    for (size_t i = 0; i < count; i++) {
        list_blocks(sources[i].model, alignment->sites, &alignment->of[i]);
        measure(sources[i].model, alignment->sites, &alignment->of[i]);
        find_handed(sources[i].model, &numbering.keys[i], alignment->of[i].site, alignment->handed);
        free_keys(&numbering.keys[i]);
    }
    mp_map_free(&numbering.numbers);
    mp_vec_free(&numbering.met);
}

void mp_size_alignment_free(struct mp_size_alignment *alignment)
{
    for (size_t i = 0; i < alignment->count; i++) {
        free(alignment->of[i].site);
        free(alignment->of[i].first);
        free(alignment->of[i].order);
        free(alignment->of[i].siblings);
        free(alignment->of[i].live_blocks);
        free(alignment->of[i].live_bytes);
    }
    free(alignment->handed);
}
