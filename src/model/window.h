/* A part of a recording: the moments between two times that a user gave. Pure. */
#ifndef MP_MODEL_WINDOW_H
#define MP_MODEL_WINDOW_H

#include "base/error.h"
#include "model/model.h"

/* A moment is a number of events that have happened: 0 is the start, with the base live. */
struct mp_window {
    uint32_t first, last; /* moments, both inclusive; the events between them are first to last - 1 */
    uint64_t from_ns, to_ns;
    bool whole;
};

/* All of the recording. */
struct mp_window mp_window_all(const struct mp_model *model);

/* `from` and `to` (NULL: the start, the end) are a time from the start ("1.5s"), a part ("50%"), or a step. "step:10"
 * means its beginning for `from` and its end for `to`. MP_INVALID where one makes no sense or nothing lies between
 * them. */
enum mp_status mp_window_make(const struct mp_model *model, const char *from, const char *to, struct mp_window *window,
                              struct mp_error *error);

/* The same for times in nanoseconds. */
void mp_window_between(const struct mp_model *model, uint64_t from_ns, uint64_t to_ns, struct mp_window *window);

#endif
