/*
 * The recording of one process: its records go from the spool through the state into the snapshot file. The same steps
 * serve the running collector and `memprof recover`, which begins with a file's contents. One thread at a time.
 */
#pragma once

#include "collect/recording/recorded.h"

#define MP_COPIED_MIN (UINT64_C(16) << 20) /* any fork copies some of its parent's pages */

/*
 * The memory that recording one process takes, with the bound of each part. May be read at any moment, on the recording
 * thread.
 *
 *     spool    shared with the program: rings for its threads (96 MiB at most) and tables of names, frames and stacks
 *              (about 220 MiB at most), as far as they were ever used
 *     ledger   the most blocks that ever lived at once
 *     tables   the same names once more, and every thread that ever allocated
 *     events   one chunk of events on its way into the file, steps of a closed window, lives that outlasted a step,
 *              what blocks of one kind are for
 *     file     the writer's buffers, and 48 bytes for each chunk in the file: about 70 MiB a week; bounded by
 *              --max-events
 */
struct mp_recording_memory {
    uint64_t spool, ledger, tables, events, file;
};

/* A finished recording in one line. */
struct mp_recording_summary {
    char *path; /* owned by the summary's owner; NULL if nothing was recorded */
    uint64_t events, kept, dropped, file_bytes, duration_ns; /* kept: events in the file */
    uint64_t full;                                           /* events dropped because a ring was full */
    /* Processes went on after the recording's end (mp_recording_ends_early()). */
    bool ends_early;
    bool lacks_processes;                   /* the process started others that were not recorded */
    bool missed;                            /* attached: what the process did was not watched throughout */
    bool lacks_names;                       /* some events lack their stack or a name in it */
    uint64_t steps;                         /* steps begun, by the recording's step rule */
    char functions[MP_STEP_FUNCTIONS_TEXT]; /* as mp_recording_step_functions() writes it */
    struct mp_recording_memory memory;      /* the memory that the recording took; no table ever shrinks */
    uint32_t sample_bytes;                  /* bytes and peak are estimated from a sample; 0: they are
                                             * exact */
    bool scheduled;                         /* only parts of the run were requested */
    uint32_t pid;
    struct mp_member member;
    struct mp_exit how;            /* its text is a string id of the file */
    char how_text[96];             /* the same */
    char program[MP_PROGRAM_NAME]; /* the program that the command line runs: "train.py"; "": not known */
    bool under_rank;               /* a program that a rank has started, with the rank's variables in its environment */
    uint64_t all_peak_bytes;       /* upper bound of the bytes at one time: the sum of all tracks' peaks */
    uint64_t device_peak_bytes;    /* the highest peak of a device's track */
    uint64_t copied_bytes;         /* bytes of its parent's pages that a worker wrote to, and so copied */
    bool used_device;              /* a track of a device had bytes */
    bool ooms;                     /* memory ran out */
    uint32_t leaks;                /* sites that keep growing, if that was checked (collect/session/leaving.h) */
    bool left_out;                 /* the file was removed, since the child process allocated hardly any memory */
    uint64_t device, inode;        /* of the file */
    bool attached;                 /* the program was already running (config.attached) */
    bool has_totals;               /* the file has totals of devices, and so unattributed memory */
    struct mp_ledger_track track;  /* the track with the highest peak, and its id */
    bool behind_step;              /* the peak came after the end of its step */
    char track_id[MP_ID_TEXT];
    enum mp_status failed;
    struct mp_error failure;
    bool replaced; /* failed: another program put its file in place of ours, which is lost */
};

/* Call it before mp_recording_end(). `why`: one sentence on what this recording, or others of the command, will
 * lack. */
void mp_recording_ends_early(struct mp_recording *recording, const char *why);
void mp_recording_lacks_processes(struct mp_recording *recording, const char *why);

/* True if the file is finished and no other program has replaced it. */
bool mp_recording_is_in_place(const struct mp_recording_summary *summary);

/* True if the process is a rank itself, not a helper of one. */
bool mp_recording_is_rank(const struct mp_recording_summary *summary);

/* True if the process is known to have ended well: with status 0, or, for a worker of multiprocessing, by SIGTERM. */
bool mp_recording_ended_well(const struct mp_recording_summary *summary);

/* Call it before the first round. The caller keeps the schedule, which must outlive the recording. */
void mp_recording_schedule(struct mp_recording *recording, const struct mp_schedule *schedule);

/* For recovery: sets the schedule to its position after the records that the drain has taken. Returns the position. */
const struct mp_schedule_position *mp_recording_resume(struct mp_recording *recording);

/* Takes over the spool. On failure returns NULL, and the caller keeps the spool. Settings come from the spool's
 * configuration. A paused recording opens its window at the first start event, or when the schedule says so. */
struct mp_recording *mp_recording_new(struct mp_spool_file *spool, bool symbols, mp_recording_name *name,
                                      void *name_context, struct mp_error *error);

/* One round: gives the spool space, takes new records and answers questions. It also samples the process's memory, and
 * writes the file when due. False if the file can no longer be written (recording->file.failure). */
bool mp_recording_round(struct mp_recording *recording, bool process_ended);

/* Call it when the process has ended: takes everything left in the spool. `how` has the end without text and time;
 * `text` is the end in words. */
void mp_recording_end(struct mp_recording *recording, struct mp_exit how, const char *text);

/* Fills in the summary, except for the file's path, duration and size, and the recorder's losses. */
void mp_recording_summarise(struct mp_recording *recording, struct mp_recording_summary *summary);
/* Call it after mp_recording_end(), on any thread: writes symbols, coverage and the end, and closes the file. May take
 * seconds. Unless summary->failed, the spool is not needed afterwards. */
void mp_recording_finish(struct mp_recording *recording, struct mp_recording_summary *summary);

/* Call it before mp_recording_finish() to save the time for symbols: native frames then stay without names. */
void mp_recording_forgo_symbols(struct mp_recording *recording);

/* Frees everything, on the thread that made the spool; an unfinished file stays as it is (cut). */
void mp_recording_free(struct mp_recording *recording, bool remove_spool);

void mp_recording_memory(const struct mp_recording *recording, struct mp_recording_memory *memory);
/* The collector's part: all but the spool. */
uint64_t mp_recording_memory_sum(const struct mp_recording_memory *memory);
