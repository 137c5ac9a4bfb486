/*
 * Picks blocks: `size>1MiB`, `fn~attention`, `file~train.py`, `module~attn`, `region=forward`, `category=activations`,
 * `role=parameter`, `label~weight`, `dtype=float32`, `shape~, 4096]`, `operator=addmm`, `layer=torch`, `kind=pinned`,
 * `step=3..9`, several joined by commas (all must hold). `~` searches for an extended regular expression, `!~` is its
 * contrary; `=` compares the whole text. fn and file look at all frames of the stack, region at the innermost region at
 * the block's birth. Role and label come from the block's last label: its part in training (`none` without a label) and
 * its name. No comparison picks a block of unknown size. A block without a module, region, category, label, type, shape
 * or operator has the empty text.
 */
#pragma once

#include "base/error.h"
#include "model/model.h"

struct mp_filter;

/* Returns the category of each block ("" for none). It is called only while the filter is made. If the function is
 * NULL, filters by category are refused. */
struct mp_filter_categories {
    const char *(*of_block)(const void *context, uint32_t block);
    const void *context;
};

/* Parses the text and makes a filter for one model, which must outlive it. MP_INVALID: *error names the mistake. */
enum mp_status mp_filter_make(const struct mp_model *model, const char *text,
                              const struct mp_filter_categories *categories, struct mp_filter **filter,
                              struct mp_error *error);
/* True if the filter picks a block; NULL picks every block. */
bool mp_filter_picks(const struct mp_filter *filter, uint32_t block);
void mp_filter_free(struct mp_filter *filter);
