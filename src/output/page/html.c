#include "output/page/html.h"

#include <string.h>

#include "base/utf8.h"

void mp_html_text(struct mp_buffer *to, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    for (size_t left = strlen(text), size; left; at += size, left -= size) {
        uint32_t point;
        size = mp_utf8_next(at, left, &point);
        if (point == MP_UTF8_BAD || mp_utf8_is_hidden(point))
            mp_buffer_append_text(to, "\xef\xbf\xbd");
        else if (point < 0x20 || point == 0x7f)
            mp_buffer_append_text(to, " ");
        else if (strchr("&<>\"'", (int)point))
            mp_buffer_printf(to, "&#%u;", (unsigned)point);
        else
            mp_buffer_append(to, at, size);
    }
}
