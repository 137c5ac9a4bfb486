/* The folder of a session's socket: only the user's, with an unguessable name. One thread at a time. */
#ifndef MP_COLLECT_SESSION_FOLDER_H
#define MP_COLLECT_SESSION_FOLDER_H

#include <stdbool.h>

#include "base/error.h"

#define MP_SESSION_FOLDER_ROOM 64
#define MP_SESSION_SOCKET      "socket" /* its name in the folder */

/* Makes one in $XDG_RUNTIME_DIR, else in /tmp, and removes others there that a killed memprof of this user left.
 * `locked`: a descriptor of the folder, to be kept open as long as it is in use; the caller closes it. */
enum mp_status mp_session_folder_make(char folder[MP_SESSION_FOLDER_ROOM], int *locked, struct mp_error *error);

/* True if a folder's name is one of those. */
bool mp_session_folder_is_name(const char *name);

#endif
