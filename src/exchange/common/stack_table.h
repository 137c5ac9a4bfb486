/*
 * The frames and stacks of an imported file, each once, with the ids of format/recording.h: the contents of a
 * recording's tables of frames, symbols and stacks. A repeated stack costs one hash and one comparison. One thread at a
 * time.
 */
#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "format/recording.h"

/* Function and file are string ids of the table's user. */
struct mp_stack_table {
    MP_VEC(struct mp_symbol) frames; /* one symbol for each frame; `frame` is its id */
    MP_VEC(uint32_t) more;           /* one for each frame: string id of its `more` (docs/FORMAT.md) */
    MP_VEC(struct mp_stack_node) nodes;
    struct mp_map files, lines, others, children, whole;
};

/* The id of a frame. `more` is a further text about the frame: frames with different `more` are different frames. */
uint32_t mp_stack_table_frame(struct mp_stack_table *table, uint32_t function, uint32_t file, uint32_t line,
                              uint32_t more);
/* The id of a stack of `count` frames, innermost first; 0 for none. */
uint32_t mp_stack_table_stack(struct mp_stack_table *table, const uint32_t *frames, size_t count);
void mp_stack_table_free(struct mp_stack_table *table);
