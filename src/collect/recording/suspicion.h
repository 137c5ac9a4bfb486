/*
 * With --holders: sometimes judges a running program's blocks by the leak rule (analysis/leaks/leaks.h), and reports
 * newly suspected sites. A forked child judges, so nobody waits. One thread at a time.
 */
#pragma once

#include "collect/recording/recording.h"

#define MP_SUSPECTS 64

struct mp_suspicion {
    uint32_t next_step;                 /* step at which the next judgement is due */
    pid_t child;                        /* the child that judges now; 0: none */
    struct mp_suspects *shared;         /* with the child */
    uint32_t known[MP_SUSPECTS], count; /* stacks suspected so far */
};

/* True: a new site is suspected. */
bool mp_suspicion_round(struct mp_suspicion *suspicion, struct mp_recording *recording);
void mp_suspicion_free(struct mp_suspicion *suspicion);
