/*
 * Blocks that outlived a step, while the program runs: evidence for the rule of analysis/leaks/leak_rule.h in bounded
 * memory. A unit is one step at first. Its length doubles whenever there are too many units or ended lives. Lives that
 * then lie within one unit are forgotten. The rule thus sees a long run like a short one, with fewer boundaries. Births
 * of live blocks are in the ledger. One thread at a time.
 */
#pragma once

#include <stdint.h>

#include "base/vec.h"
#include "model/state/ledger.h"

#define MP_LIVES_UNITS 2048
#define MP_LIVES_ENDED (UINT32_C(1) << 17)

/* A block that was freed in a later unit than it was born. Units count from 0. */
struct mp_life {
    uint64_t bytes;
    uint32_t stack;
    uint16_t birth, death;
    uint16_t track;
    uint8_t kind;
};

enum mp_lives_source { MP_LIVES_NONE, MP_LIVES_OPTIMIZER, MP_LIVES_MARKED };

struct mp_lives {
    enum mp_lives_source source; /* of the steps */
    uint32_t steps;              /* begun so far */
    uint32_t shift;              /* a unit is 1 << shift steps */
    MP_VEC(struct mp_life) ended;
    MP_VEC(uint64_t) begun_ns; /* by unit */
};

/* Call it when a step begins. The first marked step discards the steps of optimizers. */
void mp_lives_step(struct mp_lives *lives, struct mp_ledger *ledger, enum mp_lives_source source, uint64_t time_ns);

/* Call it when the block ledger->freed has ended. */
void mp_lives_end(struct mp_lives *lives, const struct mp_ledger *ledger);

/* The unit of a step. Steps count from 1, as in the ledger's births; step 0, before the first, has no unit. */
static inline uint32_t mp_lives_unit(const struct mp_lives *lives, uint32_t step)
{
    return (step - 1) >> lives->shift;
}
void mp_lives_free(struct mp_lives *lives);
