/* Help, manual and completion, all from the tables of commands and options. Each returns an exit status. */
#pragma once

#include "base/buffer.h"
#include "cli/command.h"

int mp_help_of_all(void);
int mp_help_of_command(const struct mp_command *command);
int mp_help_version(void);
