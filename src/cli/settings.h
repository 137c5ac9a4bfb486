/* Takes settings that are not on the command line from the file of --config, then from the variable MEMPROF_CONF. */
#pragma once

#include "cli/options.h"

/* Fills in the values missing from `invocation`. Returns an exit status; if it is not 0, a message was printed. */
int mp_settings_take(struct mp_invocation *invocation);

/* Called if a command could not use a value: prints the origin of each value that came from a setting. */
void mp_settings_name_origins(const struct mp_invocation *invocation);
