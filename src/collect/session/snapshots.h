/*
 * Snapshots of now: a complete file of a recording that goes on. A forked child of the collector writes it from what
 * the collector knows at that moment, so that neither the program nor the collector waits. One thread at a time.
 */
#ifndef MP_COLLECT_SNAPSHOTS_H
#define MP_COLLECT_SNAPSHOTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/vec.h"
#include "collect/recording/recording.h"
#include "format/new_file.h"

/* How a snapshot ended. */
struct mp_snapshot_outcome {
    const char *path; /* NULL: none could be named */
    bool at_oom;
    uint64_t oom_ns;
    enum mp_status status;
    struct mp_error error;
    uint64_t events, file_bytes;
};

/* Callbacks of the caller. `written` runs in the child when the file is whole: a second process, where memory and
 * time are nobody's but its own. `ended` runs in the collector. */
struct mp_snapshot_calls {
    void *context;
    void (*written)(void *context, const struct mp_snapshot_outcome *outcome);
    void (*ended)(void *context, const struct mp_snapshot_outcome *outcome);
};

struct mp_snapshot_job {
    pid_t child;
    char *path;                         /* owned; NULL: the file is another one's */
    struct mp_new_file file;            /* with a path; the child puts it there */
    struct mp_snapshot_outcome *shared; /* with the child */
    uint64_t recording;                 /* its id */
    uint32_t number;                    /* the program's question that this answers; 0: nobody's */
    int connection;                     /* of somebody who waits (collect/session/control.h); -1 */
    uint32_t pid;                       /* of the recorded process */
    bool live; /* only what is live (collect/recording/live_file.h), not all of the recording */
};

struct mp_snapshots {
    const struct mp_snapshot_calls *calls;
    bool force;  /* an existing file may be replaced */
    bool at_oom; /* else those wishes are not granted */
    MP_VEC(struct mp_snapshot_job) jobs;
};

/* Begins what was wished of this recording. */
void mp_snapshots_serve(struct mp_snapshots *snapshots, struct mp_recording *recording);
/* Begins one into `fd`, an empty file, for whoever waits at `connection`: he is answered, and the connection closed,
 * when the file is whole. Takes over both, also on failure, where the caller answers. `live`: only what is live. */
enum mp_status mp_snapshots_start_for(struct mp_snapshots *snapshots, struct mp_recording *recording, bool live, int fd,
                                      int connection, struct mp_error *error);

/* A snapshot that has ended, with `wait` the next one that ends: calls `told` and returns which recording's it was and
 * the program's question; false: none. The program is to be answered by mp_snapshots_answer. */
bool mp_snapshots_reap(struct mp_snapshots *snapshots, bool wait, uint64_t *recording, uint32_t *number, bool *written);
void mp_snapshots_answer(struct mp_recording *recording, uint32_t number, bool written);
void mp_snapshots_free(struct mp_snapshots *snapshots);

#endif
