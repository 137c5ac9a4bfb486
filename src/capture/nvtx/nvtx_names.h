/*
 * The names in NVTX calls: texts in the program's encodings, registered strings and domains. Handles that we give to
 * the program point to our own memory. This memory lives as long as the process, and also in a forked child. A handle
 * is checked before it is used, since a program may pass a handle of another tool. No locks; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include "capture/nvtx/nvtx_abi.h"

#define NVTX_NAME_ROOM 256 /* most bytes of a name that are kept, with its NUL */

/* Domains are numbered from 1; 0 is the default domain. Domains beyond NVTX_DOMAINS share the last number and have no
 * name. */
#define NVTX_DOMAINS 64

/* Makes the handle by which the program refers to a domain or string. NULL: there is no room for more. */
const void *mp_nvtx_register(const char *text);
const void *mp_nvtx_register_wide(const wchar_t *text);
const void *mp_nvtx_domain(const char *name);
const void *mp_nvtx_domain_wide(const wchar_t *name);

unsigned mp_nvtx_domain_number(const void *domain);

/* Writes a region's name to `to`: "name", or "DOMAIN:name" outside the default domain. Leaves out suffixes that would
 * give each call a name of its own (PyTorch's ", seq = 7", ", op_id = 7"). "" if the program gave no name. */
void mp_nvtx_name(char to[NVTX_NAME_ROOM], unsigned domain, int32_t message_type, const void *message);
