/* Which modules of a network the blocks of each site belong to, as patterns ("blocks.*.attn"). Pure. */
#ifndef MP_ANALYSIS_SITE_MODULES_H
#define MP_ANALYSIS_SITE_MODULES_H

#include "analysis/sites.h"

/* Fills in the modules of each site. `site_of`: by index in live, the index of its site. False where memory is short.
 */
bool mp_site_modules_find(const struct mp_model *model, const struct mp_live *live, const uint32_t *site_of,
                          struct mp_sites *sites);

#endif
