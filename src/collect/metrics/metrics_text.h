/*
 * The running processes as OpenMetrics text (version 1.0.0): per process and track live, peak and reserved bytes, live
 * blocks; events, dropped events and steps; the sites that hold most now, by the allocating line of Python, and the
 * modules that do, by their full paths; and the categories of blocks, as far as the program's labels give them.
 * Categories that follow from lives and later phases (analysis/categories/categories.h) are not known yet and count as
 * other. One thread at a time.
 */
#ifndef MP_COLLECT_METRICS_TEXT_H
#define MP_COLLECT_METRICS_TEXT_H

#include "base/buffer.h"
#include "collect/recording/recording.h"

#define MP_METRICS_SITES 10 /* of a process; the same number of modules */

/* Ends with "# EOF". Takes time in proportion to the number of live blocks. */
void mp_metrics_write(struct mp_buffer *out, struct mp_recording *const *recordings, size_t count);

#endif
