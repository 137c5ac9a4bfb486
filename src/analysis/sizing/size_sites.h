/*
 * The same places in several recordings of one program. Stacks and addresses differ from run to run; a place is
 * identified by what does not differ: modules with offsets, functions, files, lines, and their order. Where not every
 * recording has the whole stack, a part of it identifies the place. Pure.
 */
#ifndef MP_ANALYSIS_SIZE_SITES_H
#define MP_ANALYSIS_SIZE_SITES_H

#include "analysis/sizing/size_solve.h"
#include "model/model.h"

/* One recording and one of its tracks. */
struct mp_size_source {
    const struct mp_model *model;
    uint16_t track;
};

/* The blocks of one recording by place, in the order in which they were allocated; those of the base by size. */
struct mp_size_places {
    uint32_t *place;       /* per block of the model; MP_NONE: of another track */
    uint32_t *first;       /* per place, and one more: the beginning of its blocks in `order` */
    uint32_t *order;       /* blocks */
    uint32_t *live_blocks; /* per place: the most blocks that lived at once, and the most bytes */
    double *live_bytes;
};

struct mp_size_sites {
    struct mp_size_places of[MP_SIZE_PROBES_MAX];
    size_t count; /* recordings */
    uint32_t places;
    double common; /* the share of the blocks whose place is in every recording */
};

void mp_size_sites_make(const struct mp_size_source *sources, size_t count, struct mp_size_sites *sites);
void mp_size_sites_free(struct mp_size_sites *sites);

/* The bytes of a block, the most where it is resized; unknown sizes count as 0. */
uint64_t mp_size_bytes(const struct mp_model *model, uint32_t block);

#endif
