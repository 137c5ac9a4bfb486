/*
 * The memory of each stack on a track in four senses: at the peak, at the end, at a moment, and allocated in all. Pure;
 * the result is the caller's.
 */
#pragma once

#include "base/intern.h"
#include "model/filter.h"
#include "model/window.h"

enum mp_profile_of {
    MP_PROFILE_PEAK,
    MP_PROFILE_OUTSTANDING, /* live at the end of the window */
    MP_PROFILE_ALLOCATED,   /* allocated in the window, freed or not */
    MP_PROFILE_AT,          /* live at query->at */
    MP_PROFILE_SENSES
};

struct mp_profile_query {
    uint16_t track;
    struct mp_window window;
    const struct mp_filter *filter;
    uint32_t at;   /* a moment; MP_NONE: none, and MP_PROFILE_AT stays 0 */
    bool by_place; /* splits samples by step and region of the allocation */
};

struct mp_profile_value {
    uint64_t bytes, blocks; /* a block of unknown size counts with 0 bytes */
};

struct mp_profile_sample {
    uint32_t stack;
    uint32_t step;   /* 0: before the first, or not by_place */
    uint32_t region; /* a string id; MP_NONE: none, or not by_place */
    bool base;       /* live before the recording began: with an unknown site, the stack is empty */
    struct mp_profile_value values[MP_PROFILE_SENSES];
};

struct mp_profile {
    uint16_t track;
    uint64_t peak_ns;
    struct mp_profile_value sums[MP_PROFILE_SENSES];
    MP_VEC(struct mp_profile_sample) samples; /* no sample is 0 in all senses */
    struct mp_intern keys;                    /* sample N has key N + 1; samples of the past come last and have none */
};

void mp_profile_make(const struct mp_model *model, const struct mp_profile_query *query, struct mp_profile *profile);
void mp_profile_free(struct mp_profile *profile);
