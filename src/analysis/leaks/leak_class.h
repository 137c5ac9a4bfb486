/* The class of a leak, from its blocks, their stacks and their holders. Pure. */
#pragma once

#include "analysis/leaks/leak_finding.h"
#include "analysis/leaks/leak_places.h"

enum mp_leak_class mp_leak_classify(const struct mp_model *model, const struct mp_leak_places *places,
                                    const struct mp_leak_place *place, const struct mp_leak_evidence *evidence);
/* True for a segment that a caching allocator divides into blocks: another track has these blocks one by one. */
bool mp_leak_is_segment(const struct mp_model *model, const struct mp_leak_place *place);
