/* What kind of leak a place is, by what its blocks and stacks show. Pure. */
#ifndef MP_ANALYSIS_LEAK_CLASS_H
#define MP_ANALYSIS_LEAK_CLASS_H

#include "analysis/leak_places.h"
#include "analysis/leaks.h"

/* False where memory is short. */
bool mp_leak_classify(const struct mp_model *model, const struct mp_leak_places *places,
                      const struct mp_leak_place *place, const struct mp_leak_evidence *evidence,
                      enum mp_leak_class *class);
/* Whether blocks of the stack are what torch.optim.LBFGS remembers of its last changes: as many as its history_size,
 * which is this where a program does not set it. Until then they are no leak. False where memory is short. */
#define MP_LEAK_HISTORY 100
bool mp_leak_is_history(const struct mp_model *model, uint32_t stack, bool *yes);
/* Fragmentation of every track whose allocator reports what it holds: adds findings. False where memory is short. */
bool mp_leak_find_fragmentation(const struct mp_model *model, const struct mp_steps *steps, uint16_t track,
                                const struct mp_leak_places *places, struct mp_leaks *leaks);

#endif
