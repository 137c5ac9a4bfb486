/*
 * The network's modules as a page has them: paths that its blocks use, numbered from 1 in order of first use.
 */
#ifndef MP_OUTPUT_PAGE_MODULES_H
#define MP_OUTPUT_PAGE_MODULES_H

#include "base/buffer.h"
#include "model/model.h"

struct mp_page_modules {
    const struct mp_model *model;
    uint32_t *number_of_string; /* by string id of the model; NULL where no block has a module */
    size_t root;                /* bytes of each path that are the same in all: left out */
    uint64_t count;
    struct mp_buffer length, text; /* columns: each path's bytes, and the paths one after the other */
};

/* False where memory is short. The caller frees them, also then. */
bool mp_page_modules_init(struct mp_page_modules *modules, const struct mp_model *model);
/* The number of a block's module; 0: none. */
uint32_t mp_page_modules_of(struct mp_page_modules *modules, uint32_t block);
void mp_page_modules_free(struct mp_page_modules *modules);

#endif
