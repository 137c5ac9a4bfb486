/* Distinguishes rows with equal texts in a table of sites, so that each site has a text of its own. */
#pragma once

#include "analysis/sites/sites.h"
#include "base/buffer.h"

/* The words that follow mp_site_text() in a row, to distinguish its site. */
struct mp_site_apart {
    uint32_t twin;        /* stack of another row with the same text: the call in which the two stacks differ is added.
                           * MP_NONE: none */
    bool track;           /* true: the track is added */
    uint32_t call, calls; /* if names do not distinguish the rows: this is number `call` of `calls` equal rows, by first
                           * allocation; else 0 */
};

enum mp_apart_by {
    MP_APART_SITES = 0,        /* rows are mp_site_text() */
    MP_APART_HEADLINES = 1,    /* rows are mp_headline_text() */
    MP_APART_TRACKS_SHOWN = 2, /* the table has a column for tracks */
};

/* One entry for each of the first `rows` sites, freed by the caller. Only stacks, tracks and modules of sites are used.
 * `by`: bits of enum mp_apart_by. */
struct mp_site_apart *mp_site_apart(const struct mp_model *model, const struct mp_sites *sites, size_t rows,
                                    unsigned by);
/* Does the same for rows that are given as stacks and tracks. */
struct mp_site_apart *mp_stacks_apart(const struct mp_model *model, const uint32_t *stacks, const uint16_t *tracks,
                                      size_t rows, unsigned by); /* tracks: NULL if all rows are of one track */
/* Appends ", 1st of 2 such calls", or nothing. The text follows the name of the call in which twins differ. */
void mp_site_apart_text(struct mp_buffer *out, const struct mp_model *model, const struct mp_site *site,
                        const struct mp_site_apart *apart);
