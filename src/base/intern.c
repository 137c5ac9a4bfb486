#include "base/intern.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

const char *mp_intern_get(const struct mp_intern *intern, uint32_t id, size_t *length)
{
    if (id >= intern->count) {
        if (length) *length = 0;
        return "";
    }
    size_t end = id + 1 < intern->count ? intern->offsets[id + 1] : intern->text_size;
    if (length) *length = end - intern->offsets[id] - 1;
    return intern->text + intern->offsets[id];
}

static uint32_t *find_slot(const struct mp_intern *intern, const char *text, size_t length)
{
    uint32_t mask = intern->slot_room - 1;
    for (uint32_t at = (uint32_t)mp_hash_bytes(text, length) & mask;; at = (at + 1) & mask) {
        uint32_t *slot = &intern->slots[at];
        if (!*slot) return slot;
        size_t known_length;
        const char *known = mp_intern_get(intern, *slot - 1, &known_length);
        if (known_length == length && !memcmp(known, text, length)) return slot;
    }
}

static bool grow_slots(struct mp_intern *intern)
{
    uint32_t room = intern->slot_room ? intern->slot_room * 2 : 128;
    uint32_t *slots = calloc(room, sizeof *slots);
    if (!slots) return false;
    free(intern->slots);
    intern->slots = slots;
    intern->slot_room = room;
    for (uint32_t id = 0; id < intern->count; id++) {
        size_t length;
        const char *text = mp_intern_get(intern, id, &length);
        *find_slot(intern, text, length) = id + 1;
    }
    return true;
}

static bool make_room(struct mp_intern *intern, size_t length)
{
    if (intern->text_room - intern->text_size < length + 1) {
        size_t room = intern->text_room * 2 + length + 256;
        char *moved = realloc(intern->text, room);
        if (!moved) return false;
        intern->text = moved;
        intern->text_room = room;
    }
    if (intern->count == intern->room) {
        uint32_t room = intern->room ? intern->room * 2 : 64;
        size_t *moved = realloc(intern->offsets, room * sizeof *moved);
        if (!moved) return false;
        intern->offsets = moved;
        intern->room = room;
    }
    return (intern->count + 1) * 2 <= intern->slot_room || grow_slots(intern);
}

static uint32_t add(struct mp_intern *intern, const char *text, size_t length)
{
    if (intern->count == MP_INTERN_FAILED - 1 || !make_room(intern, length)) return MP_INTERN_FAILED;
    uint32_t *slot = find_slot(intern, text, length);
    if (*slot) return *slot - 1;
    intern->offsets[intern->count] = intern->text_size;
    memcpy(intern->text + intern->text_size, text, length);
    intern->text_size += length;
    intern->text[intern->text_size++] = '\0';
    *slot = ++intern->count;
    return *slot - 1;
}

uint32_t mp_intern_bytes(struct mp_intern *intern, const char *text, size_t length)
{
    if (!length) text = ""; /* the pointer of an empty text may be NULL */
    if (!intern->count && add(intern, "", 0)) return MP_INTERN_FAILED;
    return add(intern, text, length);
}

uint32_t mp_intern_add(struct mp_intern *intern, const char *text, size_t length)
{
    uint32_t id = mp_intern_bytes(intern, text, length);
    if (id == MP_INTERN_FAILED) mp_memory_lacks(length);
    return id;
}

uint32_t mp_intern_add_text(struct mp_intern *intern, const char *text)
{
    return mp_intern_add(intern, text, strlen(text));
}

uint32_t mp_intern_find(const struct mp_intern *intern, const char *text, size_t length)
{
    if (!intern->count) return MP_INTERN_FAILED;
    uint32_t slot = *find_slot(intern, length ? text : "", length);
    return slot ? slot - 1 : MP_INTERN_FAILED;
}

uint32_t mp_intern_text(struct mp_intern *intern, const char *text)
{
    return mp_intern_bytes(intern, text, strlen(text));
}

void mp_intern_free(struct mp_intern *intern)
{
    free(intern->text);
    free(intern->offsets);
    free(intern->slots);
    *intern = (struct mp_intern){0};
}
