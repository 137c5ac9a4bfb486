/*
 * Interned strings: each distinct text gets a small id, in order of first use. Id 0 is always the empty string.
 * Zero-initialised is ready for use. One thread at a time; returned texts live until mp_intern_free().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define MP_INTERN_FAILED UINT32_MAX

struct mp_intern {
    char *text; /* all strings, each NUL-terminated, one after the other */
    size_t text_size, text_room;
    size_t *offsets; /* by id */
    uint32_t count, room;
    uint32_t *slots; /* open addressing: id + 1, or 0 */
    uint32_t slot_room;
};

/* The id of `length` bytes at text (NULs inside are kept), or MP_INTERN_FAILED if memory is short. */
uint32_t mp_intern_bytes(struct mp_intern *intern, const char *text, size_t length);
uint32_t mp_intern_text(struct mp_intern *intern, const char *text);
/* Does the same for code that cannot continue without memory: if memory is short, the program ends through
 * base/memory.h. */
uint32_t mp_intern_add(struct mp_intern *intern, const char *text, size_t length);
uint32_t mp_intern_add_text(struct mp_intern *intern, const char *text);
/* The id of `length` bytes at text, or MP_INTERN_FAILED if they were never added. */
uint32_t mp_intern_find(const struct mp_intern *intern, const char *text, size_t length);
/* The text of id and (where `length` is not NULL) its length; "" for an unknown id. The pointer is valid until the next
 * text is added. */
const char *mp_intern_get(const struct mp_intern *intern, uint32_t id, size_t *length);
void mp_intern_free(struct mp_intern *intern);
