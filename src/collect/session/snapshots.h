/*
 * Snapshots of the present state: a complete file of a recording that goes on. A forked child of the collector writes
 * it from the collector's state at that moment, so that neither the program nor the collector waits. One thread at a
 * time.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/vec.h"
#include "collect/recording/recording.h"
#include "format/new_file.h"

/* How a snapshot ended. */
struct mp_snapshot_outcome {
    const char *path; /* NULL: all names were taken */
    bool at_oom;
    uint64_t oom_ns;
    enum mp_status status;
    struct mp_error error;
    uint64_t events, file_bytes;
};

/* Callbacks of the caller. `written` runs in the child when the file is complete, so its memory and time cost nobody
 * else. `ended` runs in the collector. */
struct mp_snapshot_calls {
    void *context;
    void (*written)(void *context, const struct mp_snapshot_outcome *outcome);
    void (*ended)(void *context, const struct mp_snapshot_outcome *outcome);
};

enum mp_snapshot_of {
    MP_SNAPSHOT_OF_ALL,  /* the recording so far */
    MP_SNAPSHOT_OF_LIVE, /* the live blocks (collect/recording/recording.h) */
    MP_SNAPSHOT_OF_BARE, /* the live blocks without names of native frames, for clients that ask repeatedly while the
                          * program works
                          */
};

struct mp_snapshot_job {
    pid_t child;
    char *path;                         /* owned; NULL: the file belongs to another process */
    struct mp_new_file file;            /* next to the recording; the child moves it there */
    struct mp_snapshot_outcome *shared; /* with the child */
    uint64_t recording;                 /* its id */
    uint32_t number;                    /* the program's question that this answers; 0: none */
    int connection;                     /* connection of a waiting process (collect/session/control.h); -1 */
    uint32_t pid;                       /* the recorded process */
    enum mp_snapshot_of of;
};

struct mp_snapshots {
    const struct mp_snapshot_calls *calls;
    bool at_oom; /* if false, requests at an out-of-memory are refused */
    MP_VEC(struct mp_snapshot_job) jobs;
};

/* Begins the requested snapshots of this recording. */
void mp_snapshots_serve(struct mp_snapshots *snapshots, struct mp_recording *recording);
/* Begins a snapshot into `fd`, an empty file, for the process that waits at `connection`. When the file is complete,
 * the process gets an answer, and the connection is closed. Takes over both, even if it fails; after a failure, the
 * caller answers. */
enum mp_status mp_snapshots_start_for(struct mp_snapshots *snapshots, struct mp_recording *recording,
                                      enum mp_snapshot_of of, int fd, int connection, struct mp_error *error);

/* Takes a snapshot that has ended; `wait` waits for the next one. Calls `ended` and returns its recording and the
 * program's question; false: none. The caller must then call mp_snapshots_answer(). */
bool mp_snapshots_reap(struct mp_snapshots *snapshots, bool wait, uint64_t *recording, uint32_t *number, bool *written);
void mp_snapshots_answer(struct mp_recording *recording, uint32_t number, bool written);
void mp_snapshots_free(struct mp_snapshots *snapshots);
