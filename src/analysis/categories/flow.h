/*
 * Facts about a block from the log of operators: whether backward made it or reads it, and whether it was computed from
 * parameters. Pure; the result is the caller's.
 */
#pragma once

#include "model/model.h"

enum mp_flow {
    MP_FLOW_TOLD = 1,     /* an operator made the block; without this bit the others say nothing */
    MP_FLOW_BACKWARD = 2, /* a node of backward ran that operator */
    MP_FLOW_SAVED = 4,    /* not of backward, but a node of backward reads it */
    MP_FLOW_DERIVED = 8,  /* computed from a parameter (by the program's labels) outside of backward */
    MP_FLOW_READ = 16,    /* an operator that makes derived blocks reads it */
    MP_FLOW_GRADIENT = 32 /* autograd makes it a parameter's gradient, or adds to it */
};

/* By block, bits of enum mp_flow; NULL: there is no log. */
unsigned char *mp_flow_find(const struct mp_model *model);
