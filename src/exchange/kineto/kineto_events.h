/*
 * A Kineto trace as a stream of its events, each with the few facts that matter for memory. Accepts known errors of
 * traces (control characters and invalid UTF-8 in names). The depth and the length of every text are bounded, and
 * memory is constant. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum mp_kineto_fact { /* numbers of an event, of a device, or of the whole trace */
                      MP_KINETO_PID,
                      MP_KINETO_TID,
                      MP_KINETO_START_NS, /* "ts" */
                      MP_KINETO_DURATION_NS,
                      MP_KINETO_BYTES,
                      MP_KINETO_ADDRESS,
                      MP_KINETO_ALLOCATED,
                      MP_KINETO_RESERVED,
                      MP_KINETO_DEVICE_ID,
                      MP_KINETO_DEVICE_TYPE,
                      MP_KINETO_ID,           /* of a device */
                      MP_KINETO_TOTAL_MEMORY, /* of a device */
                      MP_KINETO_BASE_NS,      /* UNIX time of the trace's time 0 */
                      MP_KINETO_EVENTS_AT,    /* offset of the byte after the opening bracket of the list traceEvents */
                      MP_KINETO_FACTS
};

enum mp_kineto_text {
    MP_KINETO_PHASE,
    MP_KINETO_CATEGORY,
    MP_KINETO_NAME,
    MP_KINETO_ARGUMENT_NAME, /* the name that an event of phase M gives */
    MP_KINETO_SHAPES,        /* "Input Dims", unchanged */
    MP_KINETO_CALL_STACK,
    MP_KINETO_TEXTS
};

/* One event, or one device, or the trace itself. Texts are NUL-terminated, "" where absent, and last until the callback
 * returns. */
struct mp_kineto_event {
    uint32_t known; /* bit N: facts[N] is set */
    int64_t facts[MP_KINETO_FACTS];
    const char *texts[MP_KINETO_TEXTS];
    size_t lengths[MP_KINETO_TEXTS];
};

static inline bool mp_kineto_has(const struct mp_kineto_event *event, enum mp_kineto_fact fact)
{
    return event->known >> fact & 1;
}

/* Callbacks; any may be NULL. */
struct mp_kineto_sink {
    void (*event)(void *context, const struct mp_kineto_event *event);
    void (*device)(void *context, const struct mp_kineto_event *device);
    void (*trace)(void *context, const struct mp_kineto_event *trace); /* called once, at the end; for a damaged trace
                                                                        * after its last readable event */
    void *context;
};

/* Reads the whole trace. MP_DAMAGED: cut or not JSON; MP_LIMIT: nested too deep, or a text too long;
 * MP_NOT_A_RECORDING: JSON without traceEvents; MP_IO. The error's text names the path and, if one byte is to blame,
 * its offset in the decompressed trace. */
enum mp_status mp_kineto_read(const char *path, const struct mp_kineto_sink *sink, struct mp_error *error);
