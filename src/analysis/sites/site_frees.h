/* Where the blocks of each site were freed, as far as the recording knows. Pure. */
#ifndef MP_ANALYSIS_SITE_FREES_H
#define MP_ANALYSIS_SITE_FREES_H

#include "analysis/sites/sites.h"

/* Fills in mp_sites.frees and each site's share of them. `site_of`: by index in live, the index of its site. */
void mp_site_frees_find(const struct mp_model *model, const struct mp_live_blocks *live, const uint32_t *site_of,
                        struct mp_sites *sites);

#endif
