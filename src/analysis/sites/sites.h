/*
 * Live blocks grouped by site, or by what the user asked for, and sorted: the table in every report. Pure.
 */
#ifndef MP_ANALYSIS_SITES_H
#define MP_ANALYSIS_SITES_H

#include "analysis/sites/groups.h"
#include "analysis/sites/live.h"
#include "model/spans.h"

/* Modules of a network, as a pattern of their paths ("blocks.*.attn"), and what their blocks of one site hold. */
struct mp_site_module {
    uint32_t pattern; /* string id in mp_sites.groups */
    uint64_t bytes;
};

/* The blocks of a site that have something in common: the stack that freed them, or a text about them. */
struct mp_site_share {
    uint64_t bytes, blocks;
    uint32_t of;  /* stack; string id of the model */
    uint8_t kind; /* enum mp_metadata_kind, of what was said */
};

struct mp_site {
    uint64_t bytes, blocks, unknown_blocks; /* bytes of the blocks whose size is known */
    uint32_t stack;                         /* of the group's heaviest site */
    uint32_t group;         /* string id in mp_sites.groups; MP_NONE: unknown, or the grouping is by stack */
    uint64_t guessed_bytes; /* of a category: those of which it is a guess (categories/guesses.h) */
    double variance;        /* of bytes, where the blocks are a sample; NAN: not known */
    uint16_t track;
    uint32_t first_module, module_count;     /* in mp_sites.modules, the heaviest first; sites by stack only */
    uint32_t first_free, free_count;         /* in mp_sites.frees, likewise: where its blocks were freed later */
    uint32_t first_metadata, metadata_count; /* in mp_sites.metadata, likewise: what was said of its blocks */
    /* How its live blocks came: distinct periods (see growth.h) in which they were born; blocks of the base count as
     * none. A group has the most of any of its sites. */
    uint32_t births, first_step, last_step; /* steps: 0 where there are none, or before the first */
};

struct mp_sites {
    struct mp_site *at;
    size_t count, room;
    struct mp_intern groups;
    MP_VEC(struct mp_site_module) modules;
    MP_VEC(struct mp_site_share) frees, metadata;
    uint64_t bytes, blocks, unknown_blocks; /* of all sites; bytes are those that are known */
};

/* The bytes of a site, MP_BYTES_UNKNOWN where no block of it has a known size. */
static inline uint64_t mp_site_bytes(const struct mp_site *site)
{
    return site->unknown_blocks == site->blocks ? MP_BYTES_UNKNOWN : site->bytes;
}

/* Sites of one track are never merged with another's. `steps` are the model's. */
void mp_sites_make(const struct mp_model *model, const struct mp_live_blocks *live, const struct mp_steps *steps,
                   const struct mp_grouping *grouping, struct mp_sites *sites);
/* Sites at the track's peak before the recording's first event (mp_model.past_sites). */
void mp_sites_of_past(const struct mp_model *model, uint16_t track, const struct mp_grouping *grouping,
                      struct mp_sites *sites);
void mp_sites_sort(struct mp_sites *sites, enum mp_sort_by sort);
void mp_sites_free(struct mp_sites *sites);

/* Common facts of each site's blocks: where they were freed, texts about them. Pure. */

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
