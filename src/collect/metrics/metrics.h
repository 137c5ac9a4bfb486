/*
 * Metrics of the running processes, for Prometheus and similar tools: in a file rewritten every few seconds (for
 * node_exporter's textfile collector), or over HTTP on a loopback port or on a unix socket that only the user may open.
 * Never waits: reads and sends only what is possible at once. One thread at a time.
 */
#ifndef MP_COLLECT_METRICS_H
#define MP_COLLECT_METRICS_H

#include <sys/types.h>

#include "collect/metrics/metrics_text.h"

#define MP_METRICS_CLIENTS 8

struct mp_metrics_client {
    int connection; /* -1: none */
    uint64_t since_ns;
    char request[2048];
    size_t read;
    struct mp_buffer answer;
    size_t sent;
};

struct mp_metrics {
    char *path;   /* of the file or the socket; NULL otherwise */
    dev_t device; /* of the file or socket that we made; 0: none yet */
    ino_t inode;
    bool file;                             /* otherwise an address to listen on */
    int listener;                          /* -1: none */
    uint64_t written_ns, made_ns, took_ns; /* of the file; of the text, and the time it took */
    struct mp_buffer text;                 /* the latest text */
    struct mp_metrics_client clients[MP_METRICS_CLIENTS];
};

/* `where`: "metrics.prom", a file's path; "9464" or "127.0.0.1:9464"; "unix:/run/user/1000/memprof.sock". NULL: no
 * metrics. MP_INVALID for anything else; MP_IO where listening fails, or where something is already there that no
 * earlier run made. */
enum mp_status mp_metrics_open(const char *where, struct mp_metrics *metrics, struct mp_error *error);
/* To be called often. */
void mp_metrics_serve(struct mp_metrics *metrics, struct mp_recording *const *recordings, size_t count);
/* Removes the file or socket, if it is still the one that was made: nothing that runs no more is reported. */
void mp_metrics_close(struct mp_metrics *metrics);

#endif
