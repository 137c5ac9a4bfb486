/*
 * The page that `trace_plot` and its like write: one self-contained HTML file with a recording's blocks in it. The
 * page's own code is built from viz/ and embedded in the program. The model is only read; any thread.
 */
#ifndef MP_OUTPUT_PAGE_H
#define MP_OUTPUT_PAGE_H

#include <stdio.h>

#include "base/error.h"
#include "model/model.h"

struct mp_page_options {
    int track; /* the track shown first, an index into model.tracks; -1: the device with the highest peak and, on
                * it, the uppermost layer that has blocks. Every track is in the page. */
    const char *title; /* what the page calls the recording, usually its file's name */
    const char *view;  /* the view that the page opens on; NULL or "": the timeline */
};

/* Writes the whole page to `out`, which stays open. MP_IO where a write failed, MP_NO_MEMORY. */
enum mp_status mp_page_write(const struct mp_model *model, const struct mp_page_options *options, FILE *out,
                             struct mp_error *error);

#endif
