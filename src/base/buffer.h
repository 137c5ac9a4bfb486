/*
 * A growable run of bytes. Where the program has a hook for lack of memory (base/memory.h), a failed growth ends it.
 * Elsewhere, as in the collector, a failed growth sets `failed` and drops this and every later append, so that a writer
 * may append freely and test once at the end. One thread at a time.
 */
#ifndef MP_BASE_BUFFER_H
#define MP_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mp_buffer {
    unsigned char *data;
    size_t size, room;
    bool failed;
};

/* A pointer to `length` writable bytes past the end, or NULL (and `failed`). mp_buffer_grew() adds the bytes used. */
unsigned char *mp_buffer_room(struct mp_buffer *buffer, size_t length);
static inline void mp_buffer_grew(struct mp_buffer *buffer, size_t length)
{
    buffer->size += length;
}

void mp_buffer_append(struct mp_buffer *buffer, const void *data, size_t length);
void mp_buffer_append_text(struct mp_buffer *buffer, const char *text);
void mp_buffer_printf(struct mp_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mp_buffer_clear(struct mp_buffer *buffer); /* empty again, memory kept, `failed` reset */
void mp_buffer_free(struct mp_buffer *buffer);

#endif
