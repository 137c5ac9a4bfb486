/*
 * Parts of every HTML page without a script: a head with the project's style (viz/shell.css, viz/report.css), and
 * escaped texts. The page loads nothing and runs nothing. One thread at a time.
 */
#pragma once

#include "base/buffer.h"

/* Appends a text so that it stays plain text, between tags and in attributes: invalid UTF-8 becomes U+FFFD, control
 * characters become blanks. */
void mp_html_text(struct mp_buffer *to, const char *text);

/* Appends everything up to the body's first element; mp_html_end() the rest. */
void mp_html_start(struct mp_buffer *to, const char *title);
void mp_html_end(struct mp_buffer *to);

/* Both style sheets, with the system's choice of light or dark; made by src/output/Makefile.inc. Ends with a NUL. */
extern const unsigned char mp_html_style[];
