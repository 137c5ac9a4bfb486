/*
 * What runs, as OpenMetrics text (version 1.0.0): per process and track live, peak and reserved bytes, live blocks;
 * events, dropped events and steps; and the sites that hold most now, by the line of Python that allocated. One thread
 * at a time.
 */
#ifndef MP_COLLECT_METRICS_TEXT_H
#define MP_COLLECT_METRICS_TEXT_H

#include "base/buffer.h"
#include "collect/recording.h"

#define MP_METRICS_SITES 10 /* of a process */

/* Ends with "# EOF". Takes time with the number of live blocks. */
void mp_metrics_write(struct mp_buffer *out, struct mp_recording *const *recordings, size_t count);

#endif
