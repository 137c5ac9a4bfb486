/* A part of a recording, between two times that the user gave. Pure. */
#pragma once

#include "base/error.h"
#include "model/model.h"

/* A moment is the number of events that have happened: 0 is the start, when only the base is live. */
struct mp_window {
    uint32_t first, last; /* moments, both inclusive; the events between them are first to last - 1 */
    uint64_t from_ns, to_ns;
    bool whole;
};

/* The whole recording. */
struct mp_window mp_window_all(const struct mp_model *model);

/* Makes a window from two texts (NULL: the start, the end). Each is a time from the start ("1.5s"), a share of the
 * recording ("50%"), or a step: "step:10" means that step's beginning in `from` and its end in `to`. MP_INVALID if a
 * text is not valid, or if nothing lies between the two times. */
enum mp_status mp_window_make(const struct mp_model *model, const char *from, const char *to, struct mp_window *window,
                              struct mp_error *error);

/* Makes the window between two times in nanoseconds. */
void mp_window_between(const struct mp_model *model, uint64_t from_ns, uint64_t to_ns, struct mp_window *window);
