/* The live view in a terminal. The terminal is restored, however the program ends. One thread. */
#pragma once

#include "cli/top/top_frame.h"

/* Draws and takes keys until the user ends it. Returns an exit status; if it is not 0, a message was printed. */
int mp_top_screen_run(struct mp_top_gather *gather, struct mp_top_view *view, bool color);
