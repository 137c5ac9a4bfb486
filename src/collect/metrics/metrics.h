/*
 * Metrics of the running processes for Prometheus and similar tools, in a file rewritten every few seconds (for
 * node_exporter's textfile collector). One thread at a time.
 */
#pragma once

#include <sys/types.h>

#include "collect/metrics/metrics_text.h"

struct mp_metrics {
    char *path;   /* NULL: no metrics */
    dev_t device; /* device and inode of the file that we made; 0: none yet */
    ino_t inode;
    uint64_t written_ns, took_ns; /* when the latest text was written, and how long it took */
};

/* `path` NULL: no metrics. MP_IO: `path` is a file that no earlier run made. MP_INVALID: `path` is a port or a socket,
 * which earlier versions served. */
enum mp_status mp_metrics_open(const char *path, struct mp_metrics *metrics, struct mp_error *error);
/* Writes the file if it is time. Call it often. */
void mp_metrics_serve(struct mp_metrics *metrics, struct mp_recording *const *recordings, size_t count);
/* Removes the file if it is still ours, so that ended processes are not reported. */
void mp_metrics_close(struct mp_metrics *metrics);
