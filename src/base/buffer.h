/*
 * A growable array of bytes. In a program with a hook for lack of memory (base/memory.h), a failed growth ends the
 * program. Elsewhere, as in the collector, a failed growth sets `failed`; this append and all later ones are dropped. A
 * writer may therefore append freely, and check once at the end. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mp_buffer {
    unsigned char *data;
    size_t size, room;
    bool failed;
};

/* Makes room for `length` more bytes. Returns a pointer to that room, or NULL (and sets `failed`). The caller fills it
 * and passes the number of bytes to mp_buffer_grew(). */
unsigned char *mp_buffer_room(struct mp_buffer *buffer, size_t length);
static inline void mp_buffer_grew(struct mp_buffer *buffer, size_t length)
{
    buffer->size += length;
}

void mp_buffer_append(struct mp_buffer *buffer, const void *data, size_t length);
void mp_buffer_append_text(struct mp_buffer *buffer, const char *text);
/* Appends bytes of unknown origin as UTF-8: each byte that is none becomes U+FFFD. */
void mp_buffer_append_utf8(struct mp_buffer *buffer, const char *bytes, size_t length);
void mp_buffer_printf(struct mp_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The bytes so far, with a NUL behind them that does not count; "" also if an append failed. Valid until the next
 * append.
 */
const char *mp_buffer_text(struct mp_buffer *buffer);
/* Does the same, and makes the text the caller's, who frees it; the buffer is empty again. NULL if an append failed. */
char *mp_buffer_take(struct mp_buffer *buffer);
void mp_buffer_clear(struct mp_buffer *buffer); /* empty again, memory kept, `failed` reset */
void mp_buffer_free(struct mp_buffer *buffer);
