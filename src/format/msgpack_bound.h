/*
 * msgpack-c allocates what an array's or map's head promises before it has seen the elements. Whoever unpacks bytes
 * from a file asks here first. Pure; any thread.
 */
#ifndef MP_FORMAT_MSGPACK_BOUND_H
#define MP_FORMAT_MSGPACK_BOUND_H

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>

/* The length of the one object at data, or 0 where it is not whole within `size` bytes or nests deeper than 8. */
size_t mp_msgpack_length(const unsigned char *data, size_t size);

/* The value of a text key in an unpacked map, or NULL. */
const msgpack_object *mp_msgpack_get(const msgpack_object *map, const char *key);
/* The non-negative integer under key, 0 where it is absent; false where it is something else. */
bool mp_msgpack_uint(const msgpack_object *map, const char *key, uint64_t *value);

#endif
