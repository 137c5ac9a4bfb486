/*
 * The file that memprof_snapshot(path) asks for. The program itself makes it, with its own rights, root and working
 * folder; the collector only writes to the descriptor. memprof thus makes no file that the program could not make.
 *
 * Runs in the program, on the thread that called memprof_snapshot(). The caller saves errno. Allocates nothing.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

struct mp_asked_file {
    int fd;              /* -1: the file could not be made */
    int reason;          /* errno of that failure, else 0 */
    char part[PATH_MAX]; /* the file's temporary path until it is whole */
};

/* Makes an empty file next to `path`. Fails if `path` exists, unless `force` is set. */
void mp_asked_file_make(struct mp_asked_file *file, const char *path, unsigned number, bool force);
/* Moves the file to `path` if it is `whole`, else removes it. False: there is no file at `path`. */
bool mp_asked_file_end(const struct mp_asked_file *file, const char *path, bool whole, bool force);
