#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

void mp_json_start(struct mp_json *json, struct mp_buffer *out)
{
    *json = (struct mp_json){.out = out};
}

static void new_line(struct mp_json *json)
{
    if (!json->depth) return;
    if (json->flat) {
        if (json->follows) mp_buffer_append_text(json->out, " ");
        return;
    }
    mp_buffer_append_text(json->out, "\n");
    for (unsigned i = 0; i < json->depth; i++)
        mp_buffer_append_text(json->out, "  ");
}

static void begin_value(struct mp_json *json, const char *key)
{
    if (json->follows) mp_buffer_append_text(json->out, ",");
    new_line(json);
    if (key) {
        mp_json_quote(json->out, key, strlen(key));
        mp_buffer_append_text(json->out, ": ");
    }
    json->follows = true;
}

static void open_nested(struct mp_json *json, const char *key, const char *bracket)
{
    begin_value(json, key);
    mp_buffer_append_text(json->out, bracket);
    json->depth++;
    json->follows = false;
}

static void close_nested(struct mp_json *json, const char *bracket)
{
    json->depth--;
    if (json->follows && !json->flat) {
        if (json->depth)
            new_line(json);
        else
            mp_buffer_append_text(json->out, "\n");
    }
    mp_buffer_append_text(json->out, bracket);
    json->follows = true;
    if (!json->depth) mp_buffer_append_text(json->out, "\n");
}

void mp_json_object(struct mp_json *json, const char *key)
{
    open_nested(json, key, "{");
}

void mp_json_end_object(struct mp_json *json)
{
    close_nested(json, "}");
}

void mp_json_array(struct mp_json *json, const char *key)
{
    open_nested(json, key, "[");
}

void mp_json_end_array(struct mp_json *json)
{
    close_nested(json, "]");
}

void mp_json_quote(struct mp_buffer *out, const char *text, size_t length)
{
    static const char *const short_forms[128] = {['"'] = "\\\"", ['\\'] = "\\\\", ['\n'] = "\\n", ['\r'] = "\\r",
                                                 ['\t'] = "\\t", ['\b'] = "\\b",  ['\f'] = "\\f"};
    const unsigned char *at = (const unsigned char *)text;
    mp_buffer_append_text(out, "\"");
    while (length) {
        uint32_t point;
        size_t size = mp_utf8_next(at, length, &point);
        if (point == MP_UTF8_BAD)
            mp_buffer_append_text(out, "\xef\xbf\xbd");
        else if (point < 128 && short_forms[point])
            mp_buffer_append_text(out, short_forms[point]);
        else if (point >= 0x10000 && mp_utf8_is_hidden(point))
            mp_buffer_printf(out, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (point >> 10)),
                             (unsigned)(0xdc00 + (point & 0x3ff)));
        else if (point < 0x20 || (point >= 0x7f && point < 0xa0) || mp_utf8_is_hidden(point))
            mp_buffer_printf(out, "\\u%04x", (unsigned)point);
        else
            mp_buffer_append(out, at, size);
        at += size;
        length -= size;
    }
    mp_buffer_append_text(out, "\"");
}

void mp_json_bytes_of_text(struct mp_json *json, const char *key, const char *text, size_t length)
{
    begin_value(json, key);
    mp_json_quote(json->out, text, length);
}

void mp_json_text(struct mp_json *json, const char *key, const char *text)
{
    if (text)
        mp_json_bytes_of_text(json, key, text, strlen(text));
    else
        mp_json_null(json, key);
}

void mp_json_number(struct mp_json *json, const char *key, uint64_t number)
{
    begin_value(json, key);
    mp_buffer_printf(json->out, "%llu", (unsigned long long)number);
}

void mp_json_signed(struct mp_json *json, const char *key, int64_t number)
{
    begin_value(json, key);
    mp_buffer_printf(json->out, "%lld", (long long)number);
}

void mp_json_digits(struct mp_json *json, const char *key, const char *number)
{
    begin_value(json, key);
    mp_buffer_append_text(json->out, number);
}

void mp_json_known(struct mp_json *json, const char *key, uint64_t number)
{
    if (number == UINT64_MAX)
        mp_json_null(json, key);
    else
        mp_json_number(json, key, number);
}

void mp_json_share(struct mp_json *json, const char *key, uint64_t part, uint64_t whole)
{
    if (!whole) {
        mp_json_null(json, key);
        return;
    }
    begin_value(json, key);
    mp_buffer_printf(json->out, "%.6f", (double)part / (double)whole);
}

void mp_json_real(struct mp_json *json, const char *key, double number)
{
    char text[40];
    begin_value(json, key);
    snprintf(text, sizeof text, "%.17g", number);
    mp_buffer_append_text(json->out, text);
    if (!strpbrk(text, ".e")) mp_buffer_append_text(json->out, ".0");
}

void mp_json_bool(struct mp_json *json, const char *key, bool value)
{
    begin_value(json, key);
    mp_buffer_append_text(json->out, value ? "true" : "false");
}

void mp_json_null(struct mp_json *json, const char *key)
{
    begin_value(json, key);
    mp_buffer_append_text(json->out, "null");
}

/* Appends the text that begins with the quote at `at` to *out (NULL: nowhere). Returns what comes after it. */
static const char *take_text(const char *at, struct mp_buffer *out)
{
    static const char escapes[] = "bfnrt", meant[] = "\b\f\n\r\t";
    for (at++; *at && *at != '"'; at++) {
        char byte = *at;
        if (byte == '\\' && at[1]) {
            const char *escape = strchr(escapes, *++at);
            byte = escape && *at ? meant[escape - escapes] : *at;
            if (*at == 'u' && strspn(at + 1, "0123456789abcdefABCDEF") >= 4) { /* our writer's control character */
                const char digits[] = {at[3], at[4], '\0'};
                byte = (char)strtoul(digits, NULL, 16);
                at += 4;
            }
        }
        if (out) mp_buffer_append(out, &byte, 1);
    }
    return *at ? at + 1 : at;
}

bool mp_json_member(const char *object, const char *key, struct mp_buffer *out)
{
    struct mp_buffer name = {0};
    unsigned depth = 0;
    bool found = false;
    for (const char *at = object; *at && !found;) {
        if (*at == '{' || *at == '[') depth++;
        if (*at == '}' || *at == ']') depth--;
        if (*at != '"') {
            at++;
            continue;
        }
        mp_buffer_clear(&name);
        at = take_text(at, &name);
        bool is_key = depth == 1 && *at == ':' && name.size == strlen(key) && !memcmp(name.data, key, name.size);
        found = is_key && at[1] == '"';
        if (found) take_text(at + 1, out);
    }
    mp_buffer_free(&name);
    return found;
}
