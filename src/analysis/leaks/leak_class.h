/* The class of a leak, from its blocks, their stacks and their holders. Pure. */
#pragma once

#include "analysis/leaks/leak_places.h"
#include "analysis/leaks/leaks.h"

enum mp_leak_class mp_leak_classify(const struct mp_model *model, const struct mp_leak_places *places,
                                    const struct mp_leak_place *place, const struct mp_leak_evidence *evidence);
