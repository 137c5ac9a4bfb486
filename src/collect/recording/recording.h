/*
 * The recording of one process: its records go from the spool through the state into the snapshot file. The same steps
 * serve the running collector and `memprof recover`, which begins with a file's contents. One thread at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"
#include "collect/device/device_watch.h"
#include "collect/device/nvml.h"
#include "collect/history/history.h"
#include "collect/recording/drain.h"
#include "collect/recording/schedule.h"
#include "collect/recording/spool_file.h"
#include "collect/recording/tables.h"
#include "collect/symbols/symbols.h"
#include "format/recording.h"
#include "format/writer.h"
#include "model/state/ledger.h"
#include "model/state/state.h"
#include "wire/config.h"

/* The name of the program that a command line runs. Pure. */

#define MP_PROGRAM_NAME 64

/* Writes the script or module that an interpreter runs ("train.py"), else the program's own name; "" without arguments.
 * `arguments` are NUL-terminated texts one after the other, up to an empty one or `room` bytes. The name is UTF-8
 * without control characters. */
void mp_program_name(const char *arguments, size_t room, char to[MP_PROGRAM_NAME]);

/*
 * Blocks that outlived a step, while the program runs: evidence for the rule of analysis/leaks/leak_rule.h in bounded
 * memory. A unit is one step at first. Its length doubles whenever there are too many units or ended lives. Lives that
 * then lie within one unit are forgotten. The rule thus sees a long run like a short one, with fewer boundaries. Births
 * of live blocks are in the ledger. One thread at a time.
 */

#define MP_LIVES_UNITS 2048
#define MP_LIVES_ENDED (UINT32_C(1) << 17)

/* A block that was freed in a later unit than it was born. Units count from 0. */
struct mp_life {
    uint64_t bytes;
    uint32_t stack;
    uint16_t birth, death;
    uint16_t track;
    uint8_t kind;
};

enum mp_lives_source { MP_LIVES_NONE, MP_LIVES_OPTIMIZER, MP_LIVES_MARKED };

struct mp_lives {
    enum mp_lives_source source; /* of the steps */
    uint32_t steps;              /* begun so far */
    uint32_t shift;              /* a unit is 1 << shift steps */
    MP_VEC(struct mp_life) ended;
    MP_VEC(uint64_t) begun_ns; /* by unit */
};

/* Call it when a step begins. The first marked step discards the steps of optimizers. */
void mp_lives_step(struct mp_lives *lives, struct mp_ledger *ledger, enum mp_lives_source source, uint64_t time_ns);
/* Call it when the block ledger->freed has ended. */
void mp_lives_end(struct mp_lives *lives, const struct mp_ledger *ledger);
/* The unit of a step. Steps count from 1, as in the ledger's births; step 0, before the first, has no unit. */
static inline uint32_t mp_lives_unit(const struct mp_lives *lives, uint32_t step)
{
    return (step - 1) >> lives->shift;
}
void mp_lives_free(struct mp_lives *lives);

/*
 * The role of most blocks of one kind: of one stack, module and size. The program labels only some blocks, in turns;
 * other blocks of the kind get the same role. In bounded memory. One thread at a time.
 */

#define MP_USUAL_ROLES 65536 /* kinds of blocks; others have no usual role */

/* Zero-initialised is empty. */
struct mp_usual_roles {
    struct mp_map by_kind; /* key: hash of stack, module and size; value: the leading role and its lead in votes */
};

/* Adds the first label of a block. False if memory is short. */
bool mp_usual_roles_add(struct mp_usual_roles *usual, const struct mp_base_block *block, unsigned role);
/* The block's own last role, else the usual one (enum mp_role). */
unsigned mp_usual_role(const struct mp_usual_roles *usual, const struct mp_base_block *block);
void mp_usual_roles_free(struct mp_usual_roles *usual);

/*
 * The devices of one process's recording: their identity, and readings of mp_device_watch as samples. These are the
 * counters of the samples:
 *
 *     cuda:N/device    in use on the device, by everybody
 *     cuda:N/process   by this process; absent where NVML does not report it
 *     cuda:N/others    by other processes; absent likewise
 *     cuda:N/before    once, at 0: in use before the command ran
 *     cuda:N/system once, at 0: the part of before that no process holds
 *
 * N is the device's number in the process. One thread at a time.
 */

#define MP_DEVICES_SEEN 16 /* ordinals followed */

struct mp_device_samples {
    struct mp_device_watch *watch; /* not owned; NULL: nothing is read */
    uint64_t cursor;
    uint64_t tracks_seen;
    uint32_t changed; /* the last value seen of the spool's devices_changed */
    bool any;
    char *visible, *order; /* the process's CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, owned; NULL: not set */
    struct mp_device_seen {
        bool used, begun, named, has_total, has_process;
        bool described;                     /* the tables have the device's identity */
        int gpu;                            /* -1: unknown */
        uint64_t used_bytes, process_bytes; /* the last reading; MP_BYTES_UNKNOWN: none */
    } devices[MP_DEVICES_SEEN];
};

