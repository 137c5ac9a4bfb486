/* Rows about blocks: labels and requests, holders and metadata. A row may come before its block's events. All rows are
 * therefore collected, and sorted by block at the end. */
#include <stdlib.h>

#include "base/memory.h"
#include "base/order.h"
#include "model/builder_state.h"

/* The order of rows in the model: by block, by moment, then in the order in which they came. */
struct key {
    uint64_t moment;
    uint32_t block;
    uint32_t row; /* index in the builder's list */
};

MP_ORDER(by_key, struct key, MP_RISING(block) ?: MP_RISING(moment) ?: MP_RISING(row))

struct keys {
    MP_VEC(struct key) sorted;
};

static void add_key(const struct mp_builder *b, struct keys *keys, uint64_t number, uint64_t moment, size_t row)
{
    const struct key key = {moment, mp_builder_block(b, number), (uint32_t)row};
    if (key.block != MP_NONE) mp_vec_add(&keys->sorted, key);
}

static void sort_keys(struct keys *keys)
{
    if (keys->sorted.count) qsort(keys->sorted.at, keys->sorted.count, sizeof *keys->sorted.at, by_key);
}

static bool is_last_of_block(const struct keys *keys, size_t i)
{
    return i + 1 == keys->sorted.count || keys->sorted.at[i + 1].block != keys->sorted.at[i].block;
}

static bool is_last_of_moment(const struct keys *keys, size_t i)
{
    return is_last_of_block(keys, i) || keys->sorted.at[i + 1].moment != keys->sorted.at[i].moment;
}

/* ---- labels ---- */

void mp_builder_add_labels(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        const struct mp_label *from = &chunk->labels[i];
        struct mp_builder_label label = {.number = from->block,
                                         .time_ns = from->time_ns < UINT64_MAX ? from->time_ns : UINT64_MAX - 1,
                                         .role = from->role,
                                         .name = mp_builder_string(b, from->name)};
        if (from->role && from->role < MP_ROLES) mp_vec_add(&b->labels, label);
    }
}

void mp_builder_base_labels(struct mp_builder *b, const struct mp_base_block *base, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mp_builder_label label = {.number = base[i].block,
                                         .time_ns = UINT64_MAX,
                                         .event = (uint32_t)b->model->events.count - 1, /* or MP_NONE */
                                         .role = base[i].role,
                                         .name = mp_builder_string(b, base[i].label)};
        if (base[i].role && base[i].role < MP_ROLES) mp_vec_add(&b->labels, label);
        struct mp_block_request request = {base[i].block, base[i].request};
        if (request.request.bytes) mp_vec_add(&b->requests, request);
    }
}

/* Moves a label's event into the life of its block. Equal time stamps may leave their order open. */
static uint32_t while_alive(const struct mp_model_blocks *blocks, uint32_t block, uint32_t event)
{
    uint32_t born = blocks->alloc_event[block], died = blocks->free_event[block];
    if (born != MP_NONE && event + 1 < born + 1) return born;
    if (died != MP_NONE && event + 1 > died) return died - 1;
    return event;
}

/* The position of a label among the events: 1 + the number of the last event at or before it. 0: before all events. */
static uint32_t moment_of(const struct mp_builder *b, const struct mp_builder_label *label)
{
    uint32_t block = mp_builder_block(b, label->number);
    uint32_t event =
        label->time_ns == UINT64_MAX ? label->event : mp_model_events_before(b->model, label->time_ns, true) - 1;
    return block == MP_NONE ? 0 : while_alive(&b->model->blocks, block, event) + 1;
}

/* If there are several labels between two events, the last counts. A label that repeats the one before is dropped. */
void mp_builder_end_labels(struct mp_builder *b)
{
    struct mp_model *model = b->model;
    struct keys keys = {0};
    for (size_t i = 0; i < b->labels.count; i++)
        add_key(b, &keys, b->labels.at[i].number, moment_of(b, &b->labels.at[i]), i);
    sort_keys(&keys);
    for (size_t i = 0; i < keys.sorted.count; i++) {
        const struct key *key = &keys.sorted.at[i];
        const struct mp_builder_label *from = &b->labels.at[key->row];
        const struct mp_model_label label = {key->block, (uint32_t)key->moment - 1, from->role, from->name};
        const struct mp_model_label *last = model->labels.count ? &model->labels.at[model->labels.count - 1] : NULL;
        bool repeats = last && last->block == label.block && last->role == label.role && last->name == label.name;
        if (is_last_of_moment(&keys, i) && !repeats) mp_vec_add(&model->labels, label);
    }
    mp_vec_free(&keys.sorted);
}

/* ---- requests ---- */

void mp_builder_add_requests(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++)
        if (chunk->requests[i].request.bytes) mp_vec_add(&b->requests, chunk->requests[i]);
}

void mp_builder_end_requests(struct mp_builder *b)
{
    struct keys keys = {0};
    for (size_t i = 0; i < b->requests.count; i++)
        add_key(b, &keys, b->requests.at[i].block, 0, i);
    sort_keys(&keys);
    for (size_t i = 0; i < keys.sorted.count; i++) {
        const struct key *key = &keys.sorted.at[i];
        const struct mp_model_request request = {key->block, b->requests.at[key->row].request};
        if (is_last_of_block(&keys, i)) mp_vec_add(&b->model->requests, request);
    }
    mp_vec_free(&keys.sorted);
}

