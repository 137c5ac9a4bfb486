/*
 * The figures of all processes of a session for `memprof top`, as one JSON object. It has facts that the collector
 * knows at once: it takes a few microseconds for each process and track, and no time for blocks. One thread at a time.
 */
#pragma once

#include "base/buffer.h"
#include "collect/session/session.h"

void mp_overview_write(struct mp_buffer *out, const struct mp_collector *collector);
