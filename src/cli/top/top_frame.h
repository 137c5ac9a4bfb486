/*
 * Draws one picture: the processes with their devices, and below them the sites of the chosen process. Used for the
 * terminal, with a line of keys, and for `--once`. One thread at a time.
 */
#pragma once

#include <time.h>

#include "cli/top/top_canvas.h"
#include "cli/top/top_gather.h"

enum mp_top_sort { MP_TOP_BY_HELD, MP_TOP_BY_GROWTH, MP_TOP_BY_BLOCKS, MP_TOP_SORTS };

struct mp_top_view {
    unsigned width, height; /* height 0: no limit, and no line of keys */
    size_t limit;           /* most sites if the height is 0; 0: all */
    bool utf8, paused;
    enum mp_top_sort sort;
    uint64_t chosen; /* the chosen process's recording; 0: the process with most memory */
    time_t now;
    size_t first_process; /* the first row that is shown; kept between pictures */
};

/* The process that the view has chosen, or chooses by default; NULL: there are no processes. */
const struct mp_top_process *mp_top_chosen(const struct mp_top_view *view, const struct mp_top_state *state);
void mp_top_frame_draw(struct mp_top_view *view, const struct mp_top_state *state, struct mp_top_canvas *canvas);
