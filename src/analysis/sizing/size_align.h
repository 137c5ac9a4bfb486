/*
 * The same sites in several recordings of a program, and their blocks in order: a site's k-th block is the same in
 * each. Stacks' numbers and addresses differ from run to run. A site is therefore identified by modules with offsets,
 * functions, files and lines. A site that some recordings lack is searched by its Python frames alone, since kernels
 * may depend on the size; then by functions' names. Pure.
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
    uint32_t *site;        /* per block of the model; MP_NONE: another track's */
    uint32_t *first;       /* per site, and one more: index of its first block in `order` */
    uint32_t *order;       /* blocks */
    uint32_t *siblings;    /* per block: live blocks of its site after its allocation, including itself; 0: a block of
                            * the base */
    uint32_t *live_blocks; /* per site: the most blocks, and the most bytes, at one time */
    double *live_bytes;
};

struct mp_size_alignment {
    struct mp_size_places of[MP_SIZE_PROBES_MAX];
    size_t count; /* recordings */
    uint32_t sites;
    unsigned char *handed; /* per site: one free-running thread hands its blocks to another */
    double common;         /* share of the blocks whose site is in every recording */
};

void mp_size_align(const struct mp_size_source *sources, size_t count, struct mp_size_alignment *alignment);
void mp_size_alignment_free(struct mp_size_alignment *alignment);

/* The bytes of a block, at most if it was resized; unknown sizes count as 0. */
uint64_t mp_size_bytes(const struct mp_model *model, uint32_t block);
