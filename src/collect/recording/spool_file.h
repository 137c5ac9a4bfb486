/*
 * The collector's side of a spool: makes a spool, gives it space, and opens one that a killed collector left.
 *
 * fallocate() provides all space before the recorder may touch it. A hole on a full file system would raise SIGBUS in
 * the user's program. One thread at a time. The thread that creates a spool must live as long as the collector: it
 * holds the robust futex by which the recorder sees that a collector reads.
 */
#pragma once

#include <linux/futex.h>

#include "base/error.h"
#include "wire/spool.h"

struct mp_spool_file {
    int fd;                         /* -1 if not open */
    char *path;                     /* "" for a memfd */
    struct mp_spool_header *header; /* base of the mapping */
    uint64_t bytes;
    struct robust_list *held; /* in a page before the mapping, for a spool that we made; else NULL */
};

/* Creates a spool in the first folder that can hold it: $XDG_RUNTIME_DIR, /dev/shm, `output_folder` on a local file
 * system; else in memory without a name. `header` gives pid, times and texts. */
enum mp_status mp_spool_file_create(const struct mp_spool_header *header, const char *output_folder,
                                    struct mp_spool_file *spool, struct mp_error *error);
/* Commits more space to each part of which less than half is left. Returns true if anything was added. */
bool mp_spool_file_grow(struct mp_spool_file *spool);
/* Changes the futex word on which a waiting recorder sleeps. */
void mp_spool_file_wake(struct mp_spool_file *spool);

/* Opens a spool that a killed collector left. The file's name may come from another user's recording. So the file is
 * only read, and changes go to a private mapping. The file stays until mp_spool_file_close() removes it. */
enum mp_status mp_spool_file_open(const char *path, struct mp_spool_file *spool, struct mp_error *error);
/* Searches the folders of mp_spool_file_create() for a spool whose output file was `output` (absolute). Returns its
 * path, which the caller frees, or NULL. */
char *mp_spool_file_find(const char *output, const char *output_folder);

/* Unmaps and closes, on the thread that created the spool; `remove` also deletes the file. */
void mp_spool_file_close(struct mp_spool_file *spool, bool remove);
