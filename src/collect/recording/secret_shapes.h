/*
 * Access tokens known by their shape: services give theirs a fixed beginning so that they can be found. Pure; any
 * thread.
 */
#ifndef MP_COLLECT_SECRET_SHAPES_H
#define MP_COLLECT_SECRET_SHAPES_H

#include <stdbool.h>
#include <stddef.h>

/* Sets marks[i] for each letter text[i] of a secret: tokens of services, PEM blocks, addresses that are secret
 * themselves (webhooks). `marks` has as many bytes as `text` has letters. */
void mp_secret_shapes_mark(const char *text, char *marks);

/* A marked text with each run of marks as ***; of one or two letters as many stars. In place, to its NUL; the new
 * length. */
size_t mp_secret_shapes_mask(char *text, const char *marks);

/* *copy: the text without such secrets, which the caller frees; NULL: it has none. False: out of memory. */
bool mp_secret_shapes_without(const char *text, size_t length, char **copy);

#endif
