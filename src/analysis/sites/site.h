/*
 * A site or group of live blocks, with what its blocks have in common. Bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/intern.h"
#include "base/vec.h"
#include "model/model.h"

/* A pattern for the paths of a network's modules ("blocks.*.attn"), with the bytes of these modules at one site. */
struct mp_site_module {
    uint32_t pattern; /* string id in mp_sites.groups */
    uint64_t bytes;
};

/* Blocks of a site with something in common: the stack that freed them, or a text about them. */
struct mp_site_share {
    uint64_t bytes, blocks;
    uint32_t of;  /* stack, or string id of the model */
    uint8_t kind; /* enum mp_metadata_kind of the text */
};

/* Blocks of a site with similar tensors: of one type, with as many dimensions, made by one operator. */
struct mp_site_tensor {
    uint64_t bytes, blocks;
    uint32_t operator;     /* string id of the model; 0: not known */
    uint32_t saved;        /* string id of the node of backward for which the blocks are saved; 0: none */
    uint32_t phase;        /* enum mp_phase in which they were made */
    uint32_t dtype, shape; /* string ids in mp_sites.groups: "float32", "[8, 128..256]"; MP_NONE: not known */
    uint64_t never_bytes, never_blocks; /* those that are not used again (mp_idle.never) */
    /* Times of the largest block, seen from the moment: since its last use, until its next use, and until that or its
     * free. MP_BYTES_UNKNOWN: that does not happen. */
    uint64_t idle_ns, again_ns, until_ns;
};

struct mp_site {
    uint64_t bytes, blocks, unknown_blocks; /* bytes: over the blocks of known size */
    uint32_t stack;                         /* stack of the group's heaviest site */
    uint32_t group;         /* string id in mp_sites.groups; MP_NONE: unknown, or the grouping is by stack */
    uint64_t guessed_bytes; /* for a category: the bytes of guessed blocks (categories/categories.h) */
    double variance;        /* variance of bytes, if the blocks are a sample; NAN: unknown */
    uint16_t track;
    bool of_base_alone;                      /* all its blocks were live before the recording began */
    uint32_t first_module, module_count;     /* indices into mp_sites.modules, the heaviest first; only for sites by
                                              * stack */
    uint32_t first_free, free_count;         /* indices into mp_sites.frees: the stacks that freed the site's blocks
                                              * later */
    uint32_t first_metadata, metadata_count; /* indices into mp_sites.metadata: the texts about the site's blocks */
    uint32_t first_tensor, tensor_count;     /* indices into mp_sites.tensors, the heaviest first */
    /* The number of periods (see growth.h) in which its live blocks were born; blocks of the base do not count. A group
     * has the highest number among its sites. */
    uint32_t births, first_step, last_step; /* steps: 0: none, or before the first step */
};

struct mp_sites {
    struct mp_site *at;
    size_t count, room;
    struct mp_intern groups;
    MP_VEC(struct mp_site_module) modules;
    MP_VEC(struct mp_site_share) frees, metadata;
    MP_VEC(struct mp_site_tensor) tensors;  /* with a log of operators, for sites by stack */
    uint64_t never_bytes;                   /* of all tensors */
    uint64_t bytes, blocks, unknown_blocks; /* sums over all sites; bytes: over blocks of known size */
};

/* The bytes of a site; MP_BYTES_UNKNOWN: no block has a known size. */
static inline uint64_t mp_site_bytes(const struct mp_site *site)
{
    return site->unknown_blocks == site->blocks ? MP_BYTES_UNKNOWN : site->bytes;
}
