#include <stdlib.h>

#include "base/memory.h"
#include "model/builder_state.h"

bool mp_builder_add_holders(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_block_holder holder = chunk->holders[i];
        bool ends_look = holder.block == MP_HOLDER_LOOK;
        if (!ends_look && (holder.kind == MP_HOLDER_NONE || holder.kind >= MP_HOLDER_KINDS)) continue;
        holder.path = mp_builder_string(b, holder.path);
        holder.file = mp_builder_string(b, holder.file);
        mp_vec_add(&b->holders, holder);
    }
    return true;
}

struct ordered {
    struct mp_model_holder holder;
    size_t order;
};

static int by_block_then_order(const void *left, const void *right)
{
    const struct ordered *a = left, *b = right;
    if (a->holder.block != b->holder.block) return a->holder.block < b->holder.block ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* The rows before the one that ends a look belong to that look; a recovered file may repeat some. Of several rows for
 * one block the last one counts. */
bool mp_builder_end_holders(struct mp_builder *b)
{
    struct mp_model *model = b->model;
    struct ordered *ordered = b->holders.count ? mp_alloc(b->holders.count * sizeof *ordered) : NULL;
    if (!ordered) return !b->holders.count;
    size_t count = 0;
    for (size_t i = 0; i < b->holders.count; i++) {
        const struct mp_block_holder *from = &b->holders.at[i];
        if (from->block == MP_HOLDER_LOOK) {
            struct mp_model_look look = {from->time_ns, from->path, from->certain};
            mp_vec_add(&model->looks, look);
            continue;
        }
        uint32_t block = mp_builder_block(b, from->block);
        if (block == MP_NONE) continue;
        struct mp_model_holder holder = {.block = block,
                                         .look = (uint32_t)model->looks.count,
                                         .path = from->path,
                                         .file = from->file,
                                         .line = from->line,
                                         .kind = from->kind,
                                         .certain = from->certain};
        ordered[count++] = (struct ordered){holder, i};
    }
    qsort(ordered, count, sizeof *ordered, by_block_then_order);
    mp_vec_room_for(&model->holders, count);
    for (size_t i = 0; i < count; i++)
        if (i + 1 == count || ordered[i + 1].holder.block != ordered[i].holder.block)
            model->holders.at[model->holders.count++] = ordered[i].holder;
    free(ordered);
    return true;
}
