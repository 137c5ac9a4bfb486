/*
 * Shared by collector.c, collector_accept.c and the parts that they run. Not for others.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/vec.h"
#include "collect/metrics/metrics.h"
#include "collect/recording/recording.h"
#include "collect/session/collector.h"
#include "collect/session/naming.h"
#include "collect/session/session_folder.h"
#include "collect/session/snapshots.h"
#include "collect/session/unreached.h"
#include "format/new_file.h"
#include "format/recording.h"

/*
 * Files that are left out: files of child processes that never allocated enough to matter. The parent's file has a note
 * about them. Only for the thread that finishes recordings.
 */

/* The left-out files of one kind. */
struct mp_left_out {
    uint64_t owner; /* id of the recording of the parent */
    char role[MP_MEMBER_TEXT];
    uint64_t processes, events, peak_bytes; /* peak_bytes: the highest of one process */
};

struct mp_leaving {
    MP_VEC(struct mp_left_out) rows; /* not noted yet */
};

/* True if a recording may be left out, judged without its file. Its end must have been taken. */
bool mp_leaving_may(struct mp_recording *recording, uint64_t below_bytes);

/* Finishes a recording whose end was taken (mp_recording_finish()), and checks a file of up to 4 MiB for leaks
 * (summary->leaks). Adds a note about left-out children of the process. `owner`: id of the parent's recording if the
 * file may be left out: it is left out if it was checked and has no leak. 0: the file stays. */
void mp_leaving_finish(struct mp_leaving *leaving, struct mp_recording *recording, uint64_t owner,
                       struct mp_recording_summary *summary);
void mp_leaving_free(struct mp_leaving *leaving);

/*
 * Finishes the recordings of ended processes, one after the other, on its own thread. Reading symbols may take seconds.
 * In this time, the rings of other processes would fill up.
 */

struct mp_finished {
    struct mp_recording *recording;
    struct mp_recording_summary summary;
    uint64_t owner; /* id of the parent's recording if the file may be left out; 0: the file stays */
};

struct mp_finisher {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    MP_VEC(struct mp_finished) queue; /* [0, done) are finished, [done] is under way, the others wait */
    size_t done;
    struct mp_leaving leaving; /* used by the thread */
    bool running;              /* the thread takes from the queue; it ends when the queue is empty */
    bool started;              /* the thread must be joined */
    pthread_t worker;
};

void mp_finisher_open(struct mp_finisher *finisher);
/* Passes on a recording whose end was taken (mp_recording_end). Without a thread or memory, finishes the recording
 * itself, returns it in *finished, and gives true. `owner`: as in struct mp_finished. */
bool mp_finisher_add(struct mp_finisher *finisher, struct mp_recording *recording, uint64_t owner,
                     struct mp_finished *finished);
/* Returns a finished recording, which the thread that made it must free; `wait` waits for one. False: no recording is
 * finished (with `wait`: none will be). */
bool mp_finisher_take(struct mp_finisher *finisher, bool wait, struct mp_finished *finished);
/* Call it after the last recording was taken. */
void mp_finisher_close(struct mp_finisher *finisher);

/*
 * Requests to recorded programs to look for holders of their tensors now. A client (collect/session/control.h) gets the
 * recording with that look. A snapshot at a signal is made after a look. After a suspected leak, nobody waits for the
 * look. The program looks between two instructions of its main thread. If the program does not respond, the request is
 * withdrawn. One thread at a time.
 */

struct mp_wished_look {
    uint64_t recording; /* its id */
    uint32_t number;
    uint64_t asked_ns, began_ns; /* 0: the look has not begun */
    uint32_t budget_ms;
    int file, connection; /* descriptors of the client that waits; -1: none */
    bool then_snapshot;   /* a snapshot is to follow, next to the recording */
};

struct mp_looks {
    MP_VEC(struct mp_wished_look) wished;
    uint32_t last_number;
};

