/*
 * The file that memprof_snapshot(path) asks for. The program makes it, with its own rights, root and working folder;
 * the collector only writes to the descriptor. Thus memprof can make no file that the program could not make.
 *
 * In the program, on the thread that asks, with errno kept by the caller. Allocates nothing.
 */
#ifndef MP_CAPTURE_ASKED_FILE_H
#define MP_CAPTURE_ASKED_FILE_H

#include <limits.h>
#include <stdbool.h>

struct mp_asked_file {
    int fd;              /* -1: it could not be made */
    int reason;          /* errno of that; else 0 */
    char part[PATH_MAX]; /* its name until it is whole */
};

/* Makes an empty file next to `path`. Unless `force`, nothing may be there yet. */
void mp_asked_file_make(struct mp_asked_file *file, const char *path, unsigned number, bool force);
/* Moves the file to `path` where it is `whole`, else removes it. False: there is no file at `path`. */
bool mp_asked_file_end(const struct mp_asked_file *file, const char *path, bool whole, bool force);

#endif
