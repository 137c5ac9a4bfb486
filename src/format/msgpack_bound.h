/*
 * msgpack-c allocates as much as the head of an array or a map promises before it has seen the elements. Code that
 * unpacks bytes from a file asks here first. Pure; any thread.
 */
#ifndef MP_FORMAT_MSGPACK_BOUND_H
#define MP_FORMAT_MSGPACK_BOUND_H

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>

/* The length of the one object at data; 0 where it is cut off by `size` or nests deeper than 8. */
size_t mp_msgpack_length(const unsigned char *data, size_t size);

/* The value of a text key in an unpacked map, or NULL. */
const msgpack_object *mp_msgpack_get(const msgpack_object *map, const char *key);
/* Reads the non-negative integer under key, 0 where it is absent; false where the value is something else. */
bool mp_msgpack_uint(const msgpack_object *map, const char *key, uint64_t *value);

#endif
