/* Text of unknown origin in a page. */
#ifndef MP_OUTPUT_HTML_H
#define MP_OUTPUT_HTML_H

#include "base/buffer.h"

/* Appends a text so that it stays plain text, between tags and in attributes: invalid UTF-8 becomes U+FFFD, control
 * characters become blanks. */
void mp_html_text(struct mp_buffer *to, const char *text);

#endif
