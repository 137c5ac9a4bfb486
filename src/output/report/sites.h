/* Tables of sites and stacks, as text and as JSON: shared by every report. */
#pragma once

#include "analysis/holders/holders.h"
#include "analysis/sites/sites.h"
#include "base/json.h"
#include "model/stack.h"
#include "output/form/text.h"
#include "output/report/site_apart.h"

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
/* Writes the rows of one stack. Each has two cells, function and file:line; the first row has the modules in a third.
 * The first row already has `columns` cells. `sites` may be NULL for a site outside of any table. `apart` distinguishes
 * the site from other rows (mp_site_apart()); NULL: nothing to add. */
void mp_stack_rows(struct mp_table *table, unsigned columns, const struct mp_model *model, const struct mp_sites *sites,
                   const struct mp_site *site, const struct mp_site_apart *apart, bool full);
/* A group's name: in words, and unchanged (NULL: unknown). */
void mp_group_text(struct mp_buffer *out, const struct mp_intern *groups, uint32_t group, enum mp_group_by by);
const char *mp_group_key(const struct mp_intern *groups, uint32_t group);
/* The tensors in all blocks of a stack (analysis/sites/site_tensors.h), if the recording has the log of operators: a row
 * "float32 [8, 128] of addmm", and an array. */
void mp_stack_tensor_row(struct mp_table *table, unsigned columns, const struct mp_model *model, uint16_t track,
                         uint32_t stack);
void mp_stack_tensors_json(struct mp_json *json, const char *key, const struct mp_model *model, uint16_t track,
                           uint32_t stack);
/* Writes a stack's frames as an array "stack". */
void mp_stack_json(struct mp_json *json, const struct mp_model *model, uint32_t stack);
/* A site in one line: "model.py:88 attention ← train.py:58 train_step", its headline and the user's line that called
 * it. */
void mp_site_text(struct mp_buffer *out, const struct mp_model *model, const struct mp_site *site);
/* Writes mp_site_text() and `apart`, the words that distinguish the site from other rows (NULL: none). */
void mp_site_named_text(struct mp_buffer *out, const struct mp_model *model, const struct mp_site *site,
                        const struct mp_site_apart *apart);
/* Writes mp_site_text() of a stack as a line of its own. */
void mp_say_site(struct mp_text *text, const struct mp_model *model, uint32_t stack);
/* Writes mp_site_named_text() as a row's last cell. If modules are known, they follow in one more cell. */
void mp_site_cell(struct mp_table *table, const struct mp_model *model, const struct mp_sites *sites,
                  const struct mp_site *site, const struct mp_site_apart *apart);
/* The modules of a site: "blocks.*.attn", "head +2"; empty if none is known. */
void mp_site_modules_text(struct mp_buffer *out, const struct mp_sites *sites, const struct mp_site *site);
/* "model.py:88 attention_scores" for one line; "libfoo.so+0x1234" if no better name is known. */
void mp_line_text(struct mp_buffer *out, const struct mp_stack_line *line);
/* Writes a line that represents its stack, with its prefix: "backward of model.py:31 forward". */
void mp_headline_text(struct mp_buffer *out, const struct mp_stack_line *line);
/* Writes the line of a stack that says most to a user; "(no stack)" if the stack is empty. */
void mp_stack_headline_text(struct mp_buffer *out, const struct mp_model *model, uint32_t stack);
