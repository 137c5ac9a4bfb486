/* Sites, stacks and their lines in words and as JSON: shared by every report. */
#pragma once

#include "analysis/sites/sites.h"
#include "base/buffer.h"
#include "base/json.h"
#include "model/stack.h"
#include "output/form/text.h"

/* ---- rows with equal texts, distinguished, so that each site has a text of its own ---- */

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

/* Writes the rows of one stack. Each has two cells, function and file:line; the first row has the modules in a third.
 * The first row already has `columns` cells. `sites` may be NULL for a site outside of any table. `apart` distinguishes
 * the site from other rows (mp_site_apart()); NULL: nothing to add. */
void mp_stack_rows(struct mp_table *table, unsigned columns, const struct mp_model *model, const struct mp_sites *sites,
                   const struct mp_site *site, const struct mp_site_apart *apart, bool full);

/* A group's name: in words, and unchanged (NULL: unknown). */
void mp_group_text(struct mp_buffer *out, const struct mp_intern *groups, uint32_t group, enum mp_group_by by);
const char *mp_group_key(const struct mp_intern *groups, uint32_t group);

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

/* ---- the calls of a stack that show what was done, or in which the stack differs from another ---- */

/* Appends the call in which `stack` differs from `twin`, another stack; nothing if no such call has a name. */
void mp_difference_text(struct mp_buffer *out, const struct mp_model *model, uint32_t stack, uint32_t twin);
