/* Common facts about a site's blocks: the stacks that freed them, texts about them. Pure. */
#pragma once

#include "analysis/sites/live.h"
#include "analysis/sites/site.h"
#include "base/buffer.h"

/* Fill mp_sites.frees or mp_sites.metadata, and each site's indices into them. `site_of`: by index in `live`, the index
 * of its site. */
void mp_site_frees_find(const struct mp_model *model, const struct mp_live_blocks *live, const uint32_t *site_of,
                        struct mp_sites *sites);
void mp_site_metadata_find(const struct mp_model *model, const struct mp_live_blocks *live, const uint32_t *site_of,
                           struct mp_sites *sites);

/* Writes all texts about a block for people: "phase 1; retained by autograd; internal: mallocWithAddress". Writes
 * nothing if there are none. */
void mp_metadata_text(const struct mp_model *model, uint32_t block, struct mp_buffer *out);
