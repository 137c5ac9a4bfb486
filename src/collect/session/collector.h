/*
 * `memprof snapshot`: starts a command, and collects what its processes record until it has ended. It is one call, on
 * the main thread: the thread that holds the spools' futexes must live as long as the process.
 */
#pragma once

#include <stdbool.h>

#include "collect/recording/recording.h"
#include "collect/session/refused.h"
#include "collect/session/snapshots.h"
#include "wire/config.h"

struct mp_collector_options {
    char *const *command;     /* NULL-terminated */
    const char *output;       /* a naming pattern (collect/session/naming.h), absolute */
    bool in_folder;           /* the user named a folder, in which each process gets a file named by its role */
    const char *folder;       /* the folder for files, absolute, with a slash at its end */
    bool force;               /* an existing file may be replaced */
    uint64_t file_from_bytes; /* a child process below this peak leaves no file; 0: every process leaves one */
    bool symbols;
    bool keep_command; /* files keep the processes' command lines, with secrets masked */
    struct mp_record_config record;
    struct mp_schedule schedule;
    int snapshot_signal;  /* a signal to memprof that makes a snapshot of each process; 0: none */
    bool snapshot_at_oom; /* makes a snapshot when an allocator first runs out of memory */
    struct mp_snapshot_calls snapshot_calls;
    bool wait;           /* waits for all processes of the session, not only for the command */
    const char *metrics; /* path of the metrics (collect/metrics/metrics.h); NULL: none */
};

struct mp_collector_result {
    int exit_status; /* the command's, as a shell gives it: 128 + signal; 126: it could not be executed; 127: it was not
                      * found */
    MP_VEC(struct mp_recording_summary) recordings;
    uint64_t units_seen; /* the most steps (or regions) that one process began, if a schedule counts them */
    char note[MP_SPOOL_NOTE_TEXT + 1]; /* the first note of a recorder in a process without a file; "": none */
    size_t survivors;                  /* processes that were still running when recording ended */
    char survived[320];                /* a sentence about the survivors */
    struct mp_refused refused;
};

/* MP_OK means that the command was started; otherwise it was not. The summaries have later errors. */
enum mp_status mp_collector_run(const struct mp_collector_options *options, struct mp_collector_result *result,
                                struct mp_error *error);
void mp_collector_result_free(struct mp_collector_result *result);

/* ---- for a session of one process that memprof did not start (attach) ---- */

struct mp_collector;

/* Makes the session's folder, and listens in it. mp_collector_listen_no_more() cleans up, also after a failure. */
enum mp_status mp_collector_listen(struct mp_collector *collector, struct mp_error *error);
void mp_collector_listen_no_more(struct mp_collector *collector);
/* Takes waiting connections, and answers messages: greetings of processes to record, and questions. Waits for
 * nobody. */
void mp_collector_accept(struct mp_collector *collector);