struct mp_recording;

/* Call it when the process has just connected, while its original environment can be read. The caller keeps `watch`;
 * NULL: no readings. */
void mp_device_samples_begin(struct mp_recording *recording, struct mp_device_watch *watch);
/* Call it once per round: takes new devices and new readings. Asks for an immediate reading if the recorder reports a
 * new context or module on a device. */
void mp_device_samples_round(struct mp_recording *recording);
/* Adds notes on missing data. Call it before coverage is written. */
void mp_device_samples_notes(struct mp_recording *recording);
void mp_device_samples_free(struct mp_device_samples *samples);

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

struct mp_recording;

struct mp_recording_memory {
    uint64_t spool, ledger, tables, events, file;
};

void mp_recording_memory(const struct mp_recording *recording, struct mp_recording_memory *memory);
/* The collector's part: all but the spool. */
uint64_t mp_recording_memory_sum(const struct mp_recording_memory *memory);

/*
 * A recording that keeps only its newest events (--max-events). When the file has twice as many, a separate thread
 * folds all but the newest away (collect/fold/fold.h), into a new file that then replaces it. The recording goes on
 * meanwhile. The name always leads to a complete file. The file has at most twice the requested number of events, or
 * the requested number plus MP_BOUND_SLACK if that is more. Events that come during a fold are added to that.
 */

#define MP_BOUND_SLACK (UINT64_C(1) << 18) /* events: it is not worth a fold to remove fewer */

struct mp_recording;
struct mp_bound_job;

struct mp_bound {
    uint64_t max_events;      /* 0: no bound */
    uint64_t file_events;     /* in the file */
    uint64_t fold_at;         /* the next fold begins at this many events */
    struct mp_bound_job *job; /* the fold under way */
};

/* Call it after a chunk was written: puts a finished fold in place, and begins a fold if the file is too long. */
enum mp_status mp_recording_bound(struct mp_recording *recording, struct mp_error *error);
/* Call it before the file's end is written: leaves exactly max_events events. May take as long as reading the file. */
enum mp_status mp_recording_bound_end(struct mp_recording *recording, struct mp_error *error);
/* Gives up a fold that is under way. */
void mp_recording_bound_free(struct mp_recording *recording);

struct mp_recording;

/* Chooses the recording's file name and opens the file when the first events come. The caller frees *path. */
typedef enum mp_status mp_recording_name(void *context, struct mp_recording *recording, char **path, int *fd,
                                         struct mp_error *error);

/* A request for a file of the present state (collect/session/snapshots.h). */
struct mp_snapshot_request {
    uint32_t number; /* number of the program's question; 0: the program did not ask */
    uint32_t path;   /* string id of the requested path; 0: next to the recording */
    int file;        /* with a path: the program's descriptor of the file; -1: the program could not make the file */
    int reason;      /* errno of that failure */
    bool at_oom;     /* made at an out-of-memory; false: on request */
    uint64_t oom_ns; /* the time when memory ran out */
};

/* The first request of a thread that the driver refused since the thread last got memory. */
struct mp_refusal {
    uint32_t thread;
    uint16_t track; /* a track of the driver: PyTorch's allocator on the device may have made the request */
    uint64_t time_ns;
};

/* The log of operators (recording_operators.c). */
struct mp_operator_log {
    MP_VEC(struct mp_block_use) uses; /* taken and not yet written */
    struct mp_map last;               /* by block + 1: its last row in `uses`, + 1 */
    size_t first;                     /* the first row of the operator that is being taken */
    struct mp_operator_now {          /* by ring: the operator whose tensors come next */
        struct mp_block_use use;
        uint64_t begun_ns;
        uint8_t number;
    } now[MP_SPOOL_RINGS_MAX];
};

struct mp_recording {
    struct mp_spool_file spool;     /* owned; its header identifies the process */
    struct mp_record_config config; /* from the spool's configuration */
    struct mp_drain drain;
    struct mp_tables tables;
    struct mp_state state;      /* live blocks, the step, open regions */
    struct mp_symbols *symbols; /* NULL: not wanted */
    uint32_t pid;               /* from the kernel; the program could change the pid in the header */
    char root[64];              /* /proc/PID/root: the root of the process's paths, while it runs */
    bool shares_root;           /* at the last check, this root was memprof's own, too */

    mp_recording_name *name;
    void *name_context;
    struct mp_writer *writer; /* NULL until there is something to write */
    char *path;               /* the file's path, owned; NULL until there is a file */
    enum mp_status failed;    /* writing the file has failed; see failure */
    struct mp_error failure;

