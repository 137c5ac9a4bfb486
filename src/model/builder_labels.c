#include <stdlib.h>

#include "base/memory.h"
#include "model/builder_state.h"

bool mp_builder_add_labels(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        const struct mp_label *from = &chunk->labels[i];
        struct mp_builder_label label = {.number = from->block,
                                         .time_ns = from->time_ns < UINT64_MAX ? from->time_ns : UINT64_MAX - 1,
                                         .role = from->role,
                                         .name = mp_builder_string(b, from->name)};
        if (from->role && from->role < MP_ROLES) mp_vec_add(&b->labels, label);
    }
    return true;
}

void mp_builder_base_labels(struct mp_builder *b, const struct mp_base_block *base, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mp_builder_label label = {.number = base[i].block,
                                         .time_ns = UINT64_MAX,
                                         .event = (uint32_t)b->model->events.count - 1, /* MP_NONE before all */
                                         .role = base[i].role,
                                         .name = mp_builder_string(b, base[i].label)};
        if (base[i].role && base[i].role < MP_ROLES) mp_vec_add(&b->labels, label);
        struct mp_block_request request = {base[i].block, base[i].request};
        if (request.request.bytes) mp_vec_add(&b->requests, request);
    }
}

bool mp_builder_add_requests(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++)
        if (chunk->requests[i].request.bytes) mp_vec_add(&b->requests, chunk->requests[i]);
    return true;
}

/* A block has labels only while it lives, even where two equal time stamps leave the order open. */
static uint32_t while_alive(const struct mp_model_blocks *blocks, uint32_t block, uint32_t event)
{
    uint32_t born = blocks->alloc_event[block], died = blocks->free_event[block];
    if (born != MP_NONE && event + 1 < born + 1) return born;
    if (died != MP_NONE && event + 1 > died) return died - 1;
    return event;
}

struct ordered {
    struct mp_model_label label;
    size_t order;
};

static int by_block_then_moment(const void *left, const void *right)
{
    const struct ordered *a = left, *b = right;
    if (a->label.block != b->label.block) return a->label.block < b->label.block ? -1 : 1;
    if (a->label.event != b->label.event) return a->label.event + 1 < b->label.event + 1 ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* Of several labels between two events the last one counts; one that repeats the label in force is dropped. */
static void keep_lasting(struct mp_model *model, const struct ordered *labels, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct mp_model_label *label = &labels[i].label, *next = &labels[i + 1].label, *last = NULL;
        if (i + 1 < count && next->block == label->block && next->event == label->event) continue;
        if (model->labels.count) last = &model->labels.at[model->labels.count - 1];
        if (last && last->block == label->block && last->role == label->role && last->name == label->name) continue;
        mp_vec_add(&model->labels, *label);
    }
}

bool mp_builder_end_labels(struct mp_builder *b)
{
    struct mp_model *model = b->model;
    struct ordered *labels = b->labels.count ? mp_alloc(b->labels.count * sizeof *labels) : NULL;
    if (!labels) return !b->labels.count;
    size_t count = 0;
    for (size_t i = 0; i < b->labels.count; i++) {
        const struct mp_builder_label *label = &b->labels.at[i];
        uint32_t block = mp_builder_block(b, label->number);
        if (block == MP_NONE) continue;
        /* the last event that is not after the label; MP_NONE: all are */
        uint32_t event =
            label->time_ns == UINT64_MAX ? label->event : mp_model_events_before(model, label->time_ns, true) - 1;
        labels[count++] =
            (struct ordered){{block, while_alive(&model->blocks, block, event), label->role, label->name}, i};
    }
    qsort(labels, count, sizeof *labels, by_block_then_moment);
    keep_lasting(model, labels, count);
    free(labels);
    return true;
}

struct ordered_request {
    struct mp_model_request request;
    size_t order;
};

static int by_block_then_order(const void *left, const void *right)
{
    const struct ordered_request *a = left, *b = right;
    if (a->request.block != b->request.block) return a->request.block < b->request.block ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* Of several requests for one block the last one counts. */
bool mp_builder_end_requests(struct mp_builder *b)
{
    struct mp_model *model = b->model;
    struct ordered_request *requests = b->requests.count ? mp_alloc(b->requests.count * sizeof *requests) : NULL;
    if (!requests) return !b->requests.count;
    size_t count = 0;
    for (size_t i = 0; i < b->requests.count; i++) {
        uint32_t block = mp_builder_block(b, b->requests.at[i].block);
        if (block != MP_NONE) requests[count++] = (struct ordered_request){{block, b->requests.at[i].request}, i};
    }
    qsort(requests, count, sizeof *requests, by_block_then_order);
    mp_vec_room_for(&model->requests, count);
    for (size_t i = 0; i < count; i++)
        if (i + 1 == count || requests[i + 1].request.block != requests[i].request.block)
            model->requests.at[model->requests.count++] = requests[i].request;
    free(requests);
    return true;
}
