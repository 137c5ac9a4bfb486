/* The folder of a session's socket: only for the user, with an unguessable name. One thread at a time. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

#define MP_SESSION_FOLDER_ROOM 64
#define MP_SESSION_SOCKET      "socket" /* the socket's name in the folder */

/* Makes a folder in $XDG_RUNTIME_DIR, else in /tmp. Removes folders there that killed memprofs of this user left.
 * `locked`: a descriptor of the folder. The caller keeps it open while the folder is in use, then closes it. */
enum mp_status mp_session_folder_make(char folder[MP_SESSION_FOLDER_ROOM], int *locked, struct mp_error *error);

/* True if a folder has such a name. */
bool mp_session_folder_is_name(const char *name);
