/*
 * Autograd's operators, by the native frames of stacks: which one made a block, and when it gives autograd what it
 * saves for backward. Pure; the result is the caller's.
 */
#ifndef MP_ANALYSIS_OPERATORS_H
#define MP_ANALYSIS_OPERATORS_H

#include "model/model.h"

enum mp_operator_saves {
    MP_SAVES_UNKNOWN, /* no operator that is known, or that has a formula of its own */
    MP_SAVES_NOTHING, /* no tensor: shapes alone */
    MP_SAVES_INPUTS,  /* before it makes anything */
    MP_SAVES_RESULTS  /* these too, behind all that it makes */
};

struct mp_operators {
    struct mp_operator_of {
        uint32_t call;   /* the stack of its call: those of one call have the same; 0: not known */
        uint16_t number; /* of the operator in the table, from 1 on; 0: none that is known */
        uint16_t node;   /* likewise, of the node of autograd's graph that runs, in backward */
    } * of_stack;
    bool stops_early; /* PyTorch 2.1 and newer: recomputation is over with the last tensor that is saved again */
};

void mp_operators_find(const struct mp_model *model, struct mp_operators *operators);
void mp_operators_free(struct mp_operators *operators);

enum mp_operator_saves mp_operator_saves(unsigned number);
/* True if two have a node of the same name in autograd's graph, as an operator's and that of its backward. */
bool mp_operators_match(unsigned one, unsigned other);

#endif
