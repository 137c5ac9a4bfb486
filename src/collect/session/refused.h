/*
 * Processes that could not be recorded. Each is counted, and the first few are named. The file of the nearest recorded
 * ancestor, or the command's file, gets a note about it. A process that later gets descriptors or an answer withdraws
 * its refusal. One thread at a time.
 */
#pragma once

#include "collect/session/collector_parts.h"

/* `name` NULL: uses the kernel's name. `pid` 0: not known. */
void mp_refused_add(struct mp_refused *refused, uint32_t pid, const char *name, const struct mp_error *why);
/* Moves the processes below process `above` to *refused; 0: all processes. A running process may still be recorded, so
 * it is moved only if `ending` is set. */
void mp_refused_take(const struct mp_collector *collector, uint32_t above, bool ending, struct mp_refused *refused);
void mp_refused_merge(struct mp_refused *into, const struct mp_refused *from);
