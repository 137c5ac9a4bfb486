/*
 * Who still holds blocks, as text and as JSON: beside the findings of `leaks`, and alone. As output/report/reports.h.
 */
#ifndef MP_OUTPUT_HOLDERS_H
#define MP_OUTPUT_HOLDERS_H

#include "analysis/holders/holders.h"
#include "output/report/reports.h"

/* Of one site, as the array "holders"; `site` NULL: an empty one. */
void mp_holders_site_json(struct mp_json *json, const struct mp_model *model, const struct mp_holders *holders,
                          const struct mp_holders_site *site, size_t limit);
/* Rows of a table whose last column is `column`; of a recording without looks none. */
void mp_holders_site_rows(struct mp_table *table, unsigned column, const struct mp_model *model,
                          const struct mp_holders *holders, const struct mp_holders_site *site, size_t limit);
/* Advice that the holders of these findings show, each once, a line each. */
struct mp_holders_advised {
    bool kinds[MP_HOLDER_KINDS + 1];
};
void mp_holders_site_advice(struct mp_text *text, const struct mp_holders *holders, const struct mp_holders_site *site,
                            struct mp_holders_advised *advised);

/* `only`: of the sites shown the one of that number, from 1; 0: all. */
void mp_holders_json(struct mp_json *json, const struct mp_model *model, const struct mp_holders *holders, size_t only,
                     const struct mp_view *view);
void mp_holders_text(struct mp_text *text, const struct mp_model *model, const struct mp_holders *holders, size_t only,
                     const struct mp_view *view);

#endif
