/*
 * Shared by the parts of the collector: what each does that collector.c and collector_accept.c run. Not for others.
 */
#ifndef MP_COLLECT_COLLECTOR_PARTS_H
#define MP_COLLECT_COLLECTOR_PARTS_H

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
#include "format/recording.h"

/*
 * Files that a process tree leaves out: those of processes that were started by a recorded one and never allocated
 * enough to matter. The file of the process that started them has a note of them. Only the one thread that finishes
 * recordings.
 */

/* One kind of left-out files. */
struct mp_left_out {
    uint64_t owner; /* the id of the recording whose process started them */
    char role[MP_MEMBER_TEXT];
    uint64_t processes, events, peak_bytes; /* the highest of one */
};

struct mp_leaving {
    MP_VEC(struct mp_left_out) rows; /* not noted yet */
};

/* Asked of a recording whose end was taken: whether it may be left out by all that is known without its file. */
bool mp_leaving_may(struct mp_recording *recording, uint64_t below_bytes);

/* Finishes a recording whose end was taken (mp_recording_finish), and looks for leaks in a file of up to 4 MiB
 * (summary->leaks). Notes in it what its process's children left out. `owner`: the id of the recording whose process
 * started this one, if the file may be left out, which it is if it was looked at and has no leak; 0: it stays. */
void mp_leaving_finish(struct mp_leaving *leaving, struct mp_recording *recording, uint64_t owner,
                       struct mp_recording_summary *summary);
void mp_leaving_free(struct mp_leaving *leaving);

/*
 * Finishes the recordings of ended processes, one after the other, on a thread of its own. Reading symbols may take
 * seconds, in which the rings of other processes would run full.
 */

struct mp_finished {
    struct mp_recording *recording;
    struct mp_recording_summary summary;
    uint64_t owner; /* the id of the recording whose process started this one, if that may leave no file; 0: it stays */
};

struct mp_finisher {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    MP_VEC(struct mp_finished) queue; /* [0, done) are finished, [done] is in work, the others wait */
    size_t done;
    struct mp_leaving leaving; /* the thread's */
    bool running;              /* the thread takes from the queue; it ends when that is empty */
    bool started;              /* and must be joined */
    pthread_t worker;
};

void mp_finisher_open(struct mp_finisher *finisher);
/* Hands over a recording whose end was recorded (mp_recording_end). Where there is no thread or no memory, it is
 * finished here and now and returned in *finished; the result is then true. `owner`: as in struct mp_finished. */
bool mp_finisher_add(struct mp_finisher *finisher, struct mp_recording *recording, uint64_t owner,
                     struct mp_finished *finished);
/* Takes back a finished recording, which the thread that made it must free; `wait` waits for one. False: there is none
 * (with `wait`: none is left). */
bool mp_finisher_take(struct mp_finisher *finisher, bool wait, struct mp_finished *finished);
/* Called after the last was taken. */
void mp_finisher_close(struct mp_finisher *finisher);

/*
 * Wishes that a recorded program look for holders of its tensors now. A client (collect/session/control.h) gets the
 * recording with that look, and a snapshot at a signal is made after it. If a leak is suspected, nobody waits. The
 * program looks between two instructions of its main thread. If it does not come by, the wish is withdrawn. One thread
 * at a time.
 */

struct mp_wished_look {
    uint64_t recording; /* its id */
    uint32_t number;
    uint64_t asked_ns, began_ns; /* 0: it has not begun */
    uint32_t budget_ms;
    int file, connection; /* of whoever waits; -1 */
    bool then_snapshot;   /* of now, next to the recording */
};

struct mp_looks {
    MP_VEC(struct mp_wished_look) wished;
    uint32_t last_number;
};

/* Asks the program. `file` and `connection` as for mp_snapshots_start_for, -1 where nobody waits: taken over, also on
 * failure, where the caller answers. */
enum mp_status mp_looks_ask(struct mp_looks *looks, struct mp_recording *recording, struct mp_wished_look wish,
                            struct mp_error *error);
/* Ends what has come of this recording's wishes, or will not come. `ended`: the process did. */
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

/* Opens it and starts the thread, which uses *doorbell until mp_doorbell_close(). */
enum mp_status mp_doorbell_open(struct mp_doorbell *doorbell, struct mp_error *error);
/* Forgets the rings so far. */
void mp_doorbell_hear(struct mp_doorbell *doorbell);
/* Ends the thread, even while processes may still ring, and closes. Ignores a zero-initialised one. */
void mp_doorbell_close(struct mp_doorbell *doorbell);

/*
 * With --holders: judges a running program's blocks now and then by the rule for leaks (analysis/leaks/leaks.h), and
 * reports newly accused places. A forked child judges, so nobody waits. One thread at a time.
 */

#define MP_SUSPECTS 64

struct mp_suspicion {
    uint32_t next_step;                 /* at which it is judged again */
    uint64_t blocks, grown_ns;          /* PyTorch's live ones when their number last had doubled, and when */
    pid_t child;                        /* that judges now; 0: none */
    struct mp_suspects *shared;         /* with the child */
    uint32_t known[MP_SUSPECTS], count; /* stacks accused so far */
};

