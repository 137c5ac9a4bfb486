/* The tensors in the blocks of sites, from the log of operators. Pure. */
#pragma once

#include "analysis/sites/live.h"
#include "analysis/sites/site.h"

/* Fills mp_sites.tensors, and each site's indices into them. `site_of`: by index in `live`, the index of its site. */
void mp_site_tensors_find(const struct mp_model *model, const struct mp_live_blocks *live, const uint32_t *site_of,
                          struct mp_sites *sites);
/* The tensors in all blocks of a stack, as those of one site without idle times. The caller frees the sites. */
void mp_stack_tensors_find(const struct mp_model *model, uint16_t track, uint32_t stack, struct mp_sites *sites);
