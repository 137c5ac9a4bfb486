/* `memprof plan --rank all`: plans one rank of each kind, which are the stages of a pipeline, and says which is
 * highest. */
#pragma once

#include "cli/options.h"
#include "cli/record/plan_devices.h"

/* Main thread. Returns an exit status. */
int mp_plan_ranks(const struct mp_invocation *invocation, const struct mp_plan_device *device);
