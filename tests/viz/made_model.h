/* Recordings that are made, not recorded, so that what a page must show is known beforehand. */
#ifndef MP_TESTS_VIZ_MADE_MODEL_H
#define MP_TESTS_VIZ_MADE_MODEL_H

#include "model/model.h"

/* Names that a page must not trip over: they end elements, open comments, or are not UTF-8. */
#define MADE_EVIL_FUNCTION "</script><script>document.title='broken'</script><!--"
#define MADE_EVIL_FILE     "/home/\xff\xfe/<b>&amp;.py"
#define MADE_EVIL_MODULE   "Net.</script><b>.\xff"

/* A few hundred blocks on two tracks: cuda:0/torch, with a base, reserved bytes and an out-of-memory event, and
 * cpu/torch. One block is resized; there are steps, regions and marks. Most blocks belong to one of two kinds of module
 * of the root Net, and the blocks of one stack were made in backward. */
struct mp_model *made_small(void);

/* A training loop's shape: parameters, activations freed in reverse, gradients, optimizer state after the first step.
 * It has small temporaries, a slow leak, and 24 layers of two modules. It makes about so many alloc and free events,
 * with 1000 stacks of 25 frames. */
struct mp_model *made_training(uint64_t events);

#endif
