/* Tables of sites and stacks, as text and as JSON: shared by every report. */
#ifndef MP_OUTPUT_SITES_H
#define MP_OUTPUT_SITES_H

#include "analysis/sites/sites.h"
#include "base/json.h"
#include "model/stack.h"
#include "output/form/text.h"
#include "output/report/site_apart.h"

struct mp_site_view {
    size_t limit;        /* rows; 0: all */
    bool full_stacks;    /* every frame instead of the user's lines and a count of the rest */
    enum mp_group_by by; /* what a row stands for */
    bool births, track;  /* extra columns, extra keys */
    uint64_t whole;      /* the total for shares; 0: no column */
    bool lines;          /* text: a numbered line for each site, without heads */
};

/* Returns whether there was one to write. */
bool mp_sites_text(struct mp_text *text, const struct mp_model *model, const struct mp_sites *sites,
                   const struct mp_site_view *view);
/* The standard error of an estimate in bytes; MP_BYTES_UNKNOWN for NAN. */
uint64_t mp_error_bytes(double standard_error);
/* An array of sites under `key`. */
void mp_sites_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_sites *sites,
                   const struct mp_site_view *view);
/* The rows of one stack: function and place in two cells each, the first with the modules as a third. The first row
 * already has `columns` cells. `sites` may be NULL for a site outside of any table. `apart`: what distinguishes it from
 * other rows (mp_site_apart()), or NULL. */
void mp_stack_rows(struct mp_table *table, unsigned columns, const struct mp_model *model, const struct mp_sites *sites,
                   const struct mp_site *site, const struct mp_site_apart *apart, bool full);
/* A group's name for people, and unchanged: NULL where unknown. */
void mp_group_text(struct mp_buffer *out, const struct mp_intern *groups, uint32_t group, enum mp_group_by by);
const char *mp_group_key(const struct mp_intern *groups, uint32_t group);
/* Its frames as an array under "stack". */
void mp_stack_json(struct mp_json *json, const struct mp_model *model, uint32_t stack);
/* A site in one line: "model.py:88 attention ← train.py:58 train_step", its headline and the user's line that called
 * it. */
void mp_site_text(struct mp_buffer *out, const struct mp_model *model, const struct mp_site *site);
/* The same, and what distinguishes it from other rows (NULL: nothing). */
void mp_site_named_text(struct mp_buffer *out, const struct mp_model *model, const struct mp_site *site,
                        const struct mp_site_apart *apart);
/* The first for a stack, as a line of its own. */
void mp_say_site(struct mp_text *text, const struct mp_model *model, uint32_t stack);
/* The same as the last cell of a row, or, where modules are known, as the last cell before them. */
void mp_site_cell(struct mp_table *table, const struct mp_model *model, const struct mp_sites *sites,
                  const struct mp_site *site, const struct mp_site_apart *apart);
/* The modules of a site: "blocks.*.attn", "head +2"; nothing where none is known. */
void mp_site_modules_text(struct mp_buffer *out, const struct mp_sites *sites, const struct mp_site *site);
/* "model.py:88 attention_scores" for one line; "libfoo.so+0x1234" where no better name is known. */
void mp_line_text(struct mp_buffer *out, const struct mp_stack_line *line);
/* The same for a line that represents its stack: "backward of model.py:31 forward". */
void mp_headline_text(struct mp_buffer *out, const struct mp_stack_line *line);
/* The same for a stack: the line of it that a person wants to see; "(no stack)". */
void mp_stack_headline_text(struct mp_buffer *out, const struct mp_model *model, uint32_t stack);

#endif
