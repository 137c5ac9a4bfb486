/*
 * The live blocks of one process, as its collector gave them: their categories, and their sites with growth and the
 * leak rule's verdict. Once it is made, any thread may read it.
 */
#pragma once

#include "analysis/leaks/leaks.h"
#include "cli/top/top_data.h"
#include "cli/top/top_names.h"

struct mp_top_site {
    uint32_t at;   /* index in leaks.outstanding */
    double growth; /* bytes a step */
    bool leak;     /* the leak rule found a leak here */
};

struct mp_top_blocks {
    struct mp_model *model;
    struct mp_leaks leaks; /* as `memprof leaks --pid` finds them */
    struct mp_sites categories;
    struct mp_top_site *sites; /* as many as leaks.outstanding has */
    bool growth_known;
    struct mp_top_growth *growths; /* by device */
    size_t growth_count;
    unsigned holders; /* owners of a pointer to this struct; the last one frees it */
};

/* Reads the file that a collector wrote to `fd`. `names` NULL: stacks are not needed. */
enum mp_status mp_top_blocks_read(int fd, struct mp_top_names *names, struct mp_top_blocks **blocks,
                                  struct mp_error *error);
void mp_top_blocks_free(struct mp_top_blocks *blocks);
