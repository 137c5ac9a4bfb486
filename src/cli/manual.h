/* The manual pages, from the same tables as --help. */
#pragma once

#include "base/buffer.h"
#include "cli/command.h"

/* roff, for man(1); `command` NULL: the page of memprof itself */
void mp_manual_write(struct mp_buffer *out, const struct mp_command *command);
