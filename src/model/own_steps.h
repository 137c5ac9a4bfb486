/*
 * The step of a block if several threads make steps at the same time, as in a server. It is the step of the thread that
 * allocates the block. By time alone, it would be the step that began last on any thread. If a request's thread waited
 * for a processor, its blocks would then get the step of another request. Its temporary blocks would seem to live over
 * many steps. Pure.
 *
 * Some blocks belong to the step that began last on any thread:
 *   - blocks of threads that begin no steps, or few and long ones compared with other threads
 *   - all blocks of a program that makes one step at a time
 *   - blocks in a thread's last step that come after as many events as its longest other step has
 *
 * For instance, threads a and b begin the steps a1 b2 b3 a4, and a allocates once more after b3 began: that block is
 * born in step 1, which ends there.
 */
#pragma once

#include "base/vec.h"
#include "model/spans.h"

/* A thread that begins steps. */
struct mp_own_thread {
    uint32_t turns;        /* steps that it began; 0: it gets no steps of its own */
    uint32_t step;         /* its current step, or MP_NONE */
    uint32_t events, most; /* number of its events since that step began, and in its step with the most events */
};

struct mp_own_steps {
    const struct mp_model *model;
    const struct mp_step *steps;
    uint32_t count;
    uint32_t step; /* the step that began last on any thread */
    MP_VEC(uint32_t)
    ends; /* by step: event at which its thread's work ends; empty if threads have no steps of their
           * own */
    MP_VEC(struct mp_own_thread) threads;
};

/* Opens `own` for `count` of the steps, from index `first` on. `model` and `steps` must outlive `own`. */
void mp_own_steps_open(const struct mp_model *model, const struct mp_steps *steps, uint32_t first, uint32_t count,
                       struct mp_own_steps *own);
/* The step to which an event belongs, as an index. *end: the event before which that step ends. The event must come
 * after the first step's beginning. Events must come in order. */
uint32_t mp_own_step_of(struct mp_own_steps *own, uint32_t event, uint32_t *end);
/* True if steps overlap, so that a later block may belong to an earlier step. */
bool mp_own_steps_overlap(const struct mp_own_steps *own);
void mp_own_steps_close(struct mp_own_steps *own);
