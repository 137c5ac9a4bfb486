/* Common facts of each site's blocks beside it: where they were freed, texts about them. Pure. */
#ifndef MP_ANALYSIS_SITE_SHARES_H
#define MP_ANALYSIS_SITE_SHARES_H

#include "analysis/sites/sites.h"

/* Fill in mp_sites.frees or mp_sites.metadata and each site's share of them. `site_of`: by index in live, the index of
 * its site. */
void mp_site_frees_find(const struct mp_model *model, const struct mp_live_blocks *live, const uint32_t *site_of,
                        struct mp_sites *sites);
void mp_site_metadata_find(const struct mp_model *model, const struct mp_live_blocks *live, const uint32_t *site_of,
                           struct mp_sites *sites);

/* All that was said of a block, as a person reads it: "phase 1; retained by autograd; internal: mallocWithAddress".
 * Nothing where nothing was. */
void mp_metadata_text(const struct mp_model *model, uint32_t block, struct mp_buffer *out);

#endif