/* Asks the program. `file` and `connection` are those of mp_snapshots_start_for; -1: nobody waits. The function takes
 * over both, even if it fails; after a failure, the caller answers. */
enum mp_status mp_looks_ask(struct mp_looks *looks, struct mp_recording *recording, struct mp_wished_look wish,
                            struct mp_error *error);
/* Ends requests about this recording whose looks have come, or will not come. `ended`: the process has ended. */
void mp_looks_serve(struct mp_looks *looks, struct mp_snapshots *snapshots, struct mp_recording *recording, bool ended);
void mp_looks_free(struct mp_looks *looks);

/*
 * The doorbell of a session: a page that all recorded processes share. A thread sleeps on it and turns each ring into
 * an event that poll() sees.
 */

struct mp_doorbell {
    int memory; /* the page's descriptor, for the processes */
    int heard;  /* readable after a ring */
    struct mp_doorbell_page *page;
    pthread_t listener;
    _Atomic bool leaving;
};

/* Opens the doorbell and starts the thread, which uses *doorbell until mp_doorbell_close(). */
enum mp_status mp_doorbell_open(struct mp_doorbell *doorbell, struct mp_error *error);
/* Clears the rings so far. */
void mp_doorbell_hear(struct mp_doorbell *doorbell);
/* Ends the thread, even while processes may still ring, and closes all descriptors. Does nothing if
 * zero-initialised. */
void mp_doorbell_close(struct mp_doorbell *doorbell);

/*
 * With --holders: sometimes judges a running program's blocks by the leak rule (analysis/leaks/leaks.h), and reports
 * newly suspected sites. A forked child judges, so nobody waits. One thread at a time.
 */

#define MP_SUSPECTS 64

struct mp_suspicion {
    uint32_t next_step;                 /* step at which the next judgement is due */
    pid_t child;                        /* the child that judges now; 0: none */
    struct mp_suspects *shared;         /* with the child */
    uint32_t known[MP_SUSPECTS], count; /* stacks suspected so far */
};

/* True: a new site is suspected. */
bool mp_suspicion_round(struct mp_suspicion *suspicion, struct mp_recording *recording);
void mp_suspicion_free(struct mp_suspicion *suspicion);

#define MP_VISITORS 64 /* connections without a message so far; with one more, the oldest is closed */
#define MP_ROUND_MS 20 /* longest time between rounds; a half-full ring rings the doorbell earlier */

struct mp_collected {
    struct mp_recording *recording;
    int pidfd; /* -1: for the command itself, whose end waitpid() reports */
    uint32_t pid;
    struct mp_suspicion suspicion;
};

struct mp_collector {
    const struct mp_collector_options *options;
    struct mp_collector_result *result;
    struct mp_naming naming;
    char host[256];
    int locked; /* descriptor of the locked folder of the socket (collect/session/session_folder.h) */
    char socket_folder[MP_SESSION_FOLDER_ROOM], socket_path[MP_SESSION_FOLDER_ROOM + 16];
    int listener, signals;
    MP_VEC(int) visitors; /* connections without a message so far, oldest first */
    struct mp_doorbell doorbell;
    struct mp_finisher finisher;
    struct mp_snapshots snapshots;
    struct mp_looks looks;
    struct mp_device_watch *devices;
    struct mp_metrics metrics;
    sigset_t newly_ignored; /* signals that memprof newly ignores: the command gets their default back */
    sigset_t mask;          /* the former mask of blocked signals, for the command */
    pid_t command;
    bool command_ended;
    bool waits_no_longer;       /* waits no longer for processes that outlive the command */
    bool ending;                /* no new process is recorded */
    struct mp_unreached_look unreached;
    struct mp_refused unplaced; /* refusals that no file mentions yet */
    int wait_status;
    MP_VEC(struct mp_collected) processes;
    MP_VEC(char *) paths; /* paths of all files made so far */
};

