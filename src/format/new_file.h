/*
 * How every file comes to be that memprof writes for its user: it appears whole under its name or not at all, and takes
 * the place of nothing that it may not. It is written under a name that nobody can guess, in the folder where it will
 * be, and moved at the end. Pipes and devices are written in place. One thread at a time.
 */
#ifndef MP_FORMAT_NEW_FILE_H
#define MP_FORMAT_NEW_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum mp_new_file_way {
    MP_NEW_FILE_FRESH,  /* nothing may be there */
    MP_NEW_FILE_REPORT, /* takes the place of what was there, but for recordings, programs' sources, and `inputs` */
    MP_NEW_FILE_FORCE,  /* takes the place of any regular file */
    MP_NEW_FILE_OWN,    /* takes the place of the very file that is known by device and inode, or of nothing */
};

struct mp_new_file_rule {
    enum mp_new_file_way way;
    const char *const *inputs; /* what the command reads, NULL-terminated; may be NULL */
    dev_t own_device;
    ino_t own_inode;
    bool nameless; /* without a name until the end where the file system can do that: a kill leaves nothing behind */
};

struct mp_new_file {
    int fd;        /* the caller's to close, before or after mp_new_file_put(); a nameless one after it */
    bool in_place; /* a pipe, a device, stdout: there is nothing to move */
    char *path;    /* where it will be: links of the user's are followed */
    char *name;    /* where it is until then; NULL: nowhere */
    bool replaces, force;
    dev_t device; /* what was there when it was opened: nothing else is replaced */
    ino_t inode;
};

/* Opens it for reading and writing (in place: for writing). Its mode is that of the file that it replaces, else what
 * the umask leaves. On failure there is nothing to close. */
enum mp_status mp_new_file_open(const char *path, const struct mp_new_file_rule *rule, struct mp_new_file *file,
                                struct mp_error *error);
/* Moves it to its name, in one step. What came to be there meanwhile stays, but for MP_NEW_FILE_FORCE. */
enum mp_status mp_new_file_put(struct mp_new_file *file, struct mp_error *error);
/* Frees all but fd; what was not put is gone. Zero-initialised is ignored. */
void mp_new_file_close(struct mp_new_file *file);

/* Removes `path` if it is still the very file (or socket) that has this device and inode. */
void mp_new_file_remove(const char *path, dev_t device, ino_t inode);

#endif
