/*
 * The regions that are open at the current event of a file, by the rules of model/spans.h. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "format/recording.h"

/* No program nests deeper. Regions beyond this many are left out. */
#define MP_OPEN_SPANS_MAX 4096

struct mp_open_span {
    uint64_t time_ns;
    uint32_t name, thread;
};

struct mp_open_spans {
    struct mp_open_span *at; /* in order of beginning */
    size_t count, room;
};

/* Takes a region's begin. False if memory is short. */
bool mp_open_spans_begin(struct mp_open_spans *open, const struct mp_event *event);
/* Takes a region's end. Closes the thread's innermost region of that name (0: of any name), and all regions begun
 * inside it. */
void mp_open_spans_end(struct mp_open_spans *open, const struct mp_event *event);
