/* The table of sites, described once as mp_site_columns (columns.h), with the rows below each site: tensors, frees,
 * texts, holders. Bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/holders/holders.h"
#include "analysis/sites/sites.h"
#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"
#include "output/report/sites.h"

struct mp_site_view {
    size_t limit;                     /* rows; 0: all */
    bool full_stacks;                 /* show every frame, not only the user's lines and a count of the rest */
    enum mp_group_by by;              /* the grouping of the rows */
    bool births, track;               /* extra columns, extra keys */
    uint64_t whole;                   /* the total for shares; 0: no column */
    bool lines;                       /* text: a numbered line for each site, without heads */
    const struct mp_holders *holders; /* shown below sites with blocks of two or more steps; NULL: not shown */
    bool holders_of_all;              /* shown below each site */
};

/* Writes the table. False if it has no rows. */
bool mp_sites_text(struct mp_text *text, const struct mp_model *model, const struct mp_sites *sites,
                   const struct mp_site_view *view);

/* The holders that the table shows below a site. NULL: none. */
const struct mp_holders_site *mp_site_held(const struct mp_site_view *view, const struct mp_site *site);

/* The standard error of an estimate in bytes; MP_BYTES_UNKNOWN for NAN. */
uint64_t mp_error_bytes(double standard_error);

/* An array of sites under `key`. */
void mp_sites_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_sites *sites,
                   const struct mp_site_view *view);
