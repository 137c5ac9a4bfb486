#include "output/form/html.h"

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
        else if (point < 0x20 || (point >= 0x7f && point < 0xa0))
            mp_buffer_append_text(to, " ");
        else if (strchr("&<>\"'", (int)point))
            mp_buffer_printf(to, "&#%u;", (unsigned)point);
        else
            mp_buffer_append(to, at, size);
    }
}

void mp_html_start(struct mp_buffer *to, const char *title)
{
    mp_buffer_append_text(
        to, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<meta name=\"generator\" content=\"memprof\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            "<title>");
    mp_html_text(to, title);
    mp_buffer_append_text(to, "</title>\n<style>\n");
    mp_buffer_append_text(to, (const char *)mp_html_style);
    mp_buffer_append_text(to, "</style>\n</head>\n<body>\n");
}

void mp_html_end(struct mp_buffer *to)
{
    mp_buffer_append_text(to, "</body>\n</html>\n");
}
