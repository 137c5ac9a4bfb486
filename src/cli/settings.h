/* Settings not given on the command line: from the file of --config, then from the variable MEMPROF_CONF. */
#ifndef MP_CLI_SETTINGS_H
#define MP_CLI_SETTINGS_H

#include "cli/options.h"

/* Fills what `invocation` has no value for. Returns an exit status; a message was written where it is not 0. */
int mp_settings_take(struct mp_invocation *invocation);

/* For a command that could not use a value: says of each that a setting gave, where it came from. */
void mp_settings_name_origins(const struct mp_invocation *invocation);

#endif
