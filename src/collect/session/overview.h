/*
 * The figures of all processes of a session, for who looks on while they run (`memprof top`): what the collector knows
 * anyway, as one JSON object. Takes time for processes and their tracks, none for blocks: a few microseconds each. One
 * thread at a time.
 */
#ifndef MP_COLLECT_OVERVIEW_H
#define MP_COLLECT_OVERVIEW_H

#include "base/buffer.h"
#include "collect/session/collector_parts.h"

void mp_overview_write(struct mp_buffer *out, const struct mp_collector *collector);

#endif
