/* Texts as parts of a link's address. Pure. */
#ifndef MP_BASE_WEB_ADDRESS_H
#define MP_BASE_WEB_ADDRESS_H

#include "base/buffer.h"

/* Appends a text; a byte with a meaning in an address, or beyond ASCII, as %XX. '/' and ':' stay. */
void mp_web_address(struct mp_buffer *to, const char *text);

#endif
