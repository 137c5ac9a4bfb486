/*
 * The same sites in several recordings of a program, and their blocks in order: a site's k-th block is the same in
 * each. Stacks' numbers and addresses differ from run to run. A site is therefore identified by modules with offsets,
 * functions, files and lines. Kernels may depend on the size. So a site that some recordings lack is sought by its
 * Python frames alone, and then by the names of its functions alone. Pure.
 */
#pragma once

#include "analysis/sizing/size_solve.h"
#include "model/model.h"

/* One recording and one of its tracks. */
struct mp_size_source {
    const struct mp_model *model;
    uint16_t track;
};

/* The blocks of one recording by site, in order of allocation; blocks of the base in order of size. */
struct mp_size_places {
    uint32_t *site;        /* per block of the model; MP_NONE: the block is of another track */
    uint32_t *first;       /* per site, and one more: index of its first block in `order` */
    uint32_t *order;       /* blocks */
    uint32_t *siblings;    /* per block: the number of live blocks of its site just after its allocation; 0: a block of
                            * the base */
    uint32_t *live_blocks; /* per site: the most blocks, and the most bytes, at one time */
    double *live_bytes;
};

struct mp_size_alignment {
    struct mp_size_places of[MP_SIZE_PROBES_MAX];
    size_t count; /* recordings */
    uint32_t sites;
    unsigned char *handed; /* per site: true if one thread hands its blocks to another, without waiting for it */
    double common;         /* share of the blocks whose site is in every recording */
};

void mp_size_align(const struct mp_size_source *sources, size_t count, struct mp_size_alignment *alignment);
void mp_size_alignment_free(struct mp_size_alignment *alignment);

/* The bytes of a block (its largest size if it was resized); unknown sizes count as 0. */
uint64_t mp_size_bytes(const struct mp_model *model, uint32_t block);
