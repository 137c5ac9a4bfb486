/*
 * Asks the collectors of this user's sessions for the figures of all processes and for the live blocks of one, and
 * keeps the answers. mp_top_gather_round() and mp_top_gather_look() ask once. After mp_top_gather_start() two threads
 * ask again and again, so that drawing never waits. The answers are read under a lock.
 */
#pragma once

#include "cli/top/top_blocks.h"
#include "cli/top/top_data.h"

struct mp_top_gather;

/* `socket` is the only session to ask; NULL: all sessions. */
struct mp_top_gather *mp_top_gather_new(const char *socket, uint64_t interval_ns);
/* All states must have been released. After mp_top_gather_start() nothing is freed, as the threads run until the
 * process ends. */
void mp_top_gather_free(struct mp_top_gather *gather);

/* The answers at one moment. The blocks stay valid until the state is released. */
struct mp_top_state {
    struct mp_top_processes processes;
    struct mp_top_blocks *blocks; /* NULL: none yet */
    uint64_t blocks_of;           /* the recording */
    char why[240];                /* why the chosen process has no blocks; "": no error */
};

/* Asks for the figures of all processes, and waits for them at most a second. */
void mp_top_gather_round(struct mp_top_gather *gather);
/* Asks for the live blocks of a process, which becomes the chosen one, and waits. With `only_judge`, it only finds out
 * whether the process leaks.
 */
void mp_top_gather_look(struct mp_top_gather *gather, uint64_t recording, bool only_judge);
/* The next process that has enough steps for the leak rule and was not judged; 0: none. */
uint64_t mp_top_gather_unjudged(struct mp_top_gather *gather);

/* Starts the two threads that ask. False, with errno, if that fails. */
bool mp_top_gather_start(struct mp_top_gather *gather);
/* Chooses the process whose blocks are followed; the thread asks for them at once. */
void mp_top_gather_choose(struct mp_top_gather *gather, uint64_t recording);
/* The number of the present state. It changes whenever the state does. */
uint64_t mp_top_gather_number(struct mp_top_gather *gather);
void mp_top_gather_take(struct mp_top_gather *gather, struct mp_top_state *state);
void mp_top_gather_give_back(struct mp_top_gather *gather, struct mp_top_state *state);
