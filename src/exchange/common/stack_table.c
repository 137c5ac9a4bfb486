#include "exchange/common/stack_table.h"

#include "base/hash.h"
#include "base/memory.h"

/* The number of a pair, in order of first use. Exact: the pair itself is the key. */
static uint64_t *number_of(struct mp_map *map, uint32_t left, uint32_t right, bool *added)
{
    return mp_map_at(map, ((uint64_t)left << 32 | right) + 1, added);
}

uint32_t mp_stack_table_frame(struct mp_stack_table *table, uint32_t function, uint32_t file, uint32_t line,
                              uint32_t more)
{
    bool added;
    uint64_t *pair = number_of(&table->files, function, file, &added);
    if (added) *pair = table->files.count - 1;
    uint64_t *place = number_of(&table->lines, (uint32_t)*pair, line, &added);
    if (added) *place = table->lines.count - 1;
    uint64_t *frame = number_of(&table->others, (uint32_t)*place, more, &added);
    if (added) {
        struct mp_symbol symbol = {(uint32_t)table->frames.count, function, file, line};
        if (table->frames.count >= MP_FRAME_CUT) mp_memory_lacks(0); /* frames and stacks have numbers of four bytes */
        mp_vec_add(&table->frames, symbol);
        mp_vec_add(&table->more, more);
        *frame = symbol.frame;
    }
    return (uint32_t)*frame;
}

static uint32_t child(struct mp_stack_table *table, uint32_t parent, uint32_t frame)
{
    bool added;
    uint64_t *node = number_of(&table->children, parent, frame, &added);
    if (added) {
        struct mp_stack_node made = {parent, frame};
        if (table->nodes.count >= UINT32_MAX) mp_memory_lacks(0);
        mp_vec_add(&table->nodes, made);
        *node = table->nodes.count - 1;
    }
    return (uint32_t)*node;
}

static bool is_stack(const struct mp_stack_table *table, uint64_t stack, const uint32_t *frames, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!stack || table->nodes.at[stack].frame != frames[i]) return false;
        stack = table->nodes.at[stack].parent;
    }
    return !stack;
}

static uint64_t hash_frames(const uint32_t *frames, size_t count)
{
    uint64_t hash = mp_hash_bytes(frames, count * sizeof *frames);
    return hash ? hash : 1;
}

uint32_t mp_stack_table_stack(struct mp_stack_table *table, const uint32_t *frames, size_t count)
{
    static const struct mp_stack_node root;
    if (!table->nodes.count) mp_vec_add(&table->nodes, root);
    if (!count) return 0;
    uint64_t *whole = mp_map_at(&table->whole, hash_frames(frames, count), NULL);
    if (*whole && is_stack(table, *whole, frames, count)) return (uint32_t)*whole;
    uint32_t stack = 0;
    for (size_t i = count; i--;)
        stack = child(table, stack, frames[i]);
    *whole = stack;
    return stack;
}

void mp_stack_table_free(struct mp_stack_table *table)
{
    mp_vec_free(&table->frames);
    mp_vec_free(&table->more);
    mp_vec_free(&table->nodes);
    mp_map_free(&table->files);
    mp_map_free(&table->lines);
    mp_map_free(&table->others);
    mp_map_free(&table->children);
    mp_map_free(&table->whole);
}
