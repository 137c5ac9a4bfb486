/*
 * The running processes as OpenMetrics text (version 1.0.0): per process and track live, peak and reserved bytes, live
 * blocks; events, dropped events and steps; the sites that hold most now, by the line of Python that allocated, and the
 * modules that do, by their whole paths; and what blocks are for, as far as the program says it: what else follows from
 * lives and later phases (analysis/categories/categories.h) is not known yet and counts as other. One thread at a time.
 */
#ifndef MP_COLLECT_METRICS_TEXT_H
#define MP_COLLECT_METRICS_TEXT_H

#include "base/buffer.h"
#include "collect/recording/recording.h"

#define MP_METRICS_SITES 10 /* of a process; and as many modules */

/* Ends with "# EOF". Takes time with the number of live blocks. */
void mp_metrics_write(struct mp_buffer *out, struct mp_recording *const *recordings, size_t count);

#endif
