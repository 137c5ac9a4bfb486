/*
 * The running processes as OpenMetrics text (version 1.0.0). It has live, peak and reserved bytes and live blocks per
 * process and track; events, dropped events and steps; and the sites and modules that hold most now. Sites are named by
 * the allocating line of Python, modules by their full paths. Categories come from the program's labels alone.
 * Categories that follow from lifetimes and later phases (analysis/categories/categories.h) are not known yet, and
 * count as other. One thread at a time.
 */
#pragma once

#include "base/buffer.h"
#include "collect/recording/recording.h"

#define MP_METRICS_SITES 10 /* most sites, and most modules, of a process */

/* Appends the text, up to "# EOF". Takes time in proportion to the number of live blocks. */
void mp_metrics_write(struct mp_buffer *out, struct mp_recording *const *recordings, size_t count);
