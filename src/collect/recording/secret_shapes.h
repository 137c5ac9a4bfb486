/*
 * Finds access tokens by their shape: services give tokens fixed beginnings, so that scanners find them. Pure; any
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Sets marks[i] for each letter text[i] of a secret. Secrets are tokens of services, PEM blocks, and secret URLs
 * (webhooks). `marks` has as many bytes as `text` has letters. */
void mp_secret_shapes_mark(const char *text, char *marks);

/* Replaces each run of marked letters by ***, or by as many stars for one or two letters. Works in place, and returns
 * the new length. */
size_t mp_secret_shapes_mask(char *text, const char *marks);

/* Sets *copy to the text without these secrets; the caller frees it. NULL: the text has no secrets. False: out of
 * memory. */
bool mp_secret_shapes_without(const char *text, size_t length, char **copy);
