/*
 * Stacks as a profile of pprof (profile.proto, gzip-compressed). Sample types are bytes and blocks at the peak, at the
 * end, allocated in all, and, on request, at a moment. Labels are track, device, layer, step and region. Texts become
 * UTF-8.
 */
#pragma once

#include <stdio.h>

#include "analysis/sites/profile.h"

/* One recording's samples, by place. */
struct mp_pprof_side {
    const struct mp_model *model;
    const struct mp_profile *profile;
};

struct mp_pprof_export {
    struct mp_pprof_side of;
    struct mp_pprof_side before; /* model NULL: none; else its samples are subtracted, as pprof -diff_base does */
    enum mp_profile_of sense;    /* the sample type that pprof shows first; MP_PROFILE_AT also adds its two sample
                                  * types */
};

enum mp_status mp_pprof_export(const struct mp_pprof_export *export, FILE *out, struct mp_error *error);
