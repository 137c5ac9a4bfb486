/*
 * Creates every file that memprof writes for its user. A file appears whole under its name or not at all, and replaces
 * nothing that it may not replace. It is written in its final folder under an unguessable name, and moved at the end.
 * Pipes and devices are written in place. One thread at a time.
 */
#ifndef MP_FORMAT_NEW_FILE_H
#define MP_FORMAT_NEW_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum mp_new_file_way {
    MP_NEW_FILE_FRESH,  /* nothing may be there */
    MP_NEW_FILE_REPORT, /* replaces anything but recordings, programs' sources, and `inputs` */
    MP_NEW_FILE_FORCE,  /* replaces any regular file */
    MP_NEW_FILE_OWN,    /* replaces only the file known by device and inode, or nothing */
};

struct mp_new_file_rule {
    enum mp_new_file_way way;
    const char *const *inputs; /* files that the command reads, NULL-terminated; may be NULL */
    dev_t own_device;
    ino_t own_inode;
    bool at_once;  /* waits for no reader of a pipe, neither at opening nor later */
    bool nameless; /* without a name until the end where the file system allows that: a kill leaves nothing behind */
};

struct mp_new_file {
    int fd;        /* the caller's to close, before or after mp_new_file_put(); a nameless one after it */
    bool in_place; /* a pipe, a device, stdout: there is nothing to move */
    char *path;    /* the final path, with the user's links followed */
    char *name;    /* its path until then; NULL: it has none */
    bool replaces, force;
    dev_t device; /* the file that was there at opening: no other one is replaced */
    ino_t inode;
};

/* Opens the file for reading and writing (in place: for writing). Its mode is that of the file that it replaces, or
 * else follows the umask. On failure there is nothing to close. */
enum mp_status mp_new_file_open(const char *path, const struct mp_new_file_rule *rule, struct mp_new_file *file,
                                struct mp_error *error);
/* Moves the file to its name, in one step. A file that appeared there meanwhile stays, except with
 * MP_NEW_FILE_FORCE. */
enum mp_status mp_new_file_put(struct mp_new_file *file, struct mp_error *error);
/* Frees everything but fd; a file that was not put is removed. Ignores a zero-initialised one. */
void mp_new_file_close(struct mp_new_file *file);

/* Removes `path` if it is still the file (or socket) with this device and inode. */
void mp_new_file_remove(const char *path, dev_t device, ino_t inode);

#endif
