/* A line on the terminal while a file is read that takes longer than a second. One at a time; main thread. */
#ifndef MP_CLI_PROGRESS_H
#define MP_CLI_PROGRESS_H

#include "cli/options.h"

/* Starts watching how far this process has read `path`. Nothing is shown where stderr is no terminal, or with
 * --progress never. */
void mp_progress_start(const struct mp_invocation *invocation, const char *path);
/* False, after a message, where --progress was given a word that it does not know. */
bool mp_progress_valid(const struct mp_invocation *invocation);
/* Takes the line away. Before anything else is written to stderr. */
void mp_progress_end(void);

#endif
