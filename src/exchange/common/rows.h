/*
 * The blocks of a recording, or of a part of it, as rows of a table: the choice of blocks, and facts beyond the model's
 * own columns. One thread at a time.
 */
#pragma once

#include "analysis/categories/phases.h"
#include "analysis/sites/placement.h"
#include "model/filter.h"
#include "model/model.h"
#include "model/spans.h"
#include "model/window.h"

/* A block is picked if it lives at any moment of the window and the filter (NULL: every block) picks it. */
struct mp_block_rows {
    const struct mp_model *model;
    const struct mp_window *window;
    const struct mp_filter *filter;
    struct mp_steps steps;
    uint32_t *regions; /* by block: string ids, MP_NONE if there is none */
    size_t root;       /* length of the modules' common root, by mp_module_root() */
    struct mp_placements placements;
    struct mp_phases phases;
};

/* One block. UINT64_MAX: the value is unknown, or the event has not happened. */
struct mp_row {
    uint32_t block;
    uint64_t bytes; /* bytes when it was allocated */
    uint64_t alloc_ns, free_ns, alloc_step, free_step, thread;
    const char *track_device, *layer, *pool, *kind;
    const char *region;                 /* NULL: none */
    const char *shape, *made_by, *node; /* from the log of operators: type and sizes of its tensor, the operator that
                                         * made it, the node of backward that ran that; NULL: not known */
    const char *phase, *saved_for;      /* the phase in which it was made; the node of backward for which it is saved */
    const char *module;                 /* the path of the network's module that allocated it; NULL: none */
    const char *role, *label;           /* from its last label; NULL: none */
    uint32_t stack;
    uint64_t requested, stream; /* the request to PyTorch's allocator */
    char torch_pool[24];        /* PyTorch's pair of numbers for the pool, as "0,1"; "": unknown */
};

/* The texts belong to the model. Model, window and filter must outlive the rows. */
void mp_block_rows_start(const struct mp_model *model, const struct mp_window *window, const struct mp_filter *filter,
                         struct mp_block_rows *rows);
bool mp_block_rows_pick(const struct mp_block_rows *rows, uint32_t block);
/* Finds the next picked block from row->block on; false if there is none. Begin with row->block 0, and add 1 before
 * each further call. */
bool mp_block_rows_next(const struct mp_block_rows *rows, struct mp_row *row);
void mp_block_rows_free(struct mp_block_rows *rows);
