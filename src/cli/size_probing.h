/* Runs a command at several values to measure its memory: `memprof size --probe`. Main thread. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/invocation.h"

struct mp_probing {
    char *folder; /* folder with the recordings and the commands' output; NULL: nothing was run */
    bool caught;  /* a signal that ends the program waits until the folder is removed */
    bool ignores; /* former handling of SIGINT and SIGQUIT */
    struct sigaction interrupt, quit;
};

/* Records the command of the invocation's operands once for each batch, one after the other, with {batch} replaced.
 * paths[I] is the recording of batch I, freed by the caller. Later calls add runs. Returns an exit status; a message
 * says which run failed, how, and shows the end of its output. */
int mp_probing_run(const struct mp_invocation *invocation, const uint64_t *batches, size_t count,
                   struct mp_probing *probing, char **paths);
/* Parts of mp_probing_run(). This function catches signals and makes the folder; returns an exit status. */
int mp_probing_begin(struct mp_probing *probing);
/* Runs memprof with these words (NULL-terminated) and its output in `log`, and frees the words. While it runs, the
 * terminal shows `shown`. Returns a wait status, or -1 after a message. */
int mp_probing_run_words(const struct mp_invocation *invocation, const char *shown, char **words, const char *log);
/* True if the user ended the run, or a signal asks this process to end. */
bool mp_probing_is_interrupted(int status);
/* Prints the last lines of a command's output in this file, as messages. */
void mp_probing_print_tail(const char *log);
/* Removes the folder. If a signal has asked this process to end, it ends here. */
void mp_probing_end(struct mp_probing *probing);
/* Removes the folder, if it still exists. For code that ends the process at once. */
void mp_probing_take_back(void);
