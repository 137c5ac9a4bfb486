/*
 * An open-addressing map from non-zero 64-bit keys to 64-bit values. Zero-initialised is empty. One thread at a time.
 * Pointers into the map are valid until the next insertion or removal.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mp_map_slot {
    uint64_t key, value;
};

struct mp_map {
    struct mp_map_slot *slots;
    size_t count, room; /* room is a power of two, or 0 */
};

/* The value of key, or NULL. */
uint64_t *mp_map_find(const struct mp_map *map, uint64_t key);
/* The value of key, inserted as 0 if it was absent. *added: true if it was inserted (`added` may be NULL). NULL if
 * memory is short. */
uint64_t *mp_map_insert(struct mp_map *map, uint64_t key, bool *added);
/* Does the same, but never returns NULL: a lack of memory ends the program through base/memory.h. */
uint64_t *mp_map_at(struct mp_map *map, uint64_t key, bool *added) __attribute__((returns_nonnull));
/* Removes key and stores its value in *value (may be NULL); false if it was absent. */
bool mp_map_remove(struct mp_map *map, uint64_t key, uint64_t *value);
void mp_map_clear(struct mp_map *map);
void mp_map_free(struct mp_map *map);
