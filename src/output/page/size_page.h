/* `memprof size` as a page. */
#pragma once

#include "analysis/advise/advise.h"
#include "analysis/sizing/size.h"
#include "base/buffer.h"

/* Writes the answer as a self-contained page, with a plot of bytes over the batch. */
void mp_size_page(struct mp_buffer *out, const struct mp_size_answer *answer, const struct mp_advise *advise);
