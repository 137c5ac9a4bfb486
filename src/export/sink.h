/*
 * The target of an exporter's text: a file, compressed with gzip or not, through a buffer. mp_sink_end() returns the
 * first error, so an exporter need not check each write. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"

struct mp_sink {
    struct mp_buffer text; /* append here; mp_sink_pass() moves it on */
    FILE *out;
    void *gzip; /* a z_stream; NULL: not compressed */
    int failed; /* errno of a write that failed */
};

/* The caller keeps `out`. */
void mp_sink_start(struct mp_sink *sink, FILE *out, bool compress);
/* Writes the text to the file once it is long enough. Call it after each small part. */
void mp_sink_pass(struct mp_sink *sink);
/* Writes the rest and frees everything. Returns `status`, the exporter's own, if it is not MP_OK; else MP_OK or
 * MP_IO. */
enum mp_status mp_sink_end(struct mp_sink *sink, enum mp_status status, struct mp_error *error);
