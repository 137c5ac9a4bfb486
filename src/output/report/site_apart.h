/* Tells apart the rows of a table of sites that would read alike: every table says of two places two things. */
#ifndef MP_OUTPUT_SITE_APART_H
#define MP_OUTPUT_SITE_APART_H

#include "analysis/sites/sites.h"
#include "base/buffer.h"

/* A row's words about its site that follow mp_site_text(). */
struct mp_site_apart {
    uint32_t twin;        /* another row's stack in the same words: the call in which they differ is named; MP_NONE */
    bool track;           /* the track is said */
    uint32_t call, calls; /* where no name tells: which of so many, in the order of their first allocations; else 0 */
};

enum mp_apart_by {
    MP_APART_SITES = 0,        /* rows are mp_site_text() */
    MP_APART_HEADLINES = 1,    /* rows are mp_headline_text() */
    MP_APART_TRACKS_SHOWN = 2, /* the table has a column for tracks */
};

/* For each of the first `rows` sites, of which only stack, track and modules are looked at. `by`: bits. The caller
 * frees it. */
struct mp_site_apart *mp_site_apart(const struct mp_model *model, const struct mp_sites *sites, size_t rows,
                                    unsigned by);
/* The same for rows that are not of a table of sites. */
struct mp_site_apart *mp_stacks_apart(const struct mp_model *model, const uint32_t *stacks, const uint16_t *tracks,
                                      size_t rows, unsigned by); /* tracks: NULL where the rows are of one */
/* ", 1st of 2 such calls", or nothing: what follows the name of the call in which they differ. */
void mp_site_apart_text(struct mp_buffer *out, const struct mp_model *model, const struct mp_site *site,
                        const struct mp_site_apart *apart);

#endif
