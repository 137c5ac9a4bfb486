/* `memprof plan --try KEY=VALUE,...`: plans a server with its given settings, with each setting of the option, and with
 * all of them. */
#pragma once

#include "cli/invocation.h"

/* Main thread. Returns an exit status. */
int mp_plan_try(const struct mp_invocation *invocation);
