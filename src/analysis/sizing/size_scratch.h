/*
 * Scratch memory that no probe has had. PyTorch's operations choose their way by the sizes of what they work on: a sum
 * over many rows is divided among blocks of threads, which need memory in common, a sort of more than 4096 numbers
 * needs other memory than one of fewer. Such memory comes and goes within an operation; what is cached afterwards, and
 * whose place it took, stays. So it is assumed of each operation whose memory grows, of a size by what it has made, or
 * by the largest of all. Pure.
 */
#ifndef MP_ANALYSIS_SIZE_SCRATCH_H
#define MP_ANALYSIS_SIZE_SCRATCH_H

#include "model/model.h"

/* How much an operation takes. */
enum mp_size_taking {
    MP_SIZE_TAKES_SUMS,    /* of a few bytes each, as of nearly all operations */
    MP_SIZE_TAKES_RECORDS, /* the same with wider ones: a value with its index, a mean with its variance and count */
    MP_SIZE_TAKES_KEYS     /* keys and indices twice, to sort them */
};

/* Per stack of a model: the kind of the operator that allocates there. The caller frees it. */
unsigned char *mp_size_scratch_find(const struct mp_model *model);
/* The most that such an operation takes on so many bytes. */
uint64_t mp_size_scratch_on(enum mp_size_taking taking, uint64_t bytes);

#endif
