/* The first object of a snapshot file: facts that are known when the file is created. One thread at a time. */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "format/recording.h"

enum mp_status mp_start_pack(struct mp_buffer *to, const struct mp_recording_start *start, struct mp_error *error);

/* A start together with its texts. */
struct mp_start_owned {
    struct mp_recording_start start;
    void *texts;
};

/* True if a recording begins with these bytes. */
bool mp_start_begins(const unsigned char *data, size_t size);
/* Reads the first object from `size` bytes of data and stores its length in *length. MP_OK: the object is whole.
 * MP_DAMAGED: a recording, but its first object is cut or damaged (*owned then has empty texts and zeroes). MP_TOO_NEW,
 * MP_NOT_A_RECORDING, MP_NO_MEMORY: the caller cannot read on. */
enum mp_status mp_start_parse(const unsigned char *data, size_t size, struct mp_start_owned *owned, size_t *length,
                              struct mp_error *error);
void mp_start_free(struct mp_start_owned *owned);
