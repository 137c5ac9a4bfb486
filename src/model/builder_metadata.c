#include <stdlib.h>

#include "base/memory.h"
#include "model/builder_state.h"

bool mp_builder_add_metadata(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_block_metadata row = chunk->metadata[i];
        row.text = mp_builder_string(b, row.text);
        if (row.kind && row.kind < MP_METADATA_KINDS && row.text) mp_vec_add(&b->metadata, row);
    }
    return true;
}

struct ordered {
    struct mp_model_metadata metadata;
    size_t order;
};

static int by_block_then_time(const void *left, const void *right)
{
    const struct ordered *a = left, *b = right;
    if (a->metadata.block != b->metadata.block) return a->metadata.block < b->metadata.block ? -1 : 1;
    if (a->metadata.time_ns != b->metadata.time_ns) return a->metadata.time_ns < b->metadata.time_ns ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* A recovered file may repeat some. */
static bool is_same(const struct mp_model_metadata *a, const struct mp_model_metadata *b)
{
    return a->block == b->block && a->time_ns == b->time_ns && a->kind == b->kind && a->text == b->text;
}

static void find_repeated(struct mp_model *model)
{
    struct mp_map last = {0}; /* kind and text to the last block, + 1 */
    for (size_t i = 0; i < model->metadata.count; i++) {
        struct mp_model_metadata *row = &model->metadata.at[i];
        uint64_t *block = mp_map_at(&last, ((uint64_t)row->kind << 32 | row->text) + 1, NULL);
        row->again = *block == (uint64_t)row->block + 1;
        *block = (uint64_t)row->block + 1;
    }
    mp_map_free(&last);
}

bool mp_builder_end_metadata(struct mp_builder *b)
{
    struct mp_model *model = b->model;
    struct ordered *ordered = b->metadata.count ? mp_alloc(b->metadata.count * sizeof *ordered) : NULL;
    if (!ordered) return !b->metadata.count;
    size_t count = 0;
    for (size_t i = 0; i < b->metadata.count; i++) {
        const struct mp_block_metadata *from = &b->metadata.at[i];
        uint32_t block = mp_builder_block(b, from->block);
        if (block != MP_NONE)
            ordered[count++] = (struct ordered){{from->time_ns, block, from->text, from->kind, false}, i};
    }
    qsort(ordered, count, sizeof *ordered, by_block_then_time);
    mp_vec_room_for(&model->metadata, count);
    for (size_t i = 0; i < count; i++)
        if (!i || !is_same(&ordered[i - 1].metadata, &ordered[i].metadata))
            model->metadata.at[model->metadata.count++] = ordered[i].metadata;
    free(ordered);
    find_repeated(model);
    return true;
}
