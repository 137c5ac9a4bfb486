/* Finds the recordings of a job: the files and folders that operands name, without recordings that others already
 * contain. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "cli/command.h"
#include "cli/invocation.h"
#include "jobs/join.h"

bool mp_job_is_folder(const char *path);

struct mp_job_path {
    char *path;
    const char *left_out; /* why the path does not count ("": without a message); NULL: it counts */
    bool is_job;
};

struct mp_job_paths {
    struct mp_job_path *at;
    size_t count, room;
};

/* Finds the recordings that the operands name. The recordings of a folder are in order of their names. Some files are
 * left out: a second mention of a file; a folder's jobs if the folder has recordings, too; a snapshot of a running
 * process if the operands also name a later recording of that process. Free with mp_job_paths_free(). Returns an exit
 * status, after a message if it is not 0. */
int mp_job_paths_find(char *const *operands, size_t count, struct mp_job_paths *paths);
void mp_job_paths_free(struct mp_job_paths *paths);
/* Adds the recordings first, first + of, first + 2 of, ... to the job, with one in memory at a time. A recording that
 * is left out or cannot be read becomes a problem that the job reports. */
void mp_job_add_paths(const struct mp_invocation *invocation, const struct mp_job_paths *paths, size_t first, size_t of,
                      struct mp_job *job);

/* The paths as bytes for another process, and back; false if the bytes are no paths. */
void mp_job_paths_pack(const struct mp_job_paths *paths, struct mp_buffer *out);
bool mp_job_paths_unpack(const char *bytes, size_t size, struct mp_job_paths *paths);