/* Makes the session's folder, and listens in it. mp_collector_listen_no_more() cleans up, also after a failure. */
enum mp_status mp_collector_listen(struct mp_collector *collector, struct mp_error *error);
void mp_collector_listen_no_more(struct mp_collector *collector);
/* Takes waiting connections, and answers messages: greetings of processes to record, and questions. Waits for
 * nobody. */
void mp_collector_accept(struct mp_collector *collector);
/* With --host, a compiler or shell that the command starts may have the first events, and so get the plain file name.
 * Call it at the end: the command's own process gets that name, if it has a file. */
void mp_collector_name_command(struct mp_collector *collector);
/* Call it when the process has ended, or exec() replaced its program. */
void mp_collector_end_process(struct mp_collector *collector, size_t index, struct mp_exit how, const char *text);

/* The kernel's name for a process, harmless in a terminal; "": the process is gone. */
void mp_process_name(uint32_t pid, char name[MP_PROCESS_NAME]);

/* Finds out how a process that is not memprof's child has ended. Never waits; any thread. */

/* The wait status of an ended process: from the kernel (Linux 6.15), or from /proc until its parent has waited for it.
 * False: the process still runs, or the status is unknown, for instance because the collector may not debug the
 * process. */
bool mp_process_end(int pidfd, uint32_t pid, int *wait_status);

/* Describes the end for the file, and in words: "exit 1", "killed by SIGSEGV". */
struct mp_exit mp_process_end_describe(int wait_status, char *text, size_t room);

/*
 * The figures of all processes of a session for `memprof top`, as one JSON object. It has facts that the collector
 * knows at once: it takes a few microseconds for each process and track, and no time for blocks. One thread at a time.
 */

void mp_overview_write(struct mp_buffer *out, const struct mp_collector *collector);

/* The beginning of a recording. One thread at a time. */

struct mp_new_recording {
    uint32_t pid;
    const char *output; /* absolute */
    const struct mp_record_config *config;
    bool symbols, keep_command;
    mp_recording_name *name; /* makes the file; called with `context` */
    void *context;
};

/* Makes the recording of a process, without events yet; NULL with *error. */
struct mp_recording *mp_new_recording(const struct mp_new_recording *of, struct mp_error *error);

/* Makes the recording's file. The spool gets the file's name before the file exists, for recovery. *fd: the caller
 * closes it. */
enum mp_status mp_new_recording_file(struct mp_recording *recording, const char *path, enum mp_new_file_way way, int *fd,
                                     struct mp_error *error);

/* A process's command line for its recording, with all apparent secrets masked. Pure except for /proc; any thread. */

/* Reads the arguments of a process, each NUL-terminated, with an empty one at the end, cut to `room` (at least 2). An
 * empty argument becomes ''. The list is empty if the arguments cannot be read. Secrets are not masked. */
void mp_command_line_read(uint32_t pid, char *arguments, size_t room);

/* Replaces secrets by ***, in place; a secret of one or two letters by as many stars. If memory is short, removes all
 * arguments. Masked are:
 *
 * - an option or assignment with a telling name: --token VALUE, --db-password=VALUE, HF_TOKEN=VALUE, password VALUE
 * - the same within an argument: {"password": "VALUE"}, Bearer VALUE, ?sig=VALUE, a line for a shell
 * - a value that a command takes without a name for it: wandb login VALUE, mysql -pVALUE, curl -u USER:VALUE
 * - the password in a URL: postgres://user:VALUE@host
 * - tokens by shape, webhooks, PEM blocks: collect/recording/secret_shapes.h
 *
 * These stay: --max-tokens 512, --tokenizer NAME, --pad-token "<pad>". */
void mp_command_line_mask(char *arguments);

/* Reads and masks the arguments, then cuts them to `room`: a token that was cut first could not be recognised. */
void mp_command_line_masked(uint32_t pid, char *arguments, size_t room);
