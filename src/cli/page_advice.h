/* Which changes a page draws over its plot. */
#ifndef MP_CLI_PAGE_ADVICE_H
#define MP_CLI_PAGE_ADVICE_H

#include "analysis/advise/advise.h"

/* Looks for changes of a whole recording that lower the peak of its track (MP_TRACK_NONE: the default one). Returns
 * whether there is an answer, to be freed with mp_advise_free(); there is none of samples, and of recordings so long
 * that a page is not to wait for the replays. */
bool mp_page_advice(const struct mp_model *model, uint16_t track, struct mp_advise *advise);

#endif
