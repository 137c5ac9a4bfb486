/*
 * A page as a file: a template that viz/ built, its title, one JSON object, and columns. The contents, names included,
 * are escaped so that they cannot end the element around them.
 */
#pragma once

#include <stdio.h>

#include "base/json.h"
#include "output/page/page_columns.h"

/* Writes members "columns", "bytes" and "scripts" of the header. The page finds its columns by them (viz/FORMAT.md). */
void mp_page_put_columns(struct mp_json *json, const struct mp_page_columns *columns);
/* `title`: HTML that is safe (mp_html_text()). `header`: the JSON object. */
enum mp_status mp_page_file_write(const unsigned char *template, const struct mp_buffer *title,
                                  const struct mp_buffer *header, const struct mp_page_columns *columns, FILE *out,
                                  struct mp_error *error);
