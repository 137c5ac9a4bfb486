#include "format/msgpack_bound.h"

#include <stdint.h>
#include <string.h>

#define DEPTH 8

struct walk {
    const unsigned char *at, *end;
};

static bool take(struct walk *walk, uint64_t length)
{
    if ((uint64_t)(walk->end - walk->at) < length) return false;
    walk->at += length;
    return true;
}

/* Takes a big-endian number of 1, 2, 4 or 8 bytes. */
static bool take_number(struct walk *walk, unsigned width, uint64_t *value)
{
    const unsigned char *from = walk->at;
    if (!take(walk, width)) return false;
    *value = 0;
    for (unsigned i = 0; i < width; i++)
        *value = *value << 8 | from[i];
    return true;
}

/* Skips one object's head and its own bytes. *children: the number of objects after it that are its elements. */
static bool take_head(struct walk *walk, uint64_t *children)
{
    /* By the head's byte from 0xc0 on: width of the length or count after it, extra bytes, and children per unit of
     * count. */
    static const struct {
        uint8_t width, extra, per_entry;
    } kinds[32] = {
        [0x04] = {1, 0, 0},  [0x05] = {2, 0, 0}, [0x06] = {4, 0, 0},                     /* bin */
        [0x07] = {1, 1, 0},  [0x08] = {2, 1, 0}, [0x09] = {4, 1, 0},                     /* ext */
        [0x0a] = {0, 4, 0},  [0x0b] = {0, 8, 0},                                         /* float */
        [0x0c] = {0, 1, 0},  [0x0d] = {0, 2, 0}, [0x0e] = {0, 4, 0}, [0x0f] = {0, 8, 0}, /* uint */
        [0x10] = {0, 1, 0},  [0x11] = {0, 2, 0}, [0x12] = {0, 4, 0}, [0x13] = {0, 8, 0}, /* int */
        [0x14] = {0, 2, 0},  [0x15] = {0, 3, 0}, [0x16] = {0, 5, 0}, [0x17] = {0, 9, 0}, /* fixext */
        [0x18] = {0, 17, 0},                                                             /* fixext 16 */
        [0x19] = {1, 0, 0},  [0x1a] = {2, 0, 0}, [0x1b] = {4, 0, 0},                     /* str */
        [0x1c] = {2, 0, 1},  [0x1d] = {4, 0, 1},                                         /* array */
        [0x1e] = {2, 0, 2},  [0x1f] = {4, 0, 2},                                         /* map */
    };
    uint64_t byte, length = 0;
    *children = 0;
    if (!take_number(walk, 1, &byte)) return false;
    if (byte < 0x80 || byte >= 0xe0) return true;
    if (byte < 0x90) return *children = (byte & 15) * 2, true;
    if (byte < 0xa0) return *children = byte & 15, true;
    if (byte < 0xc0) return take(walk, byte & 31);
    unsigned kind = (unsigned)byte - 0xc0;
    if (kind == 1) return false; /* 0xc1 is never used */
    if (!take_number(walk, kinds[kind].width, &length)) return false;
    *children = length * kinds[kind].per_entry;
    return take(walk, kinds[kind].extra + (kinds[kind].per_entry ? 0 : length));
}

size_t mp_msgpack_length(const unsigned char *data, size_t size)
{
    struct walk walk = {data, data + size};
    uint64_t left[DEPTH] = {1};
    for (int depth = 0; depth >= 0;) {
        if (!left[depth]) {
            depth--;
            continue;
        }
        left[depth]--;
        uint64_t children;
        if (!take_head(&walk, &children)) return 0;
        if (!children) continue;
        /* Each child takes at least one byte, so a count beyond the remaining bytes is false. */
        if (children > (uint64_t)(walk.end - walk.at) || ++depth == DEPTH) return 0;
        left[depth] = children;
    }
    return (size_t)(walk.at - data);
}

const msgpack_object *mp_msgpack_get(const msgpack_object *map, const char *key)
{
    if (map->type != MSGPACK_OBJECT_MAP) return NULL;
    size_t length = strlen(key);
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *entry = &map->via.map.ptr[i];
        if (entry->key.type == MSGPACK_OBJECT_STR && entry->key.via.str.size == length &&
            !memcmp(entry->key.via.str.ptr, key, length))
            return &entry->val;
    }
    return NULL;
}

bool mp_msgpack_uint(const msgpack_object *map, const char *key, uint64_t *value)
{
    const msgpack_object *object = mp_msgpack_get(map, key);
    *value = 0;
    if (!object) return true;
    if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER) return false;
    *value = object->via.u64;
    return true;
}
