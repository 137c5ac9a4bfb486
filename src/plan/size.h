/* `memprof plan --size batch=N`: finds the largest number with which the command fits by planning it repeatedly. */
#pragma once

#include "cli/invocation.h"
#include "plan/devices.h"

/* Main thread. Returns an exit status. */
int mp_plan_size(const struct mp_invocation *invocation, const struct mp_plan_device *device);
