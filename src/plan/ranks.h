/* `memprof plan --rank all`: plans one rank of each kind (each stage of a pipeline), and says which rank has the
 * highest peak. */
#pragma once

#include "cli/invocation.h"
#include "plan/devices.h"

/* Main thread. Returns an exit status. */
int mp_plan_ranks(const struct mp_invocation *invocation, const struct mp_plan_device *device);
