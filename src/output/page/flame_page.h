/*
 * A flame graph as one self-contained HTML file. Its code is viz/flame/flame.html, embedded in the program.
 */
#pragma once

#include <stdio.h>

#include "analysis/sites/flames.h"

struct mp_flame_page {
    const char *title; /* the recording's name */
    const char *about; /* what the flames show: "allocated at the peak, 12.6 s, cuda:0/torch" */
    bool differential; /* the flames have a side MP_BEFORE */
};

enum mp_status mp_flame_page_write(const struct mp_flames *flames, const struct mp_flame_page *page, FILE *out,
                                   struct mp_error *error);

/* The page without data; made by src/output/Makefile.inc. Ends with a NUL. */
extern const unsigned char mp_flame_template[];
