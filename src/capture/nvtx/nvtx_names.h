/*
 * The names in NVTX calls: texts in the program's encodings, registered strings and domains. Handles that the program
 * gets point to our memory, which lives as long as the process, in a forked child too. They are checked before they are
 * followed, since a program may pass another tool's. All of it without locks, from any thread.
 */
#ifndef MP_CAPTURE_NVTX_NAMES_H
#define MP_CAPTURE_NVTX_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include "capture/nvtx/nvtx_abi.h"

#define NVTX_NAME_ROOM 256 /* bytes of a name that are kept, with the NUL */

/* Domains are numbered from 1; 0 is the default one. Those beyond NVTX_DOMAINS share the last number, without a
 * name. */
#define NVTX_DOMAINS 64

/* The handle by which the program refers to a domain or string. NULL: no more room. */
const void *mp_nvtx_register(const char *text);
const void *mp_nvtx_register_wide(const wchar_t *text);
const void *mp_nvtx_domain(const char *name);
const void *mp_nvtx_domain_wide(const wchar_t *name);

unsigned mp_nvtx_domain_number(const void *domain);

/* Writes a region's name: "name", or "DOMAIN:name" outside the default domain. Suffixes that would give each call its
 * own name (PyTorch's ", seq = 7", ", op_id = 7") are left out. "" where the program gave none. */
void mp_nvtx_name(char to[NVTX_NAME_ROOM], unsigned domain, int32_t message_type, const void *message);

#endif