    MP_VEC(struct mp_event) pending;        /* events taken and not yet written */
    MP_VEC(uint64_t) pending_live;          /* live bytes per track before the first pending event */
    MP_VEC(struct mp_label) labels;         /* likewise */
    MP_VEC(struct mp_aside) asides;         /* texts for the file's end, one of each kind */
    MP_VEC(struct mp_block_holder) holders; /* likewise */
    struct mp_operator_log operators;
    struct mp_history history;
    uint32_t ends_early;      /* string id of the reason; 0: does not end early */
    uint32_t lacks_processes; /* likewise */
    MP_VEC(struct mp_snapshot_request) requests;
    MP_VEC(struct mp_event)
    unkept_steps; /* steps that began while the window was closed, not written yet */
    MP_VEC(struct mp_refusal)
    refusals; /* refusals by the driver for which it is not known yet whether PyTorch survives
               * them */
    unsigned ooms_looked_at;
    uint64_t last_oom_ns;        /* the last out-of-memory with a snapshot */
    bool oom_passed_over;        /* the latest out-of-memory got no snapshot */
    uint64_t oom_passed_over_ns; /* time of that out-of-memory */
    MP_VEC(struct mp_sample) samples;
    MP_VEC(uint32_t) notes; /* notes of the file, as string ids */
    uint64_t notes_read;
    struct mp_bound bound;
    uint64_t id; /* the spool's number when this recording began */
    uint64_t events, events_since_base, last_write_ns, first_sample_ns, last_sample_ns;
    uint64_t resident_bytes, shared_bytes; /* last sampled */
    /* For a worker: the most bytes of pages that it shared with its parent, and the most that it has copied of
     * these. */
    uint64_t last_private_ns, inherited_bytes, copied_bytes;
    struct mp_device_samples devices;
    char step_at[MP_STEP_AT_ROOM]; /* the function of --step-at, whose calls the recorder marks; "": none */
    struct mp_lives lives;         /* blocks that outlived a step */
    struct mp_usual_roles usual_roles;
    uint64_t steps_unseen;              /* steps that began before the file's first window */
    bool window_open;                   /* true: events go to the file; false: only the state is kept up to date */
    const struct mp_schedule *schedule; /* not owned; NULL: only the program opens and closes the window */
    struct mp_schedule_state schedule_state;
    struct mp_schedule_position position_before; /* position before the record that is being taken */
    unsigned schedule_mark;                      /* index of the spool's mark (of two) that was written last */
    bool ended;                                  /* the process has ended */
    int may_not_write;                           /* errno if the ended process itself had no right to make its files */
    bool under_rank;                             /* as in struct mp_recording_summary; the collector sets it at the
                                                  * end */
    struct mp_member group;                      /* the member in its process group; nothing known: it joined none */
    struct mp_exit how;                          /* how the process ended; when a file is read back: the end that it
                                                  * gives */
    char how_text[96];
};

#define MP_COPIED_MIN (UINT64_C(16) << 20) /* any fork copies some of its parent's pages */

/* A finished recording in one line. */
#define MP_STEP_FUNCTIONS_TEXT 512

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
    uint32_t leaks;               /* sites that keep growing, if that was checked (collect/session/collector_parts.h) */
    bool left_out;                /* the file was removed, since the child process allocated hardly any memory */
    uint64_t device, inode;       /* of the file */
    bool attached;                /* the program was already running (config.attached) */
    bool has_totals;              /* the file has totals of devices, and so unattributed memory */
    struct mp_ledger_track track; /* the track with the highest peak, and its id */
    bool behind_step;             /* the peak came after the end of its step */
    char track_id[MP_ID_TEXT];
    enum mp_status failed;
    struct mp_error failure;
};

/* If several functions have the name given to --step-at: writes which one counts; else "". */
void mp_recording_step_functions(const struct mp_recording *recording, char *text, size_t room);
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
 * writes the file when due. False if the file can no longer be written (recording->failure). */
bool mp_recording_round(struct mp_recording *recording, bool process_ended);

/* Call it when the process has ended: takes everything left in the spool. `how` has the end without text and time;
 * `text` is the end in words. */
void mp_recording_end(struct mp_recording *recording, struct mp_exit how, const char *text);
/* Call it after mp_recording_end(), on any thread: writes symbols, coverage and the end, and closes the file. May take
 * seconds. Unless summary->failed, the spool is not needed afterwards. */
void mp_recording_finish(struct mp_recording *recording, struct mp_recording_summary *summary);

/* Call it before mp_recording_finish() to save the time for symbols: native frames then stay without names. */
void mp_recording_forgo_symbols(struct mp_recording *recording);

/* Adds a sentence to the file's notes. */
void mp_recording_note(struct mp_recording *recording, const char *text);

/* Frees everything, on the thread that made the spool; an unfinished file stays as it is (cut). */
void mp_recording_free(struct mp_recording *recording, bool remove_spool);

/*
 * A running program's live blocks as a file: with stacks, and with ended blocks that outlived a step (mp_lives above),
 * as events between steps. Every command reads it; `memprof leaks` judges it by its rule for whole recordings.
 */

/* Writes to `fd`, an empty file, and closes it. The file has what the recording has taken so far. Symbols may take
 * seconds: call it in a child of the collector (collect/session/snapshots.h). */
enum mp_status mp_live_file_write(struct mp_recording *recording, int fd, struct mp_error *error);