/* ---- holders ---- */

void mp_builder_add_holders(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_block_holder holder = chunk->holders[i];
        bool ends_look = holder.block == MP_HOLDER_LOOK;
        if (!ends_look && (holder.kind == MP_HOLDER_NONE || holder.kind >= MP_HOLDER_KINDS)) continue;
        holder.path = mp_builder_string(b, holder.path);
        holder.file = mp_builder_string(b, holder.file);
        mp_vec_add(&b->holders, holder);
    }
}

/* A row that ends a look comes after the look's rows; a recovered file may repeat some. If there are several rows for
 * one block, the last one counts, whatever look it is from. */
void mp_builder_end_holders(struct mp_builder *b)
{
    struct mp_model *model = b->model;
    struct keys keys = {0};
    for (size_t i = 0; i < b->holders.count; i++) {
        const struct mp_block_holder *from = &b->holders.at[i];
        if (from->block == MP_HOLDER_LOOK) {
            struct mp_model_look look = {from->time_ns, from->path, from->certain};
            mp_vec_add(&model->looks, look);
            continue;
        }
        add_key(b, &keys, from->block, model->looks.count, i);
    }
    sort_keys(&keys);
    for (size_t i = 0, since = 0; i < keys.sorted.count; i++) {
        const struct mp_block_holder *from = &b->holders.at[keys.sorted.at[i].row];
        bool is_first = !i || is_last_of_block(&keys, i - 1);
        if (is_first || b->holders.at[keys.sorted.at[i - 1].row].path != from->path) since = keys.sorted.at[i].moment;
        const struct mp_model_holder holder = {.block = keys.sorted.at[i].block,
                                               .since = (uint32_t)since,
                                               .look = (uint32_t)keys.sorted.at[i].moment,
                                               .path = from->path,
                                               .file = from->file,
                                               .line = from->line,
                                               .kind = from->kind,
                                               .certain = from->certain};
        if (is_last_of_block(&keys, i)) mp_vec_add(&model->holders, holder);
    }
    mp_vec_free(&keys.sorted);
}

/* ---- metadata ---- */

void mp_builder_add_metadata(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_block_metadata row = chunk->metadata[i];
        row.text = mp_builder_string(b, row.text);
        if (row.kind && row.kind < MP_METADATA_KINDS && row.text) mp_vec_add(&b->metadata, row);
    }
}

static bool is_same(const struct mp_model_metadata *a, const struct mp_model_metadata *b)
{
    return a->block == b->block && a->time_ns == b->time_ns && a->kind == b->kind && a->text == b->text;
}

static void find_repeated(struct mp_model *model)
{
    struct mp_map last = {0}; /* key: kind and text; value: the last block with them, + 1 */
    mp_vec_each (struct mp_model_metadata, row, &model->metadata) {
        uint64_t *block = mp_map_at(&last, ((uint64_t)row->kind << 32 | row->text) + 1, NULL);
        row->again = *block == (uint64_t)row->block + 1;
        *block = (uint64_t)row->block + 1;
    }
    mp_map_free(&last);
}

/* Keeps all rows, except those that a recovered file repeats. */
void mp_builder_end_metadata(struct mp_builder *b)
{
    struct mp_model *model = b->model;
    struct mp_model_metadata before = {.block = MP_NONE};
    struct keys keys = {0};
    for (size_t i = 0; i < b->metadata.count; i++)
        add_key(b, &keys, b->metadata.at[i].block, b->metadata.at[i].time_ns, i);
    sort_keys(&keys);
    for (size_t i = 0; i < keys.sorted.count; i++) {
        const struct mp_block_metadata *from = &b->metadata.at[keys.sorted.at[i].row];
        const struct mp_model_metadata row = {from->time_ns, keys.sorted.at[i].block, from->text, from->kind, false};
        if (!is_same(&before, &row)) mp_vec_add(&model->metadata, row);
        before = row;
    }
    mp_vec_free(&keys.sorted);
    find_repeated(model);
}

/* ---- uses by operators ---- */

void mp_builder_add_uses(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_block_use use = chunk->uses[i];
        use.operator= mp_builder_string(b, use.operator);
        use.node = mp_builder_string(b, use.node);
        use.shape = mp_builder_string(b, use.shape);
        if (use.how) mp_vec_add(&b->uses, use);
    }
}

/* Keeps all rows, except those that a recovered file repeats. */
void mp_builder_end_uses(struct mp_builder *b)
{
    struct mp_model *model = b->model;
    struct mp_model_use before = {.block = MP_NONE};
    struct keys keys = {0};
    for (size_t i = 0; i < b->uses.count; i++)
        add_key(b, &keys, b->uses.at[i].block, b->uses.at[i].time_ns, i);
    sort_keys(&keys);
    for (size_t i = 0; i < keys.sorted.count; i++) {
        const struct mp_block_use *from = &b->uses.at[keys.sorted.at[i].row];
        const struct mp_model_use use = {.time_ns = from->time_ns,
                                         .block = keys.sorted.at[i].block,
                                         .operator= from->operator,
                                         .node = from->node,
                                         .shape = from->shape,
                                         .how = from->how};
        bool repeats = before.block == use.block && before.time_ns == use.time_ns && before.how == use.how &&
                       before.shape == use.shape && before.operator== use.operator;
        if (!repeats) mp_vec_add(&model->uses, use);
        before = use;
    }
    mp_vec_free(&keys.sorted);
}
