/*
 * Autograd's operators, from the native frames of stacks: they show which operator made a block, and when it saves
 * tensors for backward. Pure; the result is the caller's.
 */
#pragma once

#include "model/model.h"

enum mp_operator_saves {
    MP_SAVES_UNKNOWN, /* no known operator, or one with its own formula */
    MP_SAVES_NOTHING, /* no tensor, only shapes */
    MP_SAVES_INPUTS,  /* before the operator allocates */
    MP_SAVES_RESULTS  /* inputs or results, after the operator's last allocation */
};

struct mp_operators {
    struct mp_operator_of {
        uint32_t call;   /* stack of the operator's call: blocks of one call have the same; 0: not known */
        uint16_t number; /* the operator's row in the table, from 1 on; 0: not known */
        uint16_t node;   /* the row of the node of autograd's graph that runs in backward; 0: none */
    } * of_stack;
    bool stops_early; /* PyTorch 2.1 and newer: recomputation ends at the last saved tensor */
};

void mp_operators_find(const struct mp_model *model, struct mp_operators *operators);
void mp_operators_free(struct mp_operators *operators);

enum mp_operator_saves mp_operator_saves(unsigned number);
/* True if both have a node of the same name in autograd's graph, such as an operator and its backward. */
bool mp_operators_match(unsigned one, unsigned other);
