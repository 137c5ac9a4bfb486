/* A file that will take the place of another one of its folder: without a name until then where the file system can do
 * that, so that a kill leaves nothing behind. One thread at a time. */
#ifndef MP_COLLECT_REPLACEMENT_H
#define MP_COLLECT_REPLACEMENT_H

#include "base/error.h"

struct mp_replacement {
    char *path; /* of the file that will go */
    char *name; /* of the new one; NULL: it has none yet */
};

/* Opens an empty file beside `path`, with the permissions of the open file `like`; *fd is the caller's. */
enum mp_status mp_replacement_open(const char *path, int like, struct mp_replacement *replacement, int *fd,
                                   struct mp_error *error);
/* Puts it there, in one step. `fd` is still open. */
enum mp_status mp_replacement_put(struct mp_replacement *replacement, int fd, struct mp_error *error);
/* Frees all; what was not put is gone. */
void mp_replacement_close(struct mp_replacement *replacement);

#endif
