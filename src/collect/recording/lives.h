/*
 * Blocks that outlived a step, while the program runs: evidence for the rule of analysis/leaks/leak_rule.h in bounded
 * memory. A unit is one step at first; its length doubles whenever there are too many units or too many ended lives,
 * and lives that then lie within one unit are forgotten. So the rule sees a long run as it sees a short one, with fewer
 * boundaries. The ledger has the births of live blocks. One thread at a time.
 */
#ifndef MP_COLLECT_LIVES_H
#define MP_COLLECT_LIVES_H

#include "model/state/ledger.h"

#define MP_LIVES_UNITS 2048
#define MP_LIVES_ENDED (UINT32_C(1) << 17)

/* A block that was freed in a later unit than it was born in. Units from 0. */
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

/* A step begins. Marked steps make an optimizer's void. */
void mp_lives_step(struct mp_lives *lives, struct mp_ledger *ledger, enum mp_lives_source source, uint64_t time_ns);
/* The block ledger->freed has ended. */
void mp_lives_end(struct mp_lives *lives, const struct mp_ledger *ledger);
/* The unit of a step as the ledger counts births (from 1; 0: before the first, which has none). */
static inline uint32_t mp_lives_unit(const struct mp_lives *lives, uint32_t step)
{
    return (step - 1) >> lives->shift;
}
void mp_lives_free(struct mp_lives *lives);

#endif
