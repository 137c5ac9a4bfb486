/*
 * Growth of each site: its bytes at the last boundary between steps less its bytes at the middle one, per step.
 * Boundaries lie at the same phase of a step, so blocks that live within one step do not count. Growth alone is no
 * leak: a cache that fills grows, too. Pure.
 */
#pragma once

#include "base/map.h"
#include "model/spans.h"

struct mp_site_growths {
    struct mp_map by_site;     /* key: track and stack; value: bytes gained, modulo 2^64 */
    MP_VEC(uint64_t) by_track; /* likewise */
    uint64_t steps;            /* steps of the growth; 0: too few, so nothing is known */
};

void mp_site_growths_find(const struct mp_model *model, const struct mp_steps *steps, struct mp_site_growths *growths);
/* Bytes per step. */
double mp_site_growth(const struct mp_site_growths *growths, uint16_t track, uint32_t stack);
/* Bytes per step of a whole track, including sites that hold nothing now. */
double mp_track_growth(const struct mp_site_growths *growths, uint16_t track);
void mp_site_growths_free(struct mp_site_growths *growths);
