/*
 * Adds events to an existing trace of PyTorch's profiler, gzip-compressed or not. The trace is read once for its facts,
 * and then copied byte for byte, with room for events at the beginning of its list. Both take constant memory except
 * for the numbers of its processes. One thread at a time.
 */
#ifndef MP_EXCHANGE_CHROME_MERGE_H
#define MP_EXCHANGE_CHROME_MERGE_H

#include "base/error.h"
#include "base/map.h"
#include "exchange/common/sink.h"
#include "model/window.h"

struct mp_chrome_input {
    const char *path;
    uint64_t events_at;        /* offset of the byte behind the list's bracket */
    int64_t base_ns;           /* the zero of its times; 0: 1970, or unknown */
    int64_t first_ns, last_ns; /* on its clock */
    bool any_time, any_memory, any_out_of_memory;
    struct mp_map pids, named; /* by pid + 1: those that have events, those that have a name */
    bool damaged;              /* not JSON to the end: the facts are those of the part before */
    struct mp_error damage;
};

/* MP_NOT_A_RECORDING, MP_DAMAGED where there is no list of events, MP_IO. Everything before a damaged
 * place is used: profilers have written names with unescaped quotation marks. `path` must outlive *input. */
enum mp_status mp_chrome_input_read(const char *path, struct mp_chrome_input *input, struct mp_error *error);
void mp_chrome_input_free(struct mp_chrome_input *input);

/* Finds the part of the recording that the trace covers. MP_INVALID where there is none (the sentence says how far
 * apart they are), or where one of them does not say when it was made. */
enum mp_status mp_chrome_align(const struct mp_chrome_input *input, const struct mp_model *model,
                               struct mp_window *window, struct mp_error *error);

/* Copies the trace up to the place for events, or from there on. */
enum mp_status mp_chrome_copy_head(const struct mp_chrome_input *input, struct mp_sink *sink, struct mp_error *error);
enum mp_status mp_chrome_copy_rest(const struct mp_chrome_input *input, bool any_event, struct mp_sink *sink,
                                   struct mp_error *error);

#endif
