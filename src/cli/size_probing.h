/* Running a command at several values to see what memory it takes: `memprof size --probe`. Main thread. */
#ifndef MP_CLI_SIZE_PROBING_H
#define MP_CLI_SIZE_PROBING_H

#include <signal.h>
#include <stdbool.h>

#include "analysis/sizing/size_solve.h"
#include "cli/options.h"

struct mp_probing {
    char *folder; /* holds recordings and what the commands printed; NULL: nothing was run */
    bool caught;  /* signals that end the program wait until the folder is removed */
    bool ignores; /* SIGINT and SIGQUIT, which did this before */
    struct sigaction interrupt, quit;
};

/* Records the command of the invocation's operands once for each point, one after the other, with {batch} (and, with
 * two variables, {length}) replaced. The recording of point I is paths[I], freed by the caller. Returns an exit
 * status; a message says which run failed, how, and what it printed last. */
int mp_probing_run(const struct mp_invocation *invocation, const struct mp_size_point *points, size_t count, bool two,
                   struct mp_probing *probing, char **paths);
/* The parts of it. Signals are caught and the folder is made; an exit status. */
int mp_probing_begin(struct mp_probing *probing);
/* Runs memprof with these words (NULL-terminated; NULL: memory was short), its output in `log`: a wait status, or -1
 * after a message. */
int mp_probing_run_words(char **words, const char *log);
void mp_probing_free_words(char **words);
/* The user ended the run, or this process is asked to end. */
bool mp_probing_is_interrupted(int status);
/* A line on the terminal that the next one replaces; NULL takes it away. */
void mp_probing_show(const struct mp_invocation *invocation, const char *text);
/* The last lines that a command printed to this file, as messages. */
void mp_probing_print_tail(const char *log);
/* Removes the folder. Where a signal has asked to end, that happens here. */
void mp_probing_end(struct mp_probing *probing);
/* Removes the folder that was made and not removed, if there is one: for who ends at once. */
void mp_probing_take_back(void);

#endif
