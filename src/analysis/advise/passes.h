/*
 * Forward and backward as they allocate, operator by operator: which allocations one operator makes, what a module's
 * parameters are, and when a result that backward alone needs would be let go of in forward. Pure.
 */
#ifndef MP_ANALYSIS_PASSES_H
#define MP_ANALYSIS_PASSES_H

#include "analysis/advise/estimator.h"
#include "analysis/advise/operators.h"
#include "base/map.h"

struct mp_pass_act {
    uint32_t event, block, module, stack;
    uint32_t first, next; /* the first act of its operator, and the first behind it */
};

struct mp_passes {
    const struct mp_estimator *e;
    struct mp_operators operators;
    MP_VEC(struct mp_pass_act) acts; /* of forward and backward, without scalars */
    uint32_t *made_by;               /* by block: the act */
    struct mp_map parameters;        /* by module: the bytes of its parameters; use mp_pass_parameters() */
    struct mp_map sizes;             /* by module and bytes: the parameter's; use mp_pass_has_parameter() */
};

void mp_passes_find(const struct mp_estimator *e, struct mp_passes *passes);
void mp_passes_free(struct mp_passes *passes);

uint64_t mp_pass_bytes(const struct mp_passes *passes, uint32_t block);
unsigned mp_pass_phase(const struct mp_passes *passes, size_t act);
/* The first act of an act's operator, and the first behind it. */
size_t mp_pass_first(const struct mp_passes *passes, size_t act);
size_t mp_pass_next(const struct mp_passes *passes, size_t act);
/* The event of that act, or the one behind the last of all. */
uint32_t mp_pass_after(const struct mp_passes *passes, size_t next);
uint64_t mp_pass_parameters(const struct mp_passes *passes, uint32_t module);
/* Whether a parameter of the module itself has as many bytes. */
bool mp_pass_has_parameter(const struct mp_passes *passes, uint32_t module, uint64_t bytes);
const struct mp_operator_of *mp_pass_operator(const struct mp_passes *passes, size_t act);
/* Whether it adds two results, one of which may be what came into the module. */
bool mp_pass_is_sum(const struct mp_passes *passes, size_t act);
/* When forward lets go of a result that it reads last with the operator that ends before `after`, where backward does
 * not keep it: a sum's with the next sum, others' at once. `at`: an act of that operator. */
uint32_t mp_pass_let_go(const struct mp_passes *passes, size_t at, uint32_t block, uint32_t after);
/* A block beside the others, for a change. 0 bytes: none. */
void mp_pass_add(const struct mp_passes *passes, struct mp_change *change, uint32_t like, uint64_t bytes, uint32_t made,
                 uint32_t gone);

#endif
