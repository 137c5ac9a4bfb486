/* Completion of command lines in bash, zsh and fish, from the tables of commands and options. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"

/* `shell`: bash, zsh or fish; false: another */
bool mp_completion_write(struct mp_buffer *out, const char *shell);
