/*
 * Creates every file that memprof writes for its user. A file appears whole under its name or not at all. It never
 * replaces a file that the rule (struct mp_new_file_rule) protects. It is written in its final folder under an
 * unguessable name, and renamed at the end. Pipes and devices are written in place. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum mp_new_file_way {
    MP_NEW_FILE_FRESH,  /* refuses to replace anything */
    MP_NEW_FILE_REPORT, /* replaces anything but recordings, source files, and `inputs` */
    MP_NEW_FILE_FORCE,  /* replaces any regular file */
    MP_NEW_FILE_CHOSEN, /* the same at a name that memprof chose: whatever lies there may be a trap, so it follows no
                         * link and writes to no pipe */
    MP_NEW_FILE_OWN,    /* replaces only the file with own_device and own_inode, or nothing */
};

struct mp_new_file_rule {
    enum mp_new_file_way way;
    const char *const *inputs; /* files that the command reads, NULL-terminated; may be NULL */
    dev_t own_device;
    ino_t own_inode;
    bool at_once;  /* never waits for a pipe's reader */
    bool nameless; /* without a name until the end, if the file system allows it: a kill leaves nothing behind */
};

struct mp_new_file {
    int fd;        /* the caller closes it, before or after mp_new_file_put(); for a nameless file, only after */
    bool in_place; /* a pipe, a device or stdout: nothing to rename */
    char *path;    /* the final path, with the user's links followed */
    char *name;    /* the temporary path; NULL: it has none */
    bool replaces, force;
    dev_t device; /* the file that existed when this one was opened: mp_new_file_put() replaces no other file */
    ino_t inode;
};

/* Opens the file for reading and writing (in place: for writing). It gets the mode of the file that it replaces; a new
 * file follows the umask. After a failure, there is nothing to close. */
enum mp_status mp_new_file_open(const char *path, const struct mp_new_file_rule *rule, struct mp_new_file *file,
                                struct mp_error *error);
/* Renames the file to its final name in one step. A file that appeared there meanwhile stays, except with
 * MP_NEW_FILE_FORCE and MP_NEW_FILE_CHOSEN. */
enum mp_status mp_new_file_put(struct mp_new_file *file, struct mp_error *error);
/* Frees everything but fd. Removes a file that was not put. Ignores a zero-initialised struct. */
void mp_new_file_close(struct mp_new_file *file);

/* Renames a file if no file has the new name yet; errno says why not. */
bool mp_new_file_move(const char *from, const char *to);
/* Removes `path` if it is still the file (or socket) with this device and inode. */
void mp_new_file_remove(const char *path, dev_t device, ino_t inode);
