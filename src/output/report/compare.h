/* The output of `memprof compare`, for people and as JSON (memprof.compare/1). */
#pragma once

#include "analysis/sites/compare.h"
#include "output/form/text.h"
#include "output/report/view.h"

/* Facts about one of the recordings, which are in the order in which the user named them. */
struct mp_compared {
    const char *path;
    uint64_t peak_bytes, outstanding_bytes, allocated_bytes;
    uint64_t events;
    bool complete;
    struct mp_buffer command;  /* the program's command: words separated by spaces */
    struct mp_buffer coverage; /* as text */
};

struct mp_comparison {
    const struct mp_compare *compare; /* the first recording compared with the last */
    const struct mp_model *models[MP_SIDES];
    const struct mp_model
        *covered; /* the model whose coverage JSON has: the first that lacks something, else the last */
    uint16_t tracks[MP_SIDES];
    struct mp_window windows[MP_SIDES];
    enum mp_profile_of sense;
    const struct mp_compared *all;
    size_t count;
    const struct mp_view *view;
    uint64_t most; /* the largest change in a shown row; 0: not known */
};

void mp_compare_json(struct mp_json *json, const struct mp_comparison *comparison);
void mp_compare_text(struct mp_text *text, const struct mp_comparison *comparison);
