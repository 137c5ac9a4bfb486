/* Which recordings a job is of: what operands and folders name, and what of that counts by another file. */
#ifndef MP_CLI_JOB_PATHS_H
#define MP_CLI_JOB_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "analysis/job/job.h"
#include "base/buffer.h"
#include "cli/command.h"

bool mp_job_is_file(const char *path);
bool mp_job_is_folder(const char *path);

struct mp_job_path {
    char *path;
    const char *left_out; /* why it does not count ("": there is nothing to say of it); NULL: it does */
    bool is_job;
};

struct mp_job_paths {
    struct mp_job_path *at;
    size_t count, room;
};

/* The recordings that the operands name, those of folders in order of their names. Some are left out: a second mention
 * of a file; a folder's jobs if the folder has recordings, too. A snapshot of a running process (of now, or when memory
 * ran out) is left out if a later recording of that process is among them. Freed by mp_job_paths_free(). Returns an
 * exit status, after a message where it is not 0. */
int mp_job_paths_find(char *const *operands, size_t count, struct mp_job_paths *paths);
void mp_job_paths_free(struct mp_job_paths *paths);
/* Adds each `of`-th of them from `first` on, one in memory at a time. A recording that cannot be read, or is left out,
 * is a trouble of the job. */
void mp_job_add_paths(const struct mp_invocation *invocation, const struct mp_job_paths *paths, size_t first, size_t of,
                      struct mp_job *job);

/* The paths as bytes, for another process; false where they are none. */
void mp_job_paths_pack(const struct mp_job_paths *paths, struct mp_buffer *out);
bool mp_job_paths_unpack(const char *bytes, size_t size, struct mp_job_paths *paths);

#endif
