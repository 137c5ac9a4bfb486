/* The options of `memprof compare` that say what grew too much, and by which figure sites are compared. */
#pragma once

#include <stdint.h>

#include "analysis/sites/profile.h"
#include "cli/invocation.h"

struct mp_compare_limit {
    uint64_t bytes;
    double percent; /* negative: the limit is in bytes */
};

/* Reads --max-growth and --of. Returns an exit status, after a message if it is not 0. `sense` stays unchanged without
 * --of. */
int mp_compare_options(const struct mp_invocation *invocation, struct mp_compare_limit *limit,
                       enum mp_profile_of *sense);
