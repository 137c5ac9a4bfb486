/*
 * msgpack-c allocates as much as the head of an array or a map promises, before it has seen the elements. Call
 * mp_msgpack_length() before unpacking bytes of a file. Pure; any thread.
 */
#pragma once

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>

/* The length of the object at `data`; 0 if `size` cuts it off, or if it nests deeper than 8 levels. */
size_t mp_msgpack_length(const unsigned char *data, size_t size);

/* The value of a text key in an unpacked map, or NULL. */
const msgpack_object *mp_msgpack_get(const msgpack_object *map, const char *key);
/* Reads the non-negative integer under `key`, 0 if it is absent. False if the value is anything else. */
bool mp_msgpack_uint(const msgpack_object *map, const char *key, uint64_t *value);
