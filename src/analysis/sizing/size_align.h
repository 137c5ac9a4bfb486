/*
 * The same sites in several recordings of one program, and their blocks in order: the k-th block of a site in one
 * recording is the k-th of that site in every other. Stacks and addresses differ from run to run. Modules with offsets,
 * functions, files and lines identify a site. A site that only some recordings have is looked for by its Python frames
 * alone, since kernels may be chosen by size, then by the names of functions. Pure.
 */
#ifndef MP_ANALYSIS_SIZE_ALIGN_H
#define MP_ANALYSIS_SIZE_ALIGN_H

#include "analysis/sizing/size_solve.h"
#include "model/model.h"

/* One recording and one of its tracks. */
struct mp_size_source {
    const struct mp_model *model;
    uint16_t track;
};

/* The blocks of one recording by site, in the order in which they were allocated; those of the base by size. */
struct mp_size_places {
    uint32_t *site;        /* per block of the model; MP_NONE: of another track */
    uint32_t *first;       /* per site, and one more: the beginning of its blocks in `order` */
    uint32_t *order;       /* blocks */
    uint32_t *siblings;    /* per block: blocks of its site that lived once it was there, with itself; 0: of the base */
    uint32_t *live_blocks; /* per site: the most blocks that lived at once, and the most bytes */
    double *live_bytes;
};

struct mp_size_alignment {
    struct mp_size_places of[MP_SIZE_PROBES_MAX];
    size_t count; /* recordings */
    uint32_t sites;
    unsigned char *handed; /* per site: threads that run on their own hand blocks to others */
    double common;         /* the share of the blocks whose site is in every recording */
};

void mp_size_align(const struct mp_size_source *sources, size_t count, struct mp_size_alignment *alignment);
void mp_size_alignment_free(struct mp_size_alignment *alignment);

/* The bytes of a block, the most where it is resized; unknown sizes count as 0. */
uint64_t mp_size_bytes(const struct mp_model *model, uint32_t block);

#endif
