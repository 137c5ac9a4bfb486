/*
 * `memprof snapshot`: starts a command and collects what its processes record until it has ended. One call, on the main
 * thread, since the spools' mutexes must be held by a thread that lives as long as the process.
 */
#ifndef MP_COLLECT_COLLECTOR_H
#define MP_COLLECT_COLLECTOR_H

#include <stdbool.h>

#include "collect/recording/recording.h"
#include "collect/session/snapshots.h"
#include "wire/config.h"

struct mp_collector_options {
    char *const *command;     /* NULL-terminated */
    const char *output;       /* a naming pattern (collect/session/naming.h), absolute */
    bool in_folder;           /* the user named a folder: each process has a file in it, named by what the process is */
    const char *folder;       /* that folder, absolute, with a slash at its end */
    bool force;               /* an existing file may be replaced */
    uint64_t file_from_bytes; /* a process that another one has started leaves no file where it held less at its peak;
                               * 0: each leaves one */
    bool symbols;
    bool keep_command; /* the processes' command lines are stored in their files, secrets masked */
    struct mp_record_config record;
    struct mp_schedule schedule;
    int snapshot_signal;  /* sent to memprof, makes a snapshot of each process; 0: none */
    bool snapshot_at_oom; /* a snapshot the first time that an allocator runs out of memory */
    struct mp_snapshot_calls snapshot_calls;
    bool wait;           /* for all processes of the session, not for the command alone */
    const char *metrics; /* path of the metrics (collect/metrics/metrics.h); NULL: none */
};

/* Processes that could not be recorded: the first of them, and the reason for the very first. */
#define MP_REFUSED_NAMED 4
struct mp_refused {
    size_t count;
    struct mp_refused_process {
        uint32_t pid; /* as the process knows itself; 0: not known */
        char name[MP_PROCESS_NAME];
    } first[MP_REFUSED_NAMED];
    struct mp_error why;
};

struct mp_collector_result {
    int exit_status; /* of the command, as a shell gives it: 128 + signal; 126, 127 where it could not be executed */
    MP_VEC(struct mp_recording_summary) recordings;
    uint64_t units_seen; /* the most steps (or regions) that one process began, where a schedule counts them */
    char note[MP_SPOOL_NOTE_TEXT + 1]; /* the first remark of a recorder in a process without a file; "": none */
    size_t survivors;                  /* processes that were still running when recording ended */
    char survived[320];                /* a sentence on them */
    struct mp_refused refused;
};

/* "3 processes could not be recorded (pid 12 python, pid 13 python, pid 14 sh): memprof did not answer in time". */
#define MP_REFUSED_TEXT (sizeof((struct mp_error *)NULL)->text + 256)
void mp_refused_say(const struct mp_refused *refused, char *text, size_t room);

/* A status other than MP_OK means that the command was not started. The summaries have later errors. */
enum mp_status mp_collector_run(const struct mp_collector_options *options, struct mp_collector_result *result,
                                struct mp_error *error);
void mp_collector_result_free(struct mp_collector_result *result);

#endif
