/*
 * Growth by fragmentation: an allocator reserves more and more while its allocated bytes do not grow. An example of 64
 * steps: reserved rises from 400 to 600 MiB in nine steps, and allocated stays at 350 MiB. Pure.
 */
#pragma once

#include "analysis/leaks/leak_finding.h"
#include "analysis/leaks/leak_places.h"

/* Adds a finding for each fragmenting track whose allocator reports its total. `only`: MP_TRACK_NONE: all tracks. */
void mp_leak_find_fragmentation(const struct mp_model *model, const struct mp_steps *steps, uint16_t only,
                                const struct mp_leak_places *places, struct mp_leak_findings *findings);
