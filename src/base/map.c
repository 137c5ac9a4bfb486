#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

static size_t home(const struct mp_map *map, uint64_t key)
{
    return (size_t)mp_hash_mix(key) & (map->room - 1);
}

static struct mp_map_slot *probe(const struct mp_map *map, uint64_t key)
{
    size_t at = home(map, key);
    while (map->slots[at].key && map->slots[at].key != key)
        at = (at + 1) & (map->room - 1);
    return &map->slots[at];
}

uint64_t *mp_map_find(const struct mp_map *map, uint64_t key)
{
    if (!map->count) return NULL;
    struct mp_map_slot *slot = probe(map, key);
    return slot->key ? &slot->value : NULL;
}

static bool grow(struct mp_map *map)
{
    struct mp_map grown = {.room = map->room ? map->room * 2 : 64, .count = map->count};
    grown.slots = calloc(grown.room, sizeof *grown.slots);
    if (!grown.slots) return false;
    for (size_t i = 0; i < map->room; i++)
        if (map->slots[i].key) *probe(&grown, map->slots[i].key) = map->slots[i];
    free(map->slots);
    *map = grown;
    return true;
}

uint64_t *mp_map_insert(struct mp_map *map, uint64_t key, bool *added)
{
    if ((map->count + 1) * 4 > map->room * 3 && !grow(map)) return NULL;
    struct mp_map_slot *slot = probe(map, key);
    if (added) *added = !slot->key;
    if (!slot->key) {
        *slot = (struct mp_map_slot){.key = key};
        map->count++;
    }
    return &slot->value;
}

uint64_t *mp_map_at(struct mp_map *map, uint64_t key, bool *added)
{
    uint64_t *value = mp_map_insert(map, key, added);
    if (!value) mp_memory_lacks(map->room * 2 * sizeof *map->slots);
    return value;
}

bool mp_map_remove(struct mp_map *map, uint64_t key, uint64_t *value)
{
    if (!map->count) return false;
    struct mp_map_slot *slot = probe(map, key);
    if (!slot->key) return false;
    if (value) *value = slot->value;
    /* Backward-shift deletion: later entries of the run move into the hole, so that no tombstones are needed. */
    size_t hole = (size_t)(slot - map->slots), mask = map->room - 1;
    for (size_t at = (hole + 1) & mask; map->slots[at].key; at = (at + 1) & mask) {
        if (((at - home(map, map->slots[at].key)) & mask) >= ((at - hole) & mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole].key = 0;
    map->count--;
    return true;
}

void mp_map_clear(struct mp_map *map)
{
    if (map->slots) memset(map->slots, 0, map->room * sizeof *map->slots);
    map->count = 0;
}

void mp_map_free(struct mp_map *map)
{
    free(map->slots);
    *map = (struct mp_map){0};
}
