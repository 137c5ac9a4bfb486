/* Messages on stderr, and the exit statuses. One thread. */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum mp_exit_status {
    MP_EXIT_DONE = 0,
    MP_EXIT_COULD_NOT = 1, /* the message says what failed and what to do */
    MP_EXIT_USAGE = 2,
    MP_EXIT_FOUND = 3,      /* a requested check found something */
    MP_EXIT_INCOMPLETE = 4, /* done, but the recording is cut, damaged or lost events */
};

/* Prints "memprof: " and the text on one line of stderr; control characters become '?'. */
void mp_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Does the same, and gives the exit status with which the command then ends. */
#define mp_refuse(...)  (mp_message(__VA_ARGS__), MP_EXIT_USAGE)     /* the options or operands are wrong */
#define mp_give_up(...) (mp_message(__VA_ARGS__), MP_EXIT_COULD_NOT) /* it failed */

#define MP_SHOWN_ROOM (2 * PATH_MAX)
/* The path as the user would type it: without the current folder in front, and quoted if a shell would misread it. The
 * result may be stored in `room`. */
const char *mp_shown_path(char room[MP_SHOWN_ROOM], const char *path);
/* Prints the message of an error, and returns its exit status. */
int mp_message_error(const struct mp_error *error);
/* The entry of `names` (NULL-terminated) that the user may have meant with `name`; NULL if none is similar. */
const char *mp_nearest(const char *name, const char *const *names);

#define MP_NAME_MOST 40
/* Levenshtein's distance of two names of at most MP_NAME_MOST letters. */
size_t mp_distance(const char *a, const char *b);

/* "1 event was" or "12 events were", until the next call. */
const char *mp_dropped_events(uint64_t count);
