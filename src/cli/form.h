/*
 * The form in which commands write tables for people: text, or a document (--format, the ending of -o), and the columns
 * that the user chose (--columns).
 */
#pragma once

#include "cli/command.h"
#include "cli/invocation.h"
#include "output/form/text.h"
#include "output/report/columns.h"

#define MP_FORM_OPTIONS MP_OPT_FORMAT, MP_OPT_COLUMNS

/* Reads which document is requested, if any. Returns an exit status, after a message if it is not 0. */
int mp_form_read(const struct mp_invocation *invocation, bool *document, enum mp_document_form *form);
/* Sets up `text` to write into `out`. If a document is requested, `text` writes through `document`, which must not
 * move. `tables`: those whose columns can be chosen, ending with NULL; NULL: those of the command. Returns an exit
 * status as above. */
int mp_form_open(const struct mp_invocation *invocation, const struct mp_column *const *tables, struct mp_buffer *out,
                 struct mp_text *text, struct mp_document *document);
/* Ends the document, if one was begun. */
void mp_form_close(struct mp_document *document);
