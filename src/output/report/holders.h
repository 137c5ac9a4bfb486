/*
 * Holders of blocks, as text and as JSON: for the findings of `leaks`, and for `holders`. Rules as in
 * output/report/view.h.
 */
#pragma once

#include "analysis/holders/causes.h"
#include "analysis/holders/holders.h"
#include "output/report/view.h"

/* Writes the array "holders" of one site; empty if `site` is NULL. */
void mp_holders_site_json(struct mp_json *json, const struct mp_model *model, const struct mp_holders *holders,
                          const struct mp_holders_site *site, size_t limit);
/* Rows of a table whose last column is `column`; none for a recording without looks. */
void mp_holders_site_rows(struct mp_table *table, unsigned column, const struct mp_model *model,
                          const struct mp_holders *holders, const struct mp_holders_site *site, size_t limit);
/* Only the first holder. */
void mp_holders_first_row(struct mp_table *table, unsigned column, const struct mp_model *model,
                          const struct mp_holders *holders, const struct mp_holders_site *site);
/* Lines about what is held for longer than needed, the most bytes first; `whole`: the bytes that these are a part of.
 * The JSON is the array "held". Nothing if `causes` is NULL. */
void mp_held_text(struct mp_text *text, const struct mp_held_causes *causes, uint64_t whole, const char *indent);
void mp_held_json(struct mp_json *json, const struct mp_model *model, const struct mp_held_causes *causes);
/* The first holder, for a cell: "trainer.history[*], 12 of 12 blocks"; empty if none is known. */
void mp_holders_first_text(struct mp_buffer *out, const struct mp_model *model, const struct mp_holders *holders,
                           const struct mp_holders_site *site);
/* Appends why holders of blocks of this site were not found, without a full stop. False if no holder is missing, or if
 * the reason is unknown. `site` may be NULL. */
bool mp_holders_why_missing(struct mp_buffer *sentence, const struct mp_holders_site *site);
/* Advice that follows from the holders of findings. Each advice is given once, on a line of its own. */
struct mp_holders_advised {
    bool kinds[MP_HOLDER_KINDS + 1];
};
void mp_holders_site_advice(struct mp_text *text, const struct mp_holders *holders, const struct mp_holders_site *site,
                            struct mp_holders_advised *advised);

/* `only`: shows only the site of that number, from 1; 0: all. */
void mp_holders_json(struct mp_json *json, const struct mp_model *model, const struct mp_holders *holders, size_t only,
                     const struct mp_view *view);
void mp_holders_text(struct mp_text *text, const struct mp_model *model, const struct mp_holders *holders, size_t only,
                     const struct mp_view *view);
