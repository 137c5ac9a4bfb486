/*
 * The groups of a table's rows (--group), and the name of a block's group. Groups by frames, function, file and library
 * come from the block's stack, the others from the block itself. Pure.
 */
#pragma once

#include "analysis/categories/categories.h"
#include "analysis/sites/placement.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/intern.h"
#include "model/stack.h"
#include "model/uses.h"

enum mp_group_by {
    MP_GROUP_STACK,    /* sites: one whole stack each */
    MP_GROUP_FRAMES,   /* the innermost `frames` lines that the user reads: Python's if there are any, else native
                        * ones */
    MP_GROUP_FUNCTION, /* function of the headline (mp_stack_headline) */
    MP_GROUP_FILE,     /* file of the headline */
    MP_GROUP_LIBRARY,  /* shared object of the innermost native frame outside of allocators */
    MP_GROUP_REGION,   /* the innermost region at the block's birth */
    MP_GROUP_SIZE,     /* the block's size at that moment, in bytes */
    MP_GROUP_THREAD,   /* the thread that allocated the block: "python3 4711" */
    MP_GROUP_STREAM,   /* PyTorch's number */
    MP_GROUP_POOL,     /* "default", PyTorch's pair of numbers "(0, 1)", or the name of an application's pool */
    MP_GROUP_MODULE,   /* the path of the module that was running, or whose backward was */
    MP_GROUP_DTYPE,    /* the tensor's type, its sizes, or the operator that made it (model/uses.h) */
    MP_GROUP_SHAPE,
    MP_GROUP_OPERATOR,
    MP_GROUP_IDLE,     /* when the block is used again, seen from the moment */
    MP_GROUP_METADATA, /* a text about the block (site_shares.h) */
    MP_GROUP_CATEGORY, /* analysis/categories/categories.h */
    MP_GROUPS
};

enum mp_sort_by { MP_SORT_BYTES, MP_SORT_BLOCKS, MP_SORT_GROWTH };

struct mp_grouping {
    enum mp_group_by by;
    unsigned frames; /* MP_GROUP_FRAMES */
    enum mp_sort_by sort;
    /* MP_GROUP_CATEGORY: existing categories. NULL: they are made, with the user's rules (NULL: no rules) */
    const struct mp_categories *categories;
    const struct mp_rules *rules;
};

/* "stack", "stack:5", "function", "region", ... */
enum mp_status mp_group_parse(const char *text, struct mp_grouping *grouping, struct mp_error *error);
/* "bytes", "blocks", "peak" (at the peak the same as bytes), "growth" */
enum mp_status mp_sort_parse(const char *text, struct mp_grouping *grouping, struct mp_error *error);
/* The word for --group; "stack" also for stack:N. */
const char *mp_group_name(enum mp_group_by by);
/* True if all blocks of one stack are in one group. */
bool mp_group_is_of_stack(enum mp_group_by by);

/* Context for finding groups. Names go into `names`, which must outlive it. */
struct mp_groups {
    const struct mp_model *model;
    const struct mp_grouping *grouping;
    struct mp_intern *names;
    struct mp_stack_lines lines;
    struct mp_buffer text;
    uint32_t moment;
    struct mp_idle_view idle; /* MP_GROUP_IDLE */
    uint32_t *regions;
    struct mp_placements placements;
    const struct mp_categories *categories;
    struct mp_categories *made; /* the categories that this context made and frees */
    bool guessed;               /* the last block's category is a guess */
    size_t root;                /* mp_module_root() */
};

/* Opens the context for blocks as they are after `moment` events. */
void mp_groups_open(const struct mp_model *model, const struct mp_grouping *grouping, uint32_t moment,
                    struct mp_intern *names, struct mp_groups *groups);
/* The string id in `names` of the group of a stack or block; MP_NONE: unknown. */
uint32_t mp_groups_of_stack(struct mp_groups *groups, uint32_t stack);
uint32_t mp_groups_of_block(struct mp_groups *groups, uint32_t block, uint64_t bytes);
void mp_groups_close(struct mp_groups *groups);
