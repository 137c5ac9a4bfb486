/*
 * What a page's blocks are for: of each block one category, which is the one that it has at its track's peak where it
 * is live then, so that a page says of the peak what `memprof peak` says; else the last one that it had.
 */
#ifndef MP_OUTPUT_PAGE_CATEGORIES_H
#define MP_OUTPUT_PAGE_CATEGORIES_H

#include "analysis/categories.h"
#include "base/json.h"

struct mp_page_categories {
    struct mp_categories *categories; /* NULL where no block has one */
    uint16_t *of_block;               /* by block of the model; 0: none */
};

/* `rules`: the user's; NULL: none. MP_NO_MEMORY. The caller frees them, also after a failure. */
enum mp_status mp_page_categories_find(const struct mp_model *model, const struct mp_rules *rules,
                                       struct mp_page_categories *categories, struct mp_error *error);
/* The names of numbers from 1 on, as "categories". */
void mp_page_categories_json(struct mp_json *json, const struct mp_page_categories *categories);
void mp_page_categories_free(struct mp_page_categories *categories);

#endif
