/* Bytes, times and shares as people read them. Pure; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MP_UNIT_TEXT 32 /* room for every text made here */

/* "512 B", "9.66 GiB": three significant digits, binary units. Writes to `to`, which has MP_UNIT_TEXT bytes, and
 * returns it. */
char *mp_format_bytes(char *to, uint64_t bytes);
/* As mp_format_bytes, with the sign always written: "+3.0 MiB". */
char *mp_format_signed_bytes(char *to, int64_t bytes);
/* "850 ns", "12.7 ms", "38.2 s", "3 h 20 min". */
char *mp_format_duration(char *to, uint64_t ns);
/* "412 816": thousands separated by a space. */
char *mp_format_count(char *to, uint64_t count);

/* "80GiB", "512 MB", "4096", "1.5k" (k, M, G, T and KB, MB, ... decimal; KiB, MiB, ... binary). */
bool mp_parse_bytes(const char *text, uint64_t *bytes);
/* "1.5s", "200ms", "3us", "10ns", "2min", "1h"; a bare number is seconds. */
bool mp_parse_duration(const char *text, uint64_t *ns);
