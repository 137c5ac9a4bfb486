/*
 * Reads another program's file as a stream of bytes with look-ahead. Files compressed with gzip are decompressed;
 * offsets count decompressed bytes. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define MP_INPUT_WINDOW 262144      /* most bytes of look-ahead */
#define MP_INPUT_TOKEN  (16u << 20) /* most bytes of a JSON token: no sensible file has a longer text or number */

struct mp_input {
    const unsigned char *at, *end; /* bytes that were read and not yet taken; the caller takes bytes by moving `at`
                                    * towards `end` */
    uint64_t offset;               /* offset of `end` in the contents */
    bool wrapped;                  /* gzip */
    uint64_t file_bytes;           /* the file's size on disk */
    uint64_t most;                 /* most bytes that a compressed file may contain; if it has more, reading fails */
    const char *path;              /* as given to mp_input_open(), which the caller keeps */
    struct mp_input_state *state;
};

/* Opens a regular file. MP_IO, MP_NOT_A_RECORDING; the error names the path. */
enum mp_status mp_input_open(const char *path, struct mp_input *input, struct mp_error *error);
/* Reads on, keeping the bytes not yet taken, until `want` bytes (at most MP_INPUT_WINDOW) are between `at` and `end`.
 * At the file's end it returns MP_OK with fewer. Errors: MP_IO; MP_DAMAGED for a gzip file that is cut or damaged;
 * MP_LIMIT. */
enum mp_status mp_input_fill(struct mp_input *input, size_t want, struct mp_error *error);
void mp_input_close(struct mp_input *input);

/* The offset of `at`. */
static inline uint64_t mp_input_offset(const struct mp_input *input)
{
    return input->offset - (uint64_t)(input->end - input->at);
}
