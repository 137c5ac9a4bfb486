/* Commands and options that earlier versions had, or that users expect. A message says what to use in their place.
 * Help, manual and completion do not list them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Both functions print the message and return true if the name is in the list; else they print nothing. */
bool mp_gone_command(const char *name);
/* `command` NULL: any command, as in a file of settings. The name has no dashes and need not end after `length`. */
bool mp_gone_option(const char *command, const char *name, size_t length);
