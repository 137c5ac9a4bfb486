/*
 * The recording of one process as data: what its parts share, and small questions about it. The parts take records
 * (recording_take.h), watch devices (recording_devices.h), write the file (recording_write.h) and keep it short
 * (recording_bound.h). One thread at a time.
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
#include "collect/recording/lives.h"
#include "collect/recording/program_name.h"
#include "collect/recording/schedule.h"
#include "collect/recording/spool_file.h"
#include "collect/recording/tables.h"
#include "collect/recording/usual_roles.h"
#include "collect/symbols/symbols.h"
#include "format/recording.h"
#include "format/writer.h"
#include "model/state/ledger.h"
#include "model/state/state.h"
#include "wire/config.h"

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

struct mp_bound_job;

struct mp_bound {
    uint64_t max_events;      /* 0: no bound */
    uint64_t file_events;     /* in the file */
    uint64_t fold_at;         /* the next fold begins at this many events */
    struct mp_bound_job *job; /* the fold under way */
};

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

/* The log of operators. */
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

#define MP_STEP_FUNCTIONS_TEXT 512 /* bytes of the sentence about the function of --step-at */

/* The file that a recording writes. */
struct mp_recording_file {
    mp_recording_name *name;
    void *name_context;
    struct mp_writer *writer; /* NULL until there is something to write */
    char *path;               /* the file's path, owned; NULL until there is a file */
    enum mp_status failed;    /* writing the file has failed; see failure */
    struct mp_error failure;
};

/* Snapshots that out-of-memory errors and the program asked for. */
struct mp_recording_ooms {
    MP_VEC(struct mp_snapshot_request) requests;
    MP_VEC(struct mp_refusal)
    refusals; /* refusals by the driver for which it is not known yet whether PyTorch survives
               * them */
    unsigned looked_at;
    uint64_t last_ns;        /* the last out-of-memory with a snapshot */
    bool passed_over;        /* the latest out-of-memory got no snapshot */
    uint64_t passed_over_ns; /* time of that out-of-memory */
};

/* The process's pages, as last sampled. */
struct mp_recording_pages {
    uint64_t resident_bytes, shared_bytes, own_shared_bytes;
    uint64_t next_mapped_ns, mapped_bytes, mapped_pages;
    struct mp_map shm_files; /* inodes + 1 that the process made in /dev/shm */
    uint32_t shm_read;       /* so many of those that the spool tells */
    uint64_t next_shm_ns, shm_bytes;
    /* For a worker: the most bytes of pages that it shared with its parent, and the most that it has copied of
     * these. */
    uint64_t last_private_ns, inherited_bytes, copied_bytes;
};

/* When events go to the file. */
struct mp_recording_window {
    MP_VEC(struct mp_event)
    unkept_steps;                       /* steps that began while the window was closed, not written yet */
    uint64_t steps_unseen;              /* steps that began before the file's first window */
    bool is_open;                       /* true: events go to the file; false: only the state is kept up to date */
    const struct mp_schedule *schedule; /* not owned; NULL: only the program opens and closes the window */
    struct mp_schedule_state state;
    struct mp_schedule_position position_before; /* position before the record that is being taken */
    unsigned mark;                               /* index of the spool's mark (of two) that was written last */
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

    struct mp_recording_file file;
    struct mp_recording_ooms ooms;
    struct mp_recording_window window;
    struct mp_recording_pages pages;

    MP_VEC(struct mp_event) pending;        /* events taken and not yet written */
    MP_VEC(uint64_t) pending_live;          /* live bytes per track before the first pending event */
    MP_VEC(struct mp_label) labels;         /* likewise */
    MP_VEC(struct mp_aside) asides;         /* texts for the file's end, one of each kind */
    MP_VEC(struct mp_block_holder) holders; /* likewise */
    struct mp_operator_log operators;
    struct mp_history history;
    uint32_t ends_early;      /* string id of the reason; 0: does not end early */
    uint32_t lacks_processes; /* likewise */
    MP_VEC(struct mp_sample) samples;
    MP_VEC(uint32_t) notes; /* notes of the file, as string ids */
    uint64_t notes_read;
    struct mp_bound bound;
    uint64_t id; /* the spool's number when this recording began */
    uint64_t events, events_since_base, last_write_ns, first_sample_ns, last_sample_ns;
    struct mp_device_samples devices;
    char step_at[MP_STEP_AT_ROOM]; /* the function of --step-at, whose calls the recorder marks; "": none */
    struct mp_lives lives;         /* blocks that outlived a step */
    struct mp_usual_roles usual_roles;
    bool ended;             /* the process has ended */
    int may_not_write;      /* errno if the ended process itself had no right to make its files */
    bool under_rank;        /* as in struct mp_recording_summary; the collector sets it at the
                             * end */
    struct mp_member group; /* the member in its process group; nothing known: it joined none */
    struct mp_exit how;     /* how the process ended; when a file is read back: the end that it
                             * gives */
    char how_text[96];
};

/* Converts a time of CLOCK_MONOTONIC to a time of the recording. */
uint64_t mp_recording_time(const struct mp_recording *recording, uint64_t monotonic_ns);
/* Keeps the first failure. True if `status` is MP_OK. */
bool mp_recording_check(struct mp_recording *recording, enum mp_status status, const struct mp_error *error);
/* Adds a sentence to the file's notes. */
void mp_recording_note(struct mp_recording *recording, const char *text);
/* The number by which readers know a step (mp_step_of()). If the ends of an optimizer's steps mark steps, the step that
 * still runs counts as part of the step before. */
uint64_t mp_recording_public_step(const struct mp_recording *recording, uint64_t step);
uint64_t mp_recording_dropped(const struct mp_spool_header *spool);
/* The dropped events for which a ring had no room. */
uint64_t mp_recording_ring_full(const struct mp_spool_header *spool);
/* True if some events lack their stack, or a name in it. */
bool mp_recording_lacks_names(const struct mp_spool_header *spool);
