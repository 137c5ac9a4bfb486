/*
 * Flame graphs for other programs: folded stacks (read by flamegraph.pl, inferno, speedscope and others) and
 * speedscope's own JSON. With a side MP_BEFORE the folded form has two numbers per line, as difffolded.pl makes them.
 * speedscope gets four profiles: both recordings, additions and removals.
 */
#pragma once

#include <stdio.h>

#include "analysis/sites/flames.h"

struct mp_flame_export {
    const struct mp_flames *flames;
    const char *name;  /* the recording's name */
    const char *sense; /* "peak", ... */
    bool differential;
    bool compress;
};

enum mp_status mp_folded_export(const struct mp_flame_export *export, FILE *out, struct mp_error *error);
enum mp_status mp_speedscope_export(const struct mp_flame_export *export, FILE *out, struct mp_error *error);
