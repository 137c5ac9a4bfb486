/*
 * The step of a block if several threads make steps at the same time, as in a server: the step of the thread that
 * allocates it. By the time alone it would be the step that began last, on whichever thread. A request whose thread
 * waits for a processor would get its blocks in the step of another request, and keep its temporary ones over many
 * steps. Pure.
 *
 * Some blocks belong to the step that began last on any thread:
 *   - blocks of threads that begin no steps, or few and long ones compared with other threads
 *   - all blocks of a program that makes one step at a time
 *   - blocks in a thread's last step that come after as many events as its longest other step has
 *
 * For instance threads a and b begin the steps a1 b2 b3 a4, and a allocates once more after b3 began: that block is
 * born in step 1, which ends there.
 */
#ifndef MP_MODEL_OWN_STEPS_H
#define MP_MODEL_OWN_STEPS_H

#include "base/vec.h"
#include "model/spans.h"

/* A thread that begins steps. */
struct mp_own_thread {
    uint32_t turns;        /* its steps; 0: none is its own */
    uint32_t step;         /* its current one, or MP_NONE */
    uint32_t events, most; /* since that began, and in the step that had most */
};

struct mp_own_steps {
    const struct mp_model *model;
    const struct mp_step *steps;
    uint32_t count;
    uint32_t step;         /* that began last */
    MP_VEC(uint32_t) ends; /* by step: after the last event of its work; empty where threads do not make steps each */
    MP_VEC(struct mp_own_thread) threads;
};

/* Steps are by index from `first` on, `count` of them. They must outlive it, as must the model. */
void mp_own_steps_open(const struct mp_model *model, const struct mp_steps *steps, uint32_t first, uint32_t count,
                       struct mp_own_steps *own);
/* The step in which an event after the first step's beginning happens, and in `*end` the event before which that ends.
 * Events must come in order. */
uint32_t mp_own_step_of(struct mp_own_steps *own, uint32_t event, uint32_t *end);
/* True if blocks may come in another order than their steps. */
bool mp_own_steps_overlap(const struct mp_own_steps *own);
void mp_own_steps_close(struct mp_own_steps *own);

#endif
