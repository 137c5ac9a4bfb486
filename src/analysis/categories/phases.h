/*
 * Phases of a training program, from the stacks of its allocations: each stack's phase, and the turns of phases over
 * time. Pure; the result is the caller's.
 */
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "model/model.h"

enum mp_phase {
    MP_PHASE_OUTSIDE,   /* stacks that show no other phase */
    MP_PHASE_FORWARD,   /* a module is being called */
    MP_PHASE_RECOMPUTE, /* a module is called within backward: checkpointing */
    MP_PHASE_BACKWARD,
    MP_PHASE_OPTIMIZER,
    MP_PHASE_BOUNDARY, /* only for a turn: a step begins here, or an optimizer's step ends */
    MP_PHASES
};

struct mp_phase_turn {
    uint32_t first;    /* its first event */
    uint32_t backward; /* the index of the first turn of backward after this one; MP_NONE: none */
    uint32_t round;    /* number of backward passes so far; in a program without backward, the number of forward passes
                        * that follow code outside */
    uint8_t phase;
};

struct mp_phases {
    uint8_t *of_stack;   /* enum mp_phase, by stack */
    uint8_t unknown;     /* phase of a block without a stack */
    unsigned char *flow; /* mp_flow_find() */
    MP_VEC(struct mp_phase_turn) turns;
    unsigned char *works; /* by thread: the thread allocates in a phase; other threads take no turns */
    bool any;             /* some stack has a phase */
    bool forward;         /* some turn is forward */
    uint32_t last_alloc;  /* last allocation in a turn; MP_NONE: none. A block freed later lived to the end */
};

bool mp_phase_is_backward(unsigned phase);
void mp_phases_find(const struct mp_model *model, struct mp_phases *phases);
enum mp_phase mp_phase_of_block(const struct mp_phases *phases, const struct mp_model *model, uint32_t block);
/* Also for operators that allocate nothing. */
enum mp_phase mp_phase_of_use(const struct mp_phases *phases, const struct mp_model *model,
                              const struct mp_model_use *use);
/* The string id of the first node of backward that reads a block which backward did not make; 0: none. */
uint32_t mp_phase_saved_for(const struct mp_phases *phases, const struct mp_model *model, uint32_t block);
/* "forward", "recompute", "backward", "optimizer"; NULL: none of these. */
const char *mp_phase_name(unsigned phase);
/* The index of the turn that an event belongs to; MP_NONE before the first. */
uint32_t mp_phase_turn_of(const struct mp_phases *phases, uint32_t event);
/* The first event after the backward pass that runs at an event, or else after the next one; MP_NONE: none ends. */
uint32_t mp_phase_backward_end(const struct mp_phases *phases, uint32_t event);
void mp_phases_free(struct mp_phases *phases);
