/* `memprof plan --size batch=N`: finds the largest number with which the command fits by planning it repeatedly. */
#ifndef MP_CLI_PLAN_SIZE_H
#define MP_CLI_PLAN_SIZE_H

#include "cli/options.h"
#include "cli/record/plan_devices.h"

/* Main thread. Returns an exit status. */
int mp_plan_size(const struct mp_invocation *invocation, const struct mp_plan_device *device);

#endif
