/*
 * Adds events to an existing trace of PyTorch's profiler, gzip-compressed or not. The trace is read once for its facts,
 * and then copied byte for byte, with room for events at the beginning of its list. Both take constant memory, except
 * for the set of process ids. One thread at a time.
 */
#pragma once

#include "base/error.h"
#include "base/map.h"
#include "export/sink.h"
#include "model/window.h"

struct mp_chrome_input {
    const char *path;
    uint64_t events_at;        /* offset of the byte after the opening bracket of the list of events */
    int64_t base_ns;           /* UNIX time of the trace's time 0; 0: its times are UNIX times, or their origin is
                                * unknown */
    int64_t first_ns, last_ns; /* on the trace's clock */
    bool any_time, any_memory, any_out_of_memory;
    struct mp_map pids, named; /* sets of pid + 1: processes with events, processes with a name */
    bool damaged;              /* the file's end is not JSON; the facts come from the part before it */
    struct mp_error damage;
};

/* Errors: MP_NOT_A_RECORDING, MP_DAMAGED (no list of events), MP_IO. If a file is damaged, the part before the damage
 * is used, since some profilers write names with unescaped quotation marks. `path` must outlive *input. */
enum mp_status mp_chrome_input_read(const char *path, struct mp_chrome_input *input, struct mp_error *error);
void mp_chrome_input_free(struct mp_chrome_input *input);

/* Finds the part of the recording that the trace covers. MP_INVALID if the two do not overlap (the error's text says
 * how far apart they are), or if one of them does not say when it was made. */
enum mp_status mp_chrome_align(const struct mp_chrome_input *input, const struct mp_model *model,
                               struct mp_window *window, struct mp_error *error);

/* The first copies the trace up to input->events_at, the second from there on. */
enum mp_status mp_chrome_copy_head(const struct mp_chrome_input *input, struct mp_sink *sink, struct mp_error *error);
enum mp_status mp_chrome_copy_rest(const struct mp_chrome_input *input, bool any_event, struct mp_sink *sink,
                                   struct mp_error *error);
