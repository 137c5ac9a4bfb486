/*
 * With --holders: judges now and then by the rule for leaks (analysis/leaks/leaks.h) what a program that runs has kept
 * so far, and says when it accuses a place that it had not accused before. A forked child judges, so nobody waits. One
 * thread at a time.
 */
#ifndef MP_COLLECT_SUSPICION_H
#define MP_COLLECT_SUSPICION_H

#include "collect/recording/recording.h"

#define MP_SUSPECTS 64

struct mp_suspicion {
    uint32_t next_step;                 /* at which it is judged again */
    pid_t child;                        /* that judges now; 0: none */
    struct mp_suspects *shared;         /* with the child */
    uint32_t known[MP_SUSPECTS], count; /* stacks accused so far */
};

/* True: a new place is accused. */
bool mp_suspicion_round(struct mp_suspicion *suspicion, struct mp_recording *recording);
void mp_suspicion_free(struct mp_suspicion *suspicion);

#endif
