/* Artificial recordings, so that the right contents of a page are known. */
#pragma once

#include "model/model.h"

/* Hostile names: they end elements, open comments, or are not UTF-8. */
#define MADE_EVIL_FUNCTION "</script><script>document.title='broken'</script><!--"
#define MADE_EVIL_FILE     "/home/\xff\xfe/<b>&amp;.py"
#define MADE_EVIL_MODULE   "Net.</script><b>.\xff"

/* A few hundred blocks on two tracks: cuda:0/torch, with a base, reserved bytes and an out-of-memory event, and
 * cpu/torch. One block is resized; there are steps, regions and marks. Most blocks belong to one of two kinds of
 * modules of the root Net. The blocks of one stack were made in backward. */
struct mp_model *made_small(void);

/* A recording like that of a training loop with 24 layers of two modules. Activations are freed in reverse, optimizer
 * state comes after the first step, and there is a slow leak. It has about `events` alloc and free events, with 1000
 * stacks of 25 frames. */
struct mp_model *made_training(uint64_t events);