/* True: a new site is accused, or, for programs that mark no steps, PyTorch's live blocks have doubled. */
bool mp_suspicion_round(struct mp_suspicion *suspicion, struct mp_recording *recording);
void mp_suspicion_free(struct mp_suspicion *suspicion);

#define MP_VISITORS 64 /* connections that have said nothing yet; one more, and the oldest is closed */
#define MP_ROUND_MS 20 /* at least so often; a ring that is half full rings the doorbell */

struct mp_collected {
    struct mp_recording *recording;
    int pidfd; /* -1: the command itself, whose end waitpid() reports */
    uint32_t pid;
    struct mp_suspicion suspicion;
};

struct mp_collector {
    const struct mp_collector_options *options;
    struct mp_collector_result *result;
    struct mp_naming naming;
    char host[256];
    int locked; /* the socket's folder (collect/session/session_folder.h) */
    char socket_folder[MP_SESSION_FOLDER_ROOM], socket_path[MP_SESSION_FOLDER_ROOM + 16];
    int listener, signals;
    MP_VEC(int) visitors; /* connections that have said nothing yet, oldest first */
    struct mp_doorbell doorbell;
    struct mp_finisher finisher;
    struct mp_snapshots snapshots;
    struct mp_looks looks;
    struct mp_device_watch *devices;
    struct mp_metrics metrics;
    sigset_t newly_ignored; /* signals that were not ignored before: the command gets their default back */
    sigset_t mask;          /* of blocked signals before, which the command gets */
    pid_t command;
    bool command_ended;
    bool waits_no_longer;       /* for what outlives the command */
    bool ending;                /* no process is recorded any more */
    struct mp_refused unplaced; /* not yet said in a file */
    int wait_status;
    MP_VEC(struct mp_collected) processes;
    MP_VEC(char *) paths; /* of every file made so far */
};

/* Makes the session's folder and listens in it. On failure, too, mp_collector_listen_no_more() tidies up. */
enum mp_status mp_collector_listen(struct mp_collector *collector, struct mp_error *error);
void mp_collector_listen_no_more(struct mp_collector *collector);
/* Takes connections that wait, and answers those that have said something: a process that is to be recorded, or a
 * question. Waits for nobody. */
void mp_collector_accept(struct mp_collector *collector);
/* The process has ended, or been replaced. */
void mp_collector_end_process(struct mp_collector *collector, size_t index, struct mp_exit how, const char *text);

/* A process's name as the kernel has it, harmless in a terminal; "": it is no more. */
void mp_process_name(uint32_t pid, char name[MP_PROCESS_NAME]);

/* How a process that is not our child has ended. Never waits; any thread. */

/* The wait status of a process that has ended: from the kernel (Linux 6.15), or from /proc while its parent has not
 * taken note of the end. False: it still runs, or nobody says, as to a collector that may not debug the process. */
bool mp_process_end(int pidfd, uint32_t pid, int *wait_status);

/* The end as the file has it, and in words: "exit 1", "killed by SIGSEGV". */
struct mp_exit mp_process_end_describe(int wait_status, char *text, size_t room);

/*
 * The figures of all processes of a session for `memprof top`, as one JSON object of facts that the collector has
 * anyway. Takes time for processes and their tracks, none for blocks: a few microseconds each. One thread at a time.
 */

void mp_overview_write(struct mp_buffer *out, const struct mp_collector *collector);

/* The beginning of a recording. One thread at a time. */

struct mp_new_recording {
    uint32_t pid;
    const char *output; /* absolute */
    const struct mp_record_config *config;
    bool symbols, keep_command;
    mp_recording_name *name; /* makes the file, with `context` */
    void *context;
};

/* A recording of a process, without an event yet; NULL with *error. */
struct mp_recording *mp_new_recording(const struct mp_new_recording *of, struct mp_error *error);

/* Makes the recording's file. The spool names it from before it is there, for recovery. *fd: the caller's to close. */
enum mp_status mp_new_recording_file(struct mp_recording *recording, const char *path, bool force, int *fd,
                                     struct mp_error *error);

/* A process's command line as a recording keeps it, without anything that looks like a secret. Pure except for /proc;
 * any thread. */

/* Reads the arguments of a process, each NUL-terminated, with an empty one at the end, cut to `room` (at least 2). An
 * empty one within becomes ''.
 * Empty where they cannot be read. Not masked. */
void mp_command_line_read(uint32_t pid, char *arguments, size_t room);

/* Replaces secrets by ***, in place; of one of one or two letters as many stars are left. Without memory no argument
 * stays. Masked are:
 *
 * - an option or assignment whose name says so: --token VALUE, --db-password=VALUE, HF_TOKEN=VALUE, password VALUE
 * - the same within an argument: {"password": "VALUE"}, Bearer VALUE, ?sig=VALUE, a line for a shell
 * - the nameless value that a command takes: wandb login VALUE, mysql -pVALUE, curl -u USER:VALUE
 * - the password in a URL: postgres://user:VALUE@host
 * - tokens by shape, webhooks, PEM blocks: collect/recording/secret_shapes.h
 *
 * Not masked are --max-tokens 512, --tokenizer NAME and --pad-token "<pad>". */
void mp_command_line_mask(char *arguments);

/* Reads and masks; cut to `room` only then, since half a token has no shape. */
void mp_command_line_masked(uint32_t pid, char *arguments, size_t room);

#endif
