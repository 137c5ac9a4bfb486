#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

unsigned char *mp_buffer_room(struct mp_buffer *buffer, size_t length)
{
    if (buffer->failed) return NULL;
    if (buffer->room - buffer->size < length) {
        size_t need = buffer->size + length;
        size_t grown = buffer->room + buffer->room / 2 + 64;
        if (grown < need) grown = need;
        unsigned char *moved = need < buffer->size ? NULL : realloc(buffer->data, grown);
        if (!moved) {
            if (mp_memory_can_end()) mp_memory_lacks(grown);
            buffer->failed = true;
            return NULL;
        }
        buffer->data = moved;
        buffer->room = grown;
    }
    return buffer->data + buffer->size;
}

void mp_buffer_append(struct mp_buffer *buffer, const void *data, size_t length)
{
    if (!length) return;
    unsigned char *to = mp_buffer_room(buffer, length);
    if (!to) return;
    memcpy(to, data, length);
    buffer->size += length;
}

void mp_buffer_append_text(struct mp_buffer *buffer, const char *text)
{
    mp_buffer_append(buffer, text, strlen(text));
}

void mp_buffer_append_utf8(struct mp_buffer *buffer, const char *bytes, size_t length)
{
    for (size_t used; length; bytes += used, length -= used) {
        uint32_t point;
        used = mp_utf8_next((const unsigned char *)bytes, length, &point);
        if (point == MP_UTF8_BAD)
            mp_buffer_append_text(buffer, "\xef\xbf\xbd");
        else
            mp_buffer_append(buffer, bytes, used);
    }
}

void mp_buffer_printf(struct mp_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        if (mp_memory_can_end()) mp_memory_lacks(0);
        buffer->failed = true;
        return;
    }
    unsigned char *to = mp_buffer_room(buffer, (size_t)length + 1);
    if (!to) return;
    va_start(arguments, format);
    vsnprintf((char *)to, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buffer->size += (size_t)length;
}

const char *mp_buffer_text(struct mp_buffer *buffer)
{
    unsigned char *end = mp_buffer_room(buffer, 1);
    if (!end) return "";
    *end = '\0';
    return (const char *)buffer->data;
}

char *mp_buffer_take(struct mp_buffer *buffer)
{
    mp_buffer_text(buffer);
    if (buffer->failed) mp_buffer_free(buffer);
    char *text = (char *)buffer->data;
    *buffer = (struct mp_buffer){0};
    return text;
}

void mp_buffer_clear(struct mp_buffer *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
}

void mp_buffer_free(struct mp_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct mp_buffer){0};
}
